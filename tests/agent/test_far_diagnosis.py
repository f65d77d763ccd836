"""A diagnosis that the fleet asks for, and one that is made here and published."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.broker import Collector, wait_until
from support.places import as_nobody
from support.running import ENVIRONMENT, LINKHOLD, Running, TiedBroker, agent_of, fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.netns import Namespace

PREFIX = "linkhold/v1/lab/n1"
COMMAND = f"{PREFIX}/cmd/diagnose"
TARGET = (
    "paths: {targets: [{name: api, http: 'http://127.0.0.1:1/x?token=geheim'}], metadata: never}\n"
)
STATES = {"healthy": 0, "degraded": 1, "down": 2, "unknown": 3}


def request(identity: str, **more: str) -> bytes:
    """Return the body of a command."""
    return json.dumps({"id": identity, **more}).encode()


def reports(fleet: Collector, identity: str = "") -> list[dict[str, Any]]:
    """Return the answers that arrived on diag/<id>."""
    found = fleet.on(f"/diag/{identity}")
    assert not any(message.retained for message in found)
    return [json.loads(message.payload) for message in found]


def start(agent: Running) -> Running:
    """Start an agent and wait for its fleet."""
    agent.start().wait_ready()
    agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith("up"))
    return agent


def child_of(agent: Running) -> int:
    """Return the process that diagnoses for this agent, 0 without one."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if b"diagnose_child" in command and parent == agent.pid:
                return int(folder.name)
    return 0


def test_a_command_of_the_fleet_is_answered_with_a_report(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """One report on diag/<id>, not retained, without secrets; more commands are refused."""
    broker = fleets().start()
    fleet = collect(broker)
    fleet.publish(COMMAND, request("kept"), expiry_s=900, retain=True)
    agent = start(agents(fleet_config(broker.port, more=TARGET)))
    for payload in (
        b"",
        b"\xff",
        b"{}",
        b'{"id": "x", "target": "192.0.2.1"}',
        os.urandom(100_000),
    ):
        fleet.publish(COMMAND, payload, expiry_s=60)
    fleet.publish(COMMAND, request("kept-now"), expiry_s=900, retain=True)
    fleet.publish(COMMAND, request("timeless"))
    fleet.publish(COMMAND, request("past"), expiry_s=0)
    fleet.publish(f"{PREFIX}/cmd/diagnose/deeper", request("deep"), expiry_s=60)
    fleet.publish("linkhold/v1/lab/n2/cmd/diagnose", request("foreign"), expiry_s=60)
    fleet.publish(COMMAND, request("night-1", since="15m"), expiry_s=60)
    for number in range(40):
        fleet.publish(COMMAND, request(f"flood-{number}"), expiry_s=60)
    wait_until(lambda: reports(fleet, "night-1"), 20)

    found = reports(fleet, "night-1")
    assert len(found) == 1
    report = found[0]
    assert (report["id"], report["outcome"], report["since"]) == ("night-1", "done", "15m")
    assert report["state"] in STATES
    assert report["sentence"]
    assert {"links", "gateway", "targets"} <= {row["step"] for row in report["evidence"]}
    assert "geheim" not in json.dumps(report)
    assert "***" in json.dumps(report)
    refused = [one for one in reports(fleet) if one["outcome"] == "refused"]
    assert 1 <= len(refused) <= 4
    assert all(one["id"].startswith("flood-") and one["why"] for one in refused)
    assert len(reports(fleet)) == 1 + len(refused)
    late = collect(broker, f"{PREFIX}/diag/#")
    time.sleep(0.2)
    assert not late.messages

    def counted(state: dict[str, Any]) -> bool:
        counts = agent_of(state)["counters"]
        return bool(counts["diagnoses_unanswered"] + counts["diagnoses_refused"] == 40)

    counts = agent_of(agent.wait_for(counted))["counters"]
    assert counts["diagnoses_taken"] == 1
    assert counts["diagnoses_ignored"] >= 7
    lines = [line for line in agent.log().splitlines() if "on cmd/diagnose was ignored" in line]
    assert len(lines) == len({line.rpartition("ignored:")[2] for line in lines}) == 3
    assert child_of(agent) == 0


@pytest.fixture
def hung(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> tuple[Running, Collector, int]:
    """An agent, who listens to the fleet, and the stopped child of a diagnosis called ``hung``."""
    broker = fleets().start()
    fleet = collect(broker)
    agent = start(agents(fleet_config(broker.port)))
    fleet.publish(COMMAND, request("hung"), expiry_s=60)
    wait_until(lambda: child_of(agent))
    child = child_of(agent)
    wait_until(lambda: os.getpriority(os.PRIO_PROCESS, child) == 10)
    os.kill(child, signal.SIGSTOP)
    return agent, fleet, child


def test_the_reflex_goes_on_while_a_diagnosis_hangs(
    ns: Namespace, hung: tuple[Running, Collector, int]
) -> None:
    """A stopped child, at low priority, holds up nothing; its end is told."""
    agent, fleet, child = hung

    for network, up in (("down", False), ("ok", True)):
        began_s = time.monotonic()
        ns.flip(ns.index("p0"), up=up)
        _reached(agent, network)
        assert time.monotonic() - began_s < 1
    assert agent.cli("status").returncode == 0
    assert not reports(fleet)

    os.kill(child, signal.SIGKILL)
    wait_until(lambda: reports(fleet, "hung"), 5)
    report = reports(fleet, "hung")[0]
    assert (report["outcome"], "ended with -9" in report["why"]) == ("failed", True)


def test_a_command_that_expired_in_the_broker_is_not_carried_out(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """The broker keeps the session of an agent that died for some seconds, and the command not."""
    broker = fleets().start()
    fleet = collect(broker)
    agent = start(agents(fleet_config(broker.port)))
    agent.kill()
    fleet.publish(COMMAND, request("late"), expiry_s=1)
    fleet.publish(COMMAND, request("lasting"), expiry_s=60)
    time.sleep(2.1)
    start(agent)
    agent.wait_for(lambda s: agent_of(s)["counters"]["diagnoses_taken"] == 1)

    assert not reports(fleet, "late")
    wait_until(lambda: reports(fleet, "lasting"), 15)


def _reached(agent: Running, network: str) -> None:
    agent.wait_for(lambda s: s["network"] == network, 2)


def test_an_agent_that_ends_takes_its_diagnosis_along(
    hung: tuple[Running, Collector, int],
) -> None:
    """Also when it is killed: no process of linkhold is left behind."""
    agent, _, child = hung
    agent.kill()
    wait_until(lambda: not Path(f"/proc/{child}").exists(), 5)


def test_a_report_of_this_node_is_published_by_its_agent(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """`diagnose --publish`: the same report; 69 without listener, fleet or agent, or as nobody."""
    broker = fleets().start()
    agent = start(agents(fleet_config(broker.port)))
    alone = agent.cli("diagnose", "--json", "--publish")
    assert alone.returncode == 69
    assert "nobody is subscribed" in alone.stderr
    assert json.loads(alone.stdout)["not_published"].startswith("the broker took it")

    fleet = collect(broker)
    done = agent.cli("diagnose", "--json", "--publish")
    printed = json.loads(done.stdout)
    assert done.returncode == STATES[printed["state"]]
    wait_until(lambda: reports(fleet, "cli-"))
    report = reports(fleet, "cli-")[0]
    assert printed["published"] == f"{PREFIX}/diag/{report['id']}"
    assert (report["sentence"], report["outcome"]) == (printed["sentence"], "done")

    code, text = run_as_nobody(agent, "diagnose", "--publish")
    assert code == 69
    assert "only root" in text
    agent.stop()
    gone = agent.cli("diagnose", "--publish")
    assert gone.returncode == 69
    assert "not published: no agent answers" in gone.stderr
    assert gone.stdout.startswith(("HEALTHY", "DEGRADED", "DOWN", "UNKNOWN"))


def run_as_nobody(agent: Running, *words: str) -> tuple[int, str]:
    """Run a command of linkhold as nobody against this agent; return exit code and stderr."""
    done = subprocess.run(
        [*as_nobody(agent.place), str(LINKHOLD), *words],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
        env={**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(agent.run_dir), "HOME": "/"},
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr
