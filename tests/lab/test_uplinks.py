"""A second line to the world: traffic to a far target while the first one fails and returns."""

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

from support.far_line import FAR, FAR_6, Far, Stream
from support.lab import Box, scenario
from support.topology import GATEWAY_4, GATEWAY_6, ip, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

    from support.lab.host import Lab

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
CONFIG = """
mode: enforce
mqtt: {local: false}
uplinks:
- {link: bond0, targets: [203.0.113.9, "2001:db8::9"]}
- {link: usb0, targets: [203.0.113.9, "2001:db8::9"], metered: true}
uplink_policy: {up_after_s: 5}
"""


@dataclass
class Agent:
    """The real agent in mode enforce."""

    run_dir: Path
    config: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, box: Box, config: str = CONFIG) -> Self:
        """Start it and wait for its first state."""
        run_dir, state_dir = box.tmp / "run", box.tmp / "state"
        os.environ |= {"LINKHOLD_RUN_DIR": str(run_dir), "LINKHOLD_STATE_DIR": str(state_dir)}
        path = box.tmp / "linkhold.yaml"
        path.write_text(config)
        made = cls(run_dir, path, cls._run(path))
        wait_until((run_dir / "state.json").exists, "the agent is ready", timeout_s=20)
        return made

    @staticmethod
    def _run(config: Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen([LINKHOLD, "agent", "--config", str(config)])

    def restart(self) -> None:
        """Start it again after its end."""
        session = self.state["session"]
        self.process = self._run(self.config)
        wait_until(lambda: self.state["session"] != session, "the agent is back", timeout_s=20)

    @property
    def state(self) -> dict[str, Any]:
        """The state document now."""
        document = json.loads((self.run_dir / "state.json").read_bytes())
        assert isinstance(document, dict)
        return document

    @property
    def uplinks(self) -> dict[str, Any]:
        """The uplinks in the state."""
        found = self.state["detail"]["uplinks"]["links"]
        assert isinstance(found, dict)
        return found

    def wait(self, what: str, check: Callable[[dict[str, Any]], bool], s: float = 10) -> float:
        """Wait until the uplinks pass ``check``; return the seconds it took."""
        return wait_until(lambda: check(self.uplinks), what, timeout_s=s)

    def wait_alive(self) -> None:
        """Wait until both uplinks answer."""
        self.wait(
            "both alive", lambda u: bool(u) and {v["verdict"] for v in u.values()} == {"alive"}
        )

    def events(self, *types: str) -> list[dict[str, Any]]:
        """Return the events of these types, oldest first."""
        command = [LINKHOLD, "events", "--json"]
        asked = subprocess.run(command, capture_output=True, check=True, timeout=30)
        found = [json.loads(line) for line in asked.stdout.splitlines()]
        return [event for event in found if event["type"] in types]

    def end(self, number: int = signal.SIGTERM) -> int:
        """End it with a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=10)


def way(target: str) -> str:
    """Return the interface by which ``target`` is reached."""
    words = ip("route", "get", target).split()
    return words[words.index("dev") + 1]


def ours() -> str:
    """Return our rules and routes."""
    commands = (
        ["rule"],
        ["-6", "rule"],
        ["route", "show", "table", "all"],
        ["-6", "route", "show", "table", "all"],
    )
    found = "".join(ip(*command) for command in commands)
    return "\n".join(line for line in found.splitlines() if "proto 156" in line)


def build(box: Box, **wishes: Any) -> Far:
    """Return the bond, the third line and the far target."""
    net = box.two_switches()
    net.make_bond(miimon_ms=50, primary_reselect="failure")
    far = Far.create(net, **wishes)
    wait_until(lambda: net.answers(FAR) and net.answers(FAR, via="usb0"), "both lines work")
    return far


@scenario(timeout_s=90)
def dead_switches(box: Box) -> dict[str, Any]:
    """Kill both switches under traffic of both families, then revive them."""
    far = build(box)
    agent = Agent.start(box)
    agent.wait_alive()
    calm = agent.state
    with Stream() as four, Stream(FAR_6) as six:
        time.sleep(2)
        fault_s = time.monotonic()
        far.kill_switches()
        agent.wait("on usb0", lambda u: bool(u["usb0"]["active"]))
        time.sleep(2)
        outages = four.outage(fault_s), six.outage(fault_s)
        backup, status = (
            agent.state,
            subprocess.run(
                [LINKHOLD, "status"], capture_output=True, text=True, check=False
            ).stdout,
        )
        ways = way(FAR), way(FAR_6), way(GATEWAY_4), way(GATEWAY_6)
        far.revive_switches()
        agent.wait("bond0 answers", lambda u: bool(u["bond0"]["verdict"] == "alive"))
        return_s = time.monotonic()
        held_s = agent.wait("on bond0", lambda u: bool(u["bond0"]["active"]), 20)
        time.sleep(2)
        back = four.outage(return_s), six.outage(return_s)
    return {
        "calm": calm,
        "outages": outages,
        "backup": backup,
        "status": status,
        "ways": ways,
        "held_s": held_s,
        "back": back,
        "ours": ours(),
        "events": [
            (e["type"], e["subject"], e["data"])
            for e in agent.events("uplink.dead", "uplink.switched")
        ],
        "code": agent.end(),
    }


def test_traffic_moves_to_the_third_line_and_back(lab: Lab) -> None:
    """With both switches dead, traffic of both families goes on over usb0 within five seconds.

    It returns after the hold without losing anything, and leaves no route behind.
    """
    value: dict[str, Any] = lab.run(dead_switches).value
    print({key: value[key] for key in ("outages", "held_s", "back", "events")})

    assert value["calm"]["network"] == "ok"
    assert max(value["outages"]) < 5.0
    assert value["ways"] == ["usb0", "usb0", "bond0", "bond0"]
    assert value["backup"]["network"] == "degraded"
    assert "default traffic goes over usb0 (metered)" in value["backup"]["cause"]
    assert "usb0 (metered)" in value["status"]
    assert 3.0 < value["held_s"] < 9.0
    assert max(value["back"]) < 0.5
    assert value["ours"] == ""
    assert [(e[0], e[1]) for e in value["events"]] == [
        ("uplink.dead", "bond0"),
        ("uplink.switched", "usb0"),
        ("uplink.switched", "bond0"),
    ]
    assert value["code"] == 0


@scenario(timeout_s=60)
def pulled_cables(box: Box) -> dict[str, Any]:
    """Pull both cables: bond0 loses its carrier."""
    far = build(box)
    agent = Agent.start(box)
    agent.wait_alive()
    with Stream() as stream:
        time.sleep(1)
        far.net.pull_cable(0)
        fault_s = time.monotonic()
        far.net.pull_cable(1)
        agent.wait("on usb0", lambda u: bool(u["usb0"]["active"]))
        time.sleep(1)
        outage_s = stream.outage(fault_s)
    return {"outage_s": outage_s, "cause": agent.state["cause"], "code": agent.end()}


def test_lost_carrier_moves_traffic_at_once(lab: Lab) -> None:
    """When the bond has lost every cable, traffic moves without waiting for probes."""
    value: dict[str, Any] = lab.run(pulled_cables).value
    print(value)

    assert value["outage_s"] < 1.0


@scenario(timeout_s=120)
def killed_agent(box: Box) -> dict[str, Any]:
    """Kill the agent while traffic is on the third line; then heal the bond and start it again."""
    far = build(box)
    agent = Agent.start(box)
    agent.wait_alive()
    far.kill_switches()
    agent.wait("on usb0", lambda u: bool(u["usb0"]["active"]))
    with Stream() as stream:
        time.sleep(0.5)
        killed_s = time.monotonic()
        agent.end(signal.SIGKILL)
        time.sleep(2)
        agent.restart()
        agent.wait("found", lambda u: bool(u["usb0"]["active"]))
        time.sleep(3)
        outage_s = stream.outage(killed_s)
        left = ours()
        code = agent.end()
        kept = ours()
        agent.restart()
        agent.wait("found again", lambda u: bool(u["usb0"]["active"]))
        far.revive_switches()
        agent.wait("returned", lambda u: bool(u["bond0"]["active"]), 20)
        whole_s = stream.outage(killed_s)
    return {
        "outage_s": outage_s,
        "whole_s": whole_s,
        "left": left,
        "kept": kept,
        "after": ours(),
        "codes": (code, agent.end()),
    }


def test_killed_agent_leaves_traffic_where_it_is(lab: Lab) -> None:
    """A killed agent, and one that is stopped in an outage, cost nothing; the next one returns."""
    value: dict[str, Any] = lab.run(killed_agent).value
    print(value)

    assert value["outage_s"] < 0.5
    assert value["whole_s"] < 0.5
    assert value["left"] == value["kept"] != ""
    assert value["after"] == ""
    assert value["codes"] == [0, 0]


@scenario(timeout_s=90)
def stopped_agent(box: Box) -> dict[str, Any]:
    """Stop the agent while the bond answers again but is still waited for."""
    far = build(box)
    agent = Agent.start(box, CONFIG.replace("up_after_s: 5", "up_after_s: 600"))
    agent.wait_alive()
    far.kill_switches()
    agent.wait("on usb0", lambda u: bool(u["usb0"]["active"]))
    far.revive_switches()
    agent.wait("bond0 answers", lambda u: bool(u["bond0"]["verdict"] == "alive"))
    return {"code": agent.end(), "ours": ours(), "way": way(FAR)}


def test_planned_end_gives_the_routes_back_when_that_is_safe(lab: Lab) -> None:
    """An agent that ends while the preferred line answers leaves the host as it was."""
    assert lab.run(stopped_agent).value == {"code": 0, "ours": "", "way": "bond0"}


@scenario(timeout_s=60)
def meddling(box: Box) -> dict[str, Any]:
    """Remove our routes, then our rules, while traffic is on the third line."""
    far = build(box)
    agent = Agent.start(box)
    agent.wait_alive()
    far.kill_switches()
    agent.wait("on usb0", lambda u: bool(u["usb0"]["active"]))
    whole, times = ours(), []
    for command in ("route flush table 156", "rule del pref 32765"):
        ip(*command.split())
        times.append(wait_until(lambda: ours() == whole, "mended", timeout_s=15, every_s=0.1))
    return {"times": times, "ways": (way(FAR), way(FAR_6)), "code": agent.end()}


def test_removed_routes_are_made_again(lab: Lab) -> None:
    """Routes that somebody removes are made again at once, rules at the next look."""
    value: dict[str, Any] = lab.run(meddling).value
    print(value)

    assert value["times"][0] < 3.0
    assert value["times"][1] < 14.0
    assert value["ways"] == ["usb0", "usb0"]


@scenario(timeout_s=60)
def observing(box: Box) -> dict[str, Any]:
    """Kill both switches under an agent that only observes."""
    far = build(box)
    agent = Agent.start(box, CONFIG.replace("enforce", "observe"))
    agent.wait_alive()
    before = ours()
    far.kill_switches()
    wait_until(lambda: agent.state["detail"]["uplinks"]["would"] == "usb0", "a wish", timeout_s=8)
    time.sleep(1)
    return {
        "before": before,
        "ours": ours(),
        "network": agent.state["network"],
        "events": [
            (e["type"], e["subject"])
            for e in agent.events("uplink.would_switch", "uplink.switched")
        ],
        "code": agent.end(),
    }


def test_observing_agent_changes_nothing(lab: Lab) -> None:
    """In mode observe the dead line keeps its traffic, which is told as a network that is down."""
    value: dict[str, Any] = lab.run(observing).value

    assert (value["before"], value["ours"]) == ("", "")
    assert value["network"] == "down"
    assert value["events"] == [["uplink.would_switch", "usb0"]]
