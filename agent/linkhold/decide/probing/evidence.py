"""When missing answers are proof: a target's own record says how many in a row chance explains."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

WINDOW, LATEST = 32, 8
"""Probes that a record remembers; at one a second half a minute."""
MOST_BLAME = 8
"""At most so many misses before one answer count as loss by chance: a gateway that was restarted
must not be distrusted for long, one that drops nine of ten probes must be."""
SLOWEST_NS = 500_000_000
"""An answer that took longer teaches no patience."""
CROSSED_NS = 100_000_000
URGENT_DOUBT = 2e-5
"""While somebody waits who had answers before: how likely a trial may fail at a living path."""
QUIET_DOUBT = 1e-8
"""While nobody waits there is time to be sure: a fleet of 1,000 asks every second of the year."""
SUDDEN_DOUBT, SUDDEN_QUIET_DOUBT = 2e-3, 1e-4
"""The same, judged only by what the standby lost in this very trial: three of three suffice.
It finds the target that begins to lose probes just now, when its record is still clean."""
MOST_MISSES = 24
"""A target for which more would be needed is no witness."""


@dataclass(frozen=True, slots=True)
class Record:
    """What became of the latest probes to one target through one member.

    ``outcomes`` has a bit for each of the last ``count`` probes, 1 for a lost one. ``pending``
    are the misses since the last answer: whose fault they are shows only later. ``sent_ns`` is
    when the probe was sent that waits for its answer, 0 for none; ``late_ns`` when the one that
    was given up last. Times are CLOCK_MONOTONIC in ns.
    """

    outcomes: int = 0
    count: int = 0
    pending: int = 0
    answered_ns: int = 0
    sent_ns: int = 0
    late_ns: int = 0
    slowest_ns: int = 0

    @property
    def known(self) -> bool:
        """Whether the target ever answered through this member."""
        return self.answered_ns > 0

    @property
    def loss(self) -> float:
        """The share of probes lost by chance, one half while unknown.

        Jeffreys' estimate and one standard deviation of the losses: a window is short.
        """
        return _estimate(self.outcomes.bit_count(), self.count)

    @property
    def cautious_loss(self) -> float:
        """The same, or that of the latest few if it is worse: a target may just have begun."""
        latest = (self.outcomes & ((1 << LATEST) - 1)).bit_count()
        return max(self.loss, _estimate(latest, min(self.count, LATEST)))

    def sent(self, now_ns: int) -> Record:
        """Return the record with a probe under way; one that still was is a miss."""
        return replace(self.missed() if self.sent_ns else self, sent_ns=now_ns)

    def missed(self) -> Record:
        """Return the record after a probe had no answer in time."""
        pending = min(self.pending + 1, WINDOW)
        return replace(self, sent_ns=0, late_ns=self.sent_ns, pending=pending)

    def answered(self, now_ns: int, *, dead: bool = False) -> Record:
        """Return the record after an answer, which also tells what the misses before were.

        ``dead``: the path was called so with proof, so they were an outage and not chance.
        """
        outage = not self.known or dead
        late = bool(not self.sent_ns and self.pending)
        # In a trial the next probe may have gone out while this answer was on its way.
        crossed = bool(self.pending) and now_ns - self.late_ns < CROSSED_NS
        lost = 0 if outage else min(self.pending - (late or crossed), MOST_BLAME)
        outcomes = (((self.outcomes << lost) | ((1 << lost) - 1)) << 1) & ((1 << WINDOW) - 1)
        sent_ns = self.late_ns if late else self.sent_ns
        took_ns = min(now_ns - sent_ns, SLOWEST_NS) if sent_ns else 0
        return Record(
            outcomes,
            min(self.count + lost + 1, WINDOW),
            pending=0,
            answered_ns=now_ns,
            slowest_ns=max(took_ns, self.slowest_ns * 15 // 16),
        )


def _estimate(lost: int, count: int) -> float:
    return min((lost + math.sqrt(lost) + 0.5) / (count + 1), 0.999)


def pooled(own: Record, others: Iterable[Record]) -> Record:
    """Return the record to judge silence by: a short one without losses borrows of the others.

    What a gateway drops it drops whichever way it is asked; what a path loses is its own.
    """
    if own.outcomes or own.count >= WINDOW // 2:
        return own
    lost, count = 0, own.count
    for record in others:
        lost, count = lost + record.outcomes.bit_count(), count + record.count
    return replace(own, outcomes=(1 << lost) - 1, count=count)


def needed(loss: float, doubt: float) -> int:
    """Return how many probes must be lost in a row to be more than chance at this ``loss``."""
    return max(3, math.ceil(math.log(doubt) / math.log(loss)))
