"""The agent on the real bonding driver, and a training process that holds because of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import Box, scenario
from support.topology import ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.host import Lab

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
TRAINING = """
import sys, time
from linkhold.client import Hold
with Hold.connect(hold_on=["network"], wait_s=5) as hold:
    for step in range(100000):
        before = time.monotonic()
        hold.step(step)
        held_s = time.monotonic() - before
        if held_s > 0.5:
            print(f"held {held_s:.1f}", flush=True)
        elif step == 0:
            print("trains", flush=True)
        time.sleep(0.05)
"""


@dataclass
class Node:
    """A guest that runs the agent."""

    run_dir: Path
    state_dir: Path
    agent: subprocess.Popen[bytes]

    @classmethod
    def start(cls, box: Box) -> Node:
        """Start the agent and wait for its first state."""
        run_dir, state_dir = box.tmp / "run", box.tmp / "state"
        box.tmp.chmod(0o755)
        os.environ |= {"LINKHOLD_RUN_DIR": str(run_dir), "LINKHOLD_STATE_DIR": str(state_dir)}
        node = cls(run_dir, state_dir, subprocess.Popen([LINKHOLD, "agent"]))
        wait_until((run_dir / "state.json").exists, "the agent is ready", timeout_s=20)
        return node

    @property
    def state(self) -> dict[str, Any]:
        """The state document now."""
        document = json.loads((self.run_dir / "state.json").read_bytes())
        assert isinstance(document, dict)
        return document

    def wait(self, what: str, check: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Wait until the state passes ``check`` and return it."""
        wait_until(lambda: check(self.state), what, timeout_s=10)
        return self.state

    def events(self) -> list[dict[str, Any]]:
        """Return all events so far, oldest first."""
        asked = subprocess.run(
            [LINKHOLD, "events", "--json"], capture_output=True, check=True, timeout=30
        )
        return [json.loads(line) for line in asked.stdout.splitlines()]

    def stop(self) -> int:
        """End the agent and return its exit code."""
        self.agent.send_signal(signal.SIGTERM)
        return self.agent.wait(timeout=10)


@scenario(timeout_s=60)
def failover(box: Box) -> dict[str, object]:
    """Pull the active member's cable under the agent, plug it in, take the other member out."""
    net = box.two_switches()
    net.make_bond(miimon_ms=50, primary_reselect="failure")
    node = Node.start(box)
    whole = node.state
    net.pull_cable(0)
    degraded = node.wait(
        "degraded", lambda s: bool(s["detail"]["bonds"]["bond0"]["active"] == "eth1")
    )
    net.plug_cable(0)
    node.wait("whole again", lambda s: bool(s["network"] == "ok"))
    ip("link", "set", "eth1", "nomaster")
    single = node.wait("one member", lambda s: len(s["detail"]["bonds"]["bond0"]["members"]) == 1)
    events = [(event["type"], event["subject"]) for event in node.events()]
    return {
        "whole": whole,
        "degraded": degraded,
        "single": single,
        "events": events,
        "code": node.stop(),
    }


def test_failover_is_told_as_what_it_is(lab: Lab) -> None:
    """The loss of the active member is a failover and a degraded node, and is told once each."""
    outcome = lab.run(failover)
    value: dict[str, Any] = outcome.value
    whole, degraded, single = (
        value[name]["detail"]["bonds"]["bond0"] for name in ("whole", "degraded", "single")
    )

    assert (whole["active"], whole["redundant"], whole["monitored"]) == ("eth0", True, True)
    assert value["whole"]["network"] == "ok"
    assert value["degraded"]["network"] == "degraded"
    assert "eth0 lost carrier" in value["degraded"]["cause"]
    assert not degraded["redundant"]
    assert not single["redundant"]
    events = [tuple(event) for event in value["events"]]
    for wanted in (
        ("link.down", "eth0"),
        ("bond.failover", "bond0"),
        ("bond.degraded", "bond0"),
        ("bond.restored", "bond0"),
        ("bond.member_removed", "bond0"),
    ):
        assert wanted in events
    assert events.count(("link.down", "eth0")) == 1
    assert value["code"] == 0


@scenario(timeout_s=60)
def unmonitored(box: Box) -> dict[str, Any]:
    """Look at a bond that somebody made without miimon."""
    box.two_switches().make_bond(miimon_ms=0)
    node = Node.start(box)
    alarmed = node.wait("an alert", lambda s: bool(s["alerts"]))
    return {"bond": alarmed["detail"]["bonds"]["bond0"], "alerts": alarmed["alerts"]}


def test_bond_without_monitoring_is_not_called_redundant(lab: Lab) -> None:
    """A bond with miimon 0 is said to never fail over, however many members carry."""
    value = lab.run(unmonitored).value

    assert [alert["type"] for alert in value["alerts"]] == ["bond.unmonitored"]
    assert value["bond"]["redundant"] is False


@scenario(timeout_s=90)
def held_training(box: Box) -> dict[str, object]:
    """Pull both cables under a training process, and plug one in."""
    net = box.two_switches()
    net.make_bond(miimon_ms=50, primary_reselect="failure")
    node = Node.start(box)
    training = subprocess.Popen(
        [sys.executable, "-c", TRAINING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert training.stdout is not None
    lines = [training.stdout.readline().strip()]
    net.pull_cable(0)
    net.pull_cable(1)
    down = node.wait("down", lambda s: bool(s["network"] == "down"))
    advised = node.wait("advice", lambda s: bool(s["advice"]["holds"]))
    time.sleep(3)
    net.plug_cable(1)
    lines.append(training.stdout.readline().strip())
    training.kill()
    return {
        "lines": lines,
        "cause": down["cause"],
        "uploads": advised["advice"]["uploads"],
        "leg_a": advised["detail"]["agent"]["leg_a"],
        "code": node.stop(),
    }


def test_pulled_cables_hold_a_training_process(lab: Lab) -> None:
    """With every cable of the bond out a training process holds; one cable back lets it go on."""
    value = lab.run(held_training).value

    assert value["lines"][0] == "trains"
    assert value["lines"][1].startswith("held ")
    assert 3.0 < float(value["lines"][1].split()[1]) < 15.0
    assert value["uploads"] == "hold"
    assert value["leg_a"] == "up"
    assert "bond0: 0 of 2 members" in value["cause"]
