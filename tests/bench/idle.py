"""What a quiet agent and its broker cost: CPU, wake-ups, memory.

What one wake-up costs depends on the machine more than on the program: caches are cold after a
second. So a Python process that does nothing but wake up once a second runs beside as reference.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from bench import processes
from bench.rig import Rig
from bench.rows import Row, row

if TYPE_CHECKING:
    from collections.abc import Sequence

SLICES, QUICK_SLICES, SLICE_S = 12, 2, 10.0
SETTLE_S = 5.0
MOST_CPU_MS, MOST_PSS_MB = 60.0, 45.0
REFERENCE = """
import asyncio
async def wake():
    while True:
        await asyncio.sleep(1)
asyncio.run(wake())
"""


@dataclass(frozen=True)
class Spent:
    """What a process has used so far."""

    at_s: float
    cpu_ms: float
    wakeups: int


@dataclass(frozen=True)
class Rates:
    """What a process uses a minute; ``slice_cpu_ms`` is the median of the slices."""

    cpu_ms: float
    slice_cpu_ms: float
    wakeups: float


def run(*, quick: bool = False) -> list[Row]:
    """Measure without a fleet's broker, then with one."""
    slices = QUICK_SLICES if quick else SLICES
    reference = subprocess.Popen([sys.executable, "-c", REFERENCE])
    try:
        rows = []
        for title, fleet in (("", False), (", fleet connected", True)):
            with Rig() as rig:
                if fleet:
                    rig.start_fleet()
                agent = rig.start_agent()
                time.sleep(SETTLE_S)
                pids = (agent.pid, agent.broker_pid, reference.pid)
                agent_rates, broker_rates, limit = watch(pids, slices)
                rows += _costs(f"agent{title}", agent_rates, limit, most=MOST_CPU_MS)
                rows += _sizes(f"agent{title}", agent.pid, most=MOST_PSS_MB)
                rows += _costs(f"broker{title}", broker_rates, limit)
                rows += _sizes(f"broker{title}", agent.broker_pid)
        return rows
    finally:
        reference.kill()
        reference.wait()


def watch(pids: Sequence[int], slices: int) -> list[Rates]:
    """Return what each process uses while nothing happens."""
    looks = [[_spent(pid) for pid in pids]]
    for _ in range(slices):
        time.sleep(SLICE_S)
        looks.append([_spent(pid) for pid in pids])
    return [_rates(one) for one in zip(*looks, strict=True)]


def _spent(pid: int) -> Spent:
    return Spent(time.monotonic(), processes.cpu_ms(pid), processes.wakeups(pid))


def _rates(looks: Sequence[Spent]) -> Rates:
    minutes = (looks[-1].at_s - looks[0].at_s) / 60
    return Rates(
        (looks[-1].cpu_ms - looks[0].cpu_ms) / minutes,
        median(
            (after.cpu_ms - before.cpu_ms) / (after.at_s - before.at_s) * 60
            for before, after in itertools.pairwise(looks)
        ),
        (looks[-1].wakeups - looks[0].wakeups) / minutes,
    )


def _costs(name: str, rates: Rates, limit: Rates, most: float | None = None) -> list[Row]:
    cpu, slices = f"{name} CPU per minute", f"{name} CPU per minute, median of 10 s"
    return [
        row(cpu, "ms", rates.cpu_ms, reference=limit.cpu_ms, most=most),
        row(slices, "ms", rates.slice_cpu_ms, reference=limit.slice_cpu_ms),
        row(f"{name} wake-ups per minute", "", rates.wakeups, reference=limit.wakeups),
    ]


def _sizes(name: str, pid: int, most: float | None = None) -> list[Row]:
    memory = processes.memory(pid)
    return [
        row(f"{name} PSS", "MB", memory.pss / 1024, most=most),
        row(f"{name} RSS", "MB", memory.rss / 1024),
        row(f"{name} memory of its own", "MB", memory.own / 1024),
        row(f"{name} threads", "", processes.threads(pid)),
        row(f"{name} descriptors", "", processes.descriptors(pid)),
    ]
