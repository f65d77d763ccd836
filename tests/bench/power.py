"""What all sources of power and notices cost while nothing happens, and how soon they are heard."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench import power_latency
from bench.power_scene import Scene, nut, sensors
from bench.processes import cpu_ms, wakeups
from bench.rig import Rig
from bench.rows import Row, row
from support.broker import Collector

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.rig import Agent

ROUNDS, QUICK_ROUNDS = 6, 1
ROUND_S = 10.0
SETTLE_S = 6.0
SPEAK_S = 30.0
"""How often an idle ESP32 speaks."""
MOST_CPU_MS = 30.0
NAMES = (
    "none",
    "a UPS by NUT",
    "two sensors on MQTT",
    "Azure, spot machine",
    "Azure, no spot machine",
    "all, spot machine",
    "all, no spot machine",
)


@dataclass(frozen=True)
class Place:
    """One agent in a node of its own, with the sources of its configuration."""

    name: str
    rig: Rig
    agent: Agent
    esp: Collector

    def spent(self) -> tuple[float, float]:
        """Return CPU ms and wake-ups so far."""
        return cpu_ms(self.agent.pid), wakeups(self.agent.pid)


def run(*, quick: bool = False) -> list[Row]:
    """Measure an agent without sources, with each kind and with all, side by side.

    What one wake-up costs depends on what else the machine does, which is the same for all then.
    """
    with ExitStack() as stack:
        places = [_place(stack, name) for name in NAMES]
        time.sleep(SETTLE_S)
        spent = _watch(places, QUICK_ROUNDS if quick else ROUNDS)
    return [*_rows(spent), *power_latency.rows(quick=quick)]


def _place(stack: ExitStack, name: str) -> Place:
    rig = stack.enter_context(Rig())
    broker = rig.start_fleet()
    scene = stack.enter_context(Scene(rig, spot="no spot" not in name))
    agent = rig.start_agent(more=_configuration(name, scene))
    with rig.namespace.enter():
        esp = Collector(broker.port, "nothing")
    stack.callback(esp.close)
    return Place(name, rig, agent, esp)


def _configuration(name: str, scene: Scene) -> str:
    cloud = "azure" if name.startswith(("Azure", "all")) else "never"
    sources = [nut(scene.upsd)] if name.startswith(("a UPS", "all")) else []
    sources += [sensors()] if name.startswith(("two sensors", "all")) else []
    power = ", ".join(["kernel: false", *sources])
    return f"notices: {{cloud: {cloud}, logind: false}}\npower: {{{power}}}\n"


def _watch(places: Sequence[Place], rounds: int) -> dict[str, tuple[float, float]]:
    """Return CPU ms and wake-ups a minute: the median of all rounds, of each agent.

    Each idle ESP32 speaks every half minute.
    """
    looks: dict[str, list[tuple[float, float]]] = {place.name: [] for place in places}
    for number in range(rounds):
        before = [place.spent() for place in places]
        began_s = time.monotonic()
        if not number % int(SPEAK_S / ROUND_S):
            for place in places:
                for sensor in (1, 2):
                    place.esp.publish(f"m/{sensor}", b"1", retain=True)
        time.sleep(ROUND_S)
        minutes = (time.monotonic() - began_s) / 60
        for place, (cpu, wakes) in zip(places, before, strict=True):
            now_cpu, now_wakes = place.spent()
            looks[place.name].append(((now_cpu - cpu) / minutes, (now_wakes - wakes) / minutes))
    return {
        name: (median(cpu for cpu, _ in found), median(wakes for _, wakes in found))
        for name, found in looks.items()
    }


def _rows(spent: Mapping[str, tuple[float, float]]) -> list[Row]:
    cpu, wakes = spent["none"]
    rows = [row("agent without sources, CPU per minute", "ms", cpu)]
    for name, (more_cpu, more_wakes) in spent.items():
        if name != "none":
            most = MOST_CPU_MS if name.startswith("all") else None
            rows.append(row(f"{name}: CPU per minute on top", "ms", more_cpu - cpu, most=most))
            rows.append(row(f"{name}: wake-ups per minute on top", "", more_wakes - wakes))
    return rows
