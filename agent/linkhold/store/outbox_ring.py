"""Events in memory: which ones to drop when there are too many, and the ring for a bad disk."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.readings import OverflowReading
from linkhold.model import Severity
from linkhold.store.outbox import Mark, Status, Stored
from linkhold.store.outbox_trim import KEEP_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_SAFE = (Status.DELIVERED, Status.LOCAL)


def shed(events: Sequence[Stored], limit: int) -> tuple[list[Stored], list[Stored]]:
    """Return (kept, dropped), both in order; nothing is dropped up to ``limit`` events.

    Dropped are, the oldest first: what was delivered, superseded information, information, and
    only then the rest. It cuts to 95 % of the limit, so that a flood does not sort each time.
    """
    if len(events) <= limit:
        return list(events), []
    newest = {(one.entry.type, one.entry.subject): index for index, one in enumerate(events)}

    def rank(index: int) -> tuple[int, int]:
        stored = events[index]
        superseded = newest[stored.entry.type, stored.entry.subject] != index
        if stored.status in _SAFE:
            return (0, index)
        if stored.entry.severity is Severity.INFO:
            return (1 if superseded else 2, index)
        return (3, index)

    order = sorted(range(len(events)), key=rank)
    gone = set(order[: len(events) - int(limit * KEEP_SHARE)])
    kept = [one for index, one in enumerate(events) if index not in gone]
    return kept, [events[index] for index in sorted(gone)]


class Losses:
    """Sums up dropped events until somebody can be told."""

    def __init__(self) -> None:
        self.total = 0
        self._since = OverflowReading(0, "", "")

    def add(self, lost: OverflowReading | None) -> None:
        """Count what a bound cost."""
        if lost is None:
            return
        self.total += lost.count
        first = self._since.first or lost.first
        self._since = OverflowReading(self._since.count + lost.count, first, lost.last)

    def add_dropped(self, dropped: Iterable[Stored]) -> None:
        """Count those of ``dropped`` that no broker had taken."""
        lost = [stored.entry.id for stored in dropped if stored.status not in _SAFE]
        if lost:
            self.add(OverflowReading(len(lost), lost[0], lost[-1]))

    @property
    def waiting(self) -> bool:
        """Whether there is something to tell."""
        return self._since.count > 0

    def take(self) -> OverflowReading | None:
        """Return the losses since the last call, or None."""
        since, self._since = self._since, OverflowReading(0, "", "")
        return since if since.count else None


class Ring:
    """At most ``limit`` events in memory while the disk takes none; rows count upwards."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rows = itertools.count(1)
        self._events: dict[str, Stored] = {}

    def __len__(self) -> int:
        return len(self._events)

    def extend(self, events: Iterable[Stored]) -> list[Stored]:
        """Add events and return what had to be dropped for the bound."""
        for stored in events:
            kept = replace(stored, row=next(self._rows), volatile=True)
            self._events[stored.entry.id] = kept
        everything, dropped = shed(list(self._events.values()), self._limit)
        if dropped:
            self._events = {stored.entry.id: stored for stored in everything}
        return dropped

    def mark(self, mark: Mark) -> bool:
        """Note a broker's answer; False when the event is not here."""
        stored = self._events.get(mark.id)
        if stored is None:
            return False
        attempts = stored.attempts + 1
        changed = replace(stored, status=mark.status, code=mark.code, attempts=attempts)
        self._events[mark.id] = changed
        return True

    def unpark(self, event_type: str) -> None:
        """Make parked events of one type pending again."""
        for key, stored in self._events.items():
            if stored.status is Status.PARKED and stored.entry.type == event_type:
                self._events[key] = replace(stored, status=Status.PENDING)

    def events(self) -> list[Stored]:
        """Return everything, in order."""
        return list(self._events.values())

    def pending(self, after_row: int, limit: int) -> list[Stored]:
        """Return pending events with a higher row than ``after_row``, in order."""
        rows = (one for one in self._events.values() if one.row > after_row)
        return list(itertools.islice((o for o in rows if o.status is Status.PENDING), limit))

    def clear(self) -> None:
        """Forget everything: the disk has it now."""
        self._events.clear()
