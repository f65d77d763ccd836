"""How many steps lie between two agreements. Pure.

An agreement costs ``cost``; every N steps it adds ``cost / N`` to each step. N is the smallest
number that keeps this below 0.1 % of a step, but N steps take at most 2 s: a node that says "on
battery" is heard within that time. Where both cannot be had, the 2 s count.

The cost is the median of a rank's last agreements, and of all ranks' the smallest: whoever comes
last to an agreement waits for nobody, and what the others wait there they would have waited in
their next collective.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

SHARE = 1000
"""Part of a step that an agreement may cost: one in so many."""
LONGEST_US = 2_000_000
GROWTH = 2
"""N at most doubles from one agreement to the next: a few short steps prove little."""
REMEMBERED = 16


@dataclass(frozen=True, slots=True)
class Cadence:
    """What one rank measured. ``every`` is N, the same number on all ranks.

    ``ended_ns`` is when the last agreement ended, None while it is not to be measured from;
    ``steps_us`` are the mean steps of the last two intervals, ``costs_us`` what the last agreements
    took.
    """

    every: int = 1
    ended_ns: int | None = None
    steps_us: tuple[int, ...] = ()
    costs_us: tuple[int, ...] = ()

    @property
    def step_us(self) -> int:
        """The longer of the last two mean steps in microseconds; 0 before the first."""
        return max(self.steps_us, default=0)

    @property
    def cost_us(self) -> int:
        """What an agreement mostly takes here, in microseconds; 0 before the first."""
        return sorted(self.costs_us)[len(self.costs_us) // 2] if self.costs_us else 0


def begin(cadence: Cadence, now_ns: int) -> Cadence:
    """Measure the steps since the last agreement, as the next one begins."""
    if cadence.ended_ns is None:
        return cadence
    mean_us = max(1, (now_ns - cadence.ended_ns) // (cadence.every * 1000))
    return replace(cadence, steps_us=(*cadence.steps_us[-1:], mean_us))


def end(cadence: Cadence, cost_us: int, step_us: int, began_ns: int, now_ns: int) -> Cadence:
    """Set N for the next interval from what all ranks measured, as an agreement ends."""
    took_us = max(1, (now_ns - began_ns) // 1000)
    return replace(
        cadence,
        every=next_every(cadence.every, cost_us, step_us),
        ended_ns=now_ns,
        costs_us=(*cadence.costs_us, took_us)[-REMEMBERED:],
    )


def pause(cadence: Cadence) -> Cadence:
    """Agree at the very next step, and do not take what comes in between for a step."""
    return replace(cadence, every=1, ended_ns=None)


def next_every(every: int, cost_us: int, step_us: int) -> int:
    """Return N from the smallest cost and the longest step of all ranks (0: not known yet)."""
    if cost_us <= 0 or step_us <= 0:
        return 1
    wanted = -(-cost_us * SHARE // step_us)  # rounded up
    return max(1, min(wanted, LONGEST_US // step_us, every * GROWTH))
