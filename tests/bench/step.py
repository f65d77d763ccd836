"""What ``Hold.step()`` costs a training loop while nothing is wrong."""

from __future__ import annotations

import logging
import time
from statistics import median
from typing import TYPE_CHECKING

from bench.rig import Impossible, Rig
from bench.rows import Row, row
from linkhold.client import Hold

if TYPE_CHECKING:
    from collections.abc import Callable

CALLS, QUICK_CALLS, REPEATS = 500_000, 50_000, 9
MOST_NS = 1000
HEARD_S = 5.0


class Nothing:
    """The reference: a method that does nothing."""

    def step(self, step: int) -> None:
        """Do nothing."""


def run(*, quick: bool = False) -> list[Row]:
    """Measure a faked hold, and one that listens to an agent where one can run."""
    calls = QUICK_CALLS if quick else CALLS
    empty_ns = cost_ns(Nothing().step, calls)
    rows = [row("empty method", "ns", empty_ns)]
    with Hold.fake() as fake:
        rows.append(_row("step, faked", cost_ns(fake.step, calls), empty_ns))
    quiet = logging.getLogger("bench.step")
    quiet.disabled = True  # else it says that there is no agent
    with Hold.connect(run_dir="/nonexistent", wait_s=0, logger=quiet) as alone:
        rows.append(_row("step, no agent", cost_ns(alone.step, calls), empty_ns))
    try:
        rows.append(_row("step, connected", _connected(calls), empty_ns))
    except Impossible as reason:
        rows.append(row(f"step, connected: skipped, {reason}", "ns", 0))
    return rows


def _row(what: str, value_ns: float, empty_ns: float) -> Row:
    return row(what, "ns", value_ns, reference=empty_ns, most=MOST_NS)


def _connected(calls: int) -> float:
    with Rig() as rig, Hold.connect(run_dir=rig.start_agent().run_dir, wait_s=HEARD_S) as hold:
        assert hold.counters, "the hold heard nothing of the agent"
        return cost_ns(hold.step, calls)


def cost_ns(call: Callable[[int], object], calls: int) -> float:
    """Return what one call costs, the loop around it included: median of repeats."""
    results = []
    for _ in range(REPEATS):
        began_ns = time.perf_counter_ns()
        for number in range(calls):
            call(number)
        results.append((time.perf_counter_ns() - began_ns) / calls)
    return median(results)
