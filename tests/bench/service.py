"""Memory of each process of the service beside the limits of its unit, at ten times the events.

Usual is stated, not measured: one event a minute, where a simulated bad day has fifty in all. So a
day at ten times of that is 14,400 events. They are made here as fast as the agent tells each of
them, which is harder: nothing has time to rest. A diagnosis runs meanwhile, in the agent's unit.
The relay hears 1,000 such nodes.
"""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from bench import processes
from bench.processes import children, name_of
from bench.rig import Impossible, Rig
from bench.rows import Row, row
from support.broker import MOSQUITTO, Broker, Collector, wait_until
from support.oncall import ALERTMANAGER, Alertmanager, RelayProcess, Webhook
from support.swarm import Swarm, SwarmNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.rig import Agent

USUAL_A_MINUTE, TIMES = 1.0, 10
DAY_MIN = 1440
EVENTS, QUICK_EVENTS = int(USUAL_A_MINUTE * TIMES * DAY_MIN), 1000
NODES, QUICK_NODES = 1000, 100
RELAY_S, QUICK_RELAY_S = 60.0, 5.0
LOOK_S = 0.2
FLIP_S = 0.01
UNITS = Path(__file__).resolve().parents[2] / "systemd"
SIZES = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


def run(*, quick: bool = False) -> list[Row]:
    """Measure the node's units, then the relay's."""
    if not Path(ALERTMANAGER).exists() or not Path(MOSQUITTO).exists():
        raise Impossible("mosquitto or Alertmanager is not installed")
    node = _node(QUICK_EVENTS if quick else EVENTS)
    return [*node, *_relay(QUICK_NODES if quick else NODES, QUICK_RELAY_S if quick else RELAY_S)]


class Peak:
    """Looks again and again at the memory of processes, and keeps the most of their sum."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self.most_mb = 0.0
        self._pids, self._ending = pids, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ending.wait(LOOK_S):
            with suppress(OSError, KeyError):  # one of them has just ended
                found = sum(processes.memory(pid).rss for pid in self._pids())
                self.most_mb = max(self.most_mb, found / 1024)

    def end(self) -> float:
        """Look no more; return the most in MB."""
        self._ending.set()
        self._thread.join()
        return self.most_mb


def _node(count: int) -> list[Row]:
    with Rig() as rig:
        fleet = rig.start_fleet()
        agent = rig.start_agent()
        quiet_mb = processes.memory(agent.pid).rss / 1024
        alone = Peak(lambda: [agent.pid])
        unit = Peak(lambda: [agent.pid, *_helpers(agent)])
        broker = Peak(lambda: [agent.broker_pid])
        with rig.namespace.enter():
            operator = Collector(fleet.port, "linkhold/v1/+/+/diag/#", "linkhold/v1/+/+/event/#")
        began_s = time.monotonic()
        told = _flip(rig, agent, operator, count)
        wait_until(lambda: _is_quiet(agent), 120, "all events are at the fleet")
        minutes = (time.monotonic() - began_s) / 60
        answers = len(operator.on("/diag/"))
        operator.close()
        assert answers, "no diagnosis was answered"
        return [
            row("agent: events", "", told),
            row("agent: events a minute", "", told / minutes),
            row("agent: diagnoses meanwhile", "", answers),
            row("agent, quiet: RSS", "MB", quiet_mb),
            _within("agent: most RSS", alone.end(), "linkhold.service"),
            _within("agent and its helpers: most RSS", unit.end(), "linkhold.service"),
            _within("agent's broker: most RSS", broker.end(), "linkhold-broker.service"),
        ]


def _helpers(agent: Agent) -> list[int]:
    """Return the processes of the agent's unit; its broker has a unit of its own."""
    return [pid for pid in children(agent.pid) if name_of(pid) != "mosquitto"]


def _flip(rig: Rig, agent: Agent, operator: Collector, count: int) -> int:
    """Flip the link until the agent has told so many events; return how many it has."""
    asked = 0
    while (told := len(operator.on("/event/"))) < count:
        if asked < 3 * told / count:
            asked += 1
            body = json.dumps({"id": f"bench-{asked}"}).encode()
            node = agent.state()["node"]
            operator.publish(f"linkhold/v1/default/{node}/cmd/diagnose", body, expiry_s=60)
        for number in range(100):
            rig.flipper.flip(up=bool(number % 2))
            time.sleep(FLIP_S)
    return told


def _is_quiet(agent: Agent) -> bool:
    return agent.state()["detail"]["agent"]["pending"] == 0 and not _helpers(agent)


def _relay(count: int, seconds: float) -> list[Row]:
    """Have a relay hear so many nodes, each at ten times the usual rate."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        webhook = Webhook()
        stack.callback(webhook.close)
        broker = Broker(folder / "broker", "max_inflight_messages 1000")
        stack.callback(broker.kill)
        broker.start()
        alertmanager = Alertmanager(folder / "am", webhook)
        stack.callback(alertmanager.kill)
        alertmanager.start()
        relay = RelayProcess(folder / "relay", "relay", [broker], [alertmanager.url])
        stack.callback(relay.kill)
        relay.start()
        wait_until(lambda: "as linkhold-relay-relay " in broker.log(), 30, "connected")
        swarm = Swarm(broker.port, [SwarmNode("lab", f"n{n}") for n in range(count)])
        stack.callback(swarm.close)
        assert relay.process is not None
        pid = relay.process.pid
        peak = Peak(lambda: [pid])
        swarm.connect()
        sent = _talk(swarm, count * USUAL_A_MINUTE * TIMES / 60, seconds)
        return [
            row(f"relay, {count} nodes: events a minute", "", sent / seconds * 60),
            _within(f"relay, {count} nodes: most RSS", peak.end(), "linkhold-relay.service"),
        ]


def _talk(swarm: Swarm, per_s: float, seconds: float) -> int:
    """Send events and states at a rate; return how many events."""
    began_s, sent = time.monotonic(), 0
    while (passed_s := time.monotonic() - began_s) < seconds:
        while sent < passed_s * per_s:
            node = swarm.nodes[sent % len(swarm.nodes)]
            swarm.send(node, "event/link.down", node.event("link.down", "eth0", carrier=False))
            swarm.send(node, "state", node.state(), retain=True)
            sent += 1
        swarm.serve(0.01)
    return sent


def _within(what: str, most_mb: float, unit: str) -> Row:
    """Return a row beside MemoryMax of a unit, which must stay below its MemoryHigh."""
    limits = limits_mb(unit)
    soft = limits.get("MemoryHigh", limits["MemoryMax"])
    return row(what, "MB", most_mb, reference=limits["MemoryMax"], most=soft)


def limits_mb(unit: str) -> dict[str, float]:
    """Return MemoryHigh and MemoryMax of a shipped unit, in MB."""
    text = (UNITS / unit).read_text(encoding="utf-8")
    found = re.findall(r"(?m)^(Memory(?:High|Max))=(\d+)([KMG])$", text)
    return {name: int(number) * SIZES[letter] for name, number, letter in found}
