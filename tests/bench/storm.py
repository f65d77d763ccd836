"""Storms: containers come and go, a link flips as fast as the kernel can, the agent is frozen."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench import processes
from bench.rig import Rig
from bench.rows import Row, row

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.rig import Agent

VETHS, FLIPS, FROZEN_FLIPS = 2500, 3000, 4000
QUICK_SHARE = 10
RIGHT_WITHIN_S = 1.0
GIVE_UP_S = 20.0
POLL_S = 0.002
AFTERMATH_S = 3.0
"""What a storm leaves to do (outbox, fleet) belongs to its costs."""


@dataclass(frozen=True)
class Phase:
    """One storm: its span of CLOCK_MONOTONIC, what it took, when the state was right."""

    name: str
    began_ns: int
    ended_ns: int
    storm_s: float
    right_s: float
    cpu_ms: float
    broker_cpu_ms: float


def run(*, quick: bool = False) -> list[Row]:
    """Measure."""
    share = QUICK_SHARE if quick else 1
    with Rig() as rig:
        broker = rig.start_fleet()
        agent = rig.start_agent()
        observer = rig.observe("events", broker.port)
        before_mb = _rss_mb(agent)
        phases = [
            _phase(rig, agent, f"{VETHS // share} veths", lambda: _veths(rig, VETHS // share)),
            _phase(rig, agent, f"{FLIPS // share} flips", lambda: _flips(rig, FLIPS // share)),
            _phase(
                rig,
                agent,
                f"{FROZEN_FLIPS // share} flips while stopped",
                lambda: _frozen(rig, agent, FROZEN_FLIPS // share),
            ),
        ]
        after_mb = _rss_mb(agent)
        counters = agent.state()["detail"]["agent"]["counters"]
        seen = observer.results()
    rows = [one for phase in phases for one in _rows(phase, seen)]
    return [
        *rows,
        row("agent RSS before", "MB", before_mb),
        row("agent RSS after", "MB", after_mb, reference=before_mb),
        row("receive buffer overruns", "", counters["overruns"]),
    ]


def _rss_mb(agent: Agent) -> float:
    return processes.memory(agent.pid).rss / 1024


def _phase(rig: Rig, agent: Agent, name: str, storm: Callable[[], None]) -> Phase:
    pids = (agent.pid, agent.broker_pid)
    before = [processes.cpu_ms(pid) for pid in pids]
    began_ns = time.monotonic_ns()
    storm()
    over_s = time.monotonic()
    right_s = _until_right(rig, agent)
    time.sleep(AFTERMATH_S)
    own, broker = (processes.cpu_ms(pid) - was for pid, was in zip(pids, before, strict=True))
    storm_s = over_s - began_ns / 1e9
    return Phase(name, began_ns, time.monotonic_ns(), storm_s, right_s, own, broker)


def _until_right(rig: Rig, agent: Agent) -> float:
    """Return seconds until the state file shows the kernel's carrier and counts."""
    began_s = time.monotonic()
    while agent.carrier() != rig.kernel_carrier():
        if time.monotonic() - began_s > GIVE_UP_S:
            raise AssertionError(f"the state is still wrong after {GIVE_UP_S:g} s")
        time.sleep(POLL_S)
    return time.monotonic() - began_s


def _veths(rig: Rig, count: int) -> None:
    """Make and remove containers' links one by one, ``ip`` being the container runtime."""
    lines = "".join(
        f"link add v{number} type veth peer name w{number}\nlink del v{number}\n"
        for number in range(count)
    )
    subprocess.run(
        rig.namespace.command("ip", "-batch", "-"), input=lines.encode(), check=True, timeout=300
    )


def _flips(rig: Rig, count: int) -> None:
    for number in range(count):
        rig.flipper.flip(up=bool(number % 2))


def _frozen(rig: Rig, agent: Agent, count: int) -> None:
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        _flips(rig, count + 1)  # an odd number: it ends without carrier
    finally:
        os.kill(agent.pid, signal.SIGCONT)


def _rows(phase: Phase, seen: list[tuple[int, str]]) -> list[Row]:
    types = [what for at_ns, what in seen if phase.began_ns <= at_ns < phase.ended_ns]
    links = sum(what.startswith("link.") for what in types)
    return [
        row(f"{phase.name}: storm lasted", "s", phase.storm_s),
        row(f"{phase.name}: state right after", "s", phase.right_s, most=RIGHT_WITHIN_S),
        row(f"{phase.name}: agent CPU", "ms", phase.cpu_ms),
        row(f"{phase.name}: broker CPU", "ms", phase.broker_cpu_ms),
        row(f"{phase.name}: events at the fleet", "", len(types)),
        row(f"{phase.name}: of links", "", links),
    ]
