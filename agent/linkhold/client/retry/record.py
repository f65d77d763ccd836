"""What happened to one dependency, in numbers and in two lines per outage."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from linkhold.client.voice import many

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.client.voice import Voice

NAMES = (
    "calls",  # begun
    "attempts",  # made: how often the function was called
    "retries",  # attempts after the first one of a call
    "succeeded",
    "failed",  # attempts that ended in an error of a family
    "refused",  # attempts that ended in any other error
    "given_up",  # calls that ended in an error of a family
    "budget_spent",  # calls that ended because of the budget
    "held_calls",  # calls that waited for the node or the breaker
    "held_s",  # seconds that they waited
    "queued_calls",  # calls that waited for a slot
    "probes",  # of the breaker
    "nested",  # calls inside an attempt of another retry, passed through
    "outages",
)


LONGEST_TEXT = 300


def told(error: BaseException) -> str:
    """Return an error as one line of a log, also one whose text is a page."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ..."


class Record:
    """Counts, and says when an outage begins and ends. Safe from any thread."""

    def __init__(self, dependency: str, voice: Voice) -> None:
        self._dependency = dependency
        self._voice = voice
        self._renew()

    def _renew(self) -> None:
        self._counts: dict[str, float] = dict.fromkeys(NAMES, 0)
        self._since_s: float | None = None
        self._before: dict[str, float] = {}
        self._lock = threading.Lock()

    @property
    def counters(self) -> Mapping[str, float]:
        """A copy of all counts, by the names in :data:`NAMES`."""
        with self._lock:
            return dict(self._counts)

    def count(self, name: str, amount: float = 1) -> None:
        """Add to one count."""
        with self._lock:
            self._counts[name] += amount

    def trouble(self, name: str, why: str, now_s: float) -> None:
        """Count a failed attempt or a held call; the first one begins an outage."""
        with self._lock:
            begins = self._since_s is None
            if begins:
                self._since_s, self._before = now_s, dict(self._counts)
                self._counts["outages"] += 1
            self._counts[name] += 1
        if begins:
            self._voice.warning(f"{self._dependency}: {why}; the next word is when it works again")

    def works(self, now_s: float) -> None:
        """Take note of an attempt that went well, which ends an outage."""
        with self._lock:
            if self._since_s is None:
                return
            lasted_s, self._since_s = now_s - self._since_s, None
            failed, held = (
                self._counts[name] - self._before[name] for name in ("failed", "held_calls")
            )
        self._voice.info(
            f"{self._dependency}: works again after {lasted_s:.1f} s"
            f" ({many(int(failed), 'attempt')} failed, {many(int(held), 'call')} waited)"
        )

    def after_fork(self) -> None:
        """Start from nothing in a child: what the parent saw is the parent's."""
        self._renew()
