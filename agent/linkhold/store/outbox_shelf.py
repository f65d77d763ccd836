"""The outbox with memory behind it: what a disk does not take now is kept and written later.

Synchronous and without a clock of its own: ``now_s`` is CLOCK_MONOTONIC in seconds.
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from linkhold.model import StoreError
from linkhold.store.outbox import Mark, Outbox, ReplayRequest, Status, Stored
from linkhold.store.outbox_file import (
    FILE_NAME,
    OpenedStore,
    is_damage,
    reason_of,
    set_aside,
    worded,
)
from linkhold.store.outbox_ring import Losses, Ring

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from linkhold.config.settings import OutboxSettings
    from linkhold.decide.readings import OverflowReading

T = TypeVar("T")

RING_EVENTS = 2000
MAX_UNSAVED_MARKS = 10_000
RETRY_LEAST_S = 1.0
RETRY_MOST_S = 60.0


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a reader of pending events has come, on disk and in memory.

    ``row`` counts in one opened file only; ``opened`` is its number.
    """

    row: int = 0
    ring: int = 0
    opened: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Pending events after a cursor, in order. ``more``: ask again, there may be others."""

    events: tuple[Stored, ...]
    cursor: Cursor
    more: bool = False


class Shelf:
    """Keeps events on disk, in a bounded ring while the disk takes none, and tells which.

    ``status`` is ``starting``, ``ok`` or ``volatile``; ``reason`` says why. ``damage`` collects
    what was found damaged and kept aside.
    """

    def __init__(
        self,
        state_dir: Path,
        settings: OutboxSettings,
        opener: Callable[[Path, OutboxSettings], OpenedStore],
        losses: Losses,
    ) -> None:
        self.status = "starting"
        self.reason = ""
        self.damage: list[str] = []
        self.retry_at_s = 0.0
        self.forgotten_marks = 0
        self._dir = state_dir
        self._settings = settings
        self._opener = opener
        self._losses = losses
        self._outbox: Outbox | None = None
        self._ring = Ring(RING_EVENTS)
        self._unsaved: dict[str, Mark] = {}
        self._baseline: bytes | None = None
        self._newest: bytes | None = None
        self._retry_s = RETRY_LEAST_S
        self._file: tuple[int, int] | None = None
        self._openings = 0

    def open(self, now_s: float) -> OpenedStore:
        """Open the outbox and return what the start found; never raises."""
        opened = self._opener(self._dir, self._settings)
        self._openings += 1
        self._outbox = opened.outbox
        self._file = _identity(self._dir / FILE_NAME)
        if opened.outbox is None:
            self._fall_back(opened.problem, now_s)
        else:
            self.status, self.reason = "ok", ""
            if opened.problem:
                self.damage.append(opened.problem)
        return opened

    def configure(self, settings: OutboxSettings) -> None:
        """Use other bounds from the next transaction on."""
        self._settings = settings
        if self._outbox is not None:
            self._outbox.settings = settings

    def store(
        self,
        events: Sequence[Stored],
        baseline: bytes | None,
        marks: Sequence[Mark],
        now_s: float,
    ) -> None:
        """Commit, or keep in memory until :meth:`store` is called at or after ``retry_at_s``."""
        if baseline is not None:
            self._baseline = self._newest = baseline
        self._note(marks)
        if self._outbox is not None and self._file != _identity(self._dir / FILE_NAME):
            self._replace_removed(now_s)
        if self.status == "volatile":
            if now_s < self.retry_at_s:
                self._losses.add_dropped(self._ring.extend(events))
                return
            self._reopen(now_s)
        if self.status == "volatile" or events or self._unsaved or self._baseline is not None:
            self._write(events, now_s)

    def _write(self, events: Sequence[Stored], now_s: float) -> None:
        error = self._try_write(events)
        if error is not None and is_damage(error):
            self._replace_damaged(error, now_s)
            error = self._try_write(events)
        if error is None:
            return
        self._losses.add_dropped(self._ring.extend(events))
        if self._outbox is not None:  # else opening it has said why
            self._fall_back(reason_of(error), now_s)

    def _try_write(self, events: Sequence[Stored]) -> Exception | None:
        if self._outbox is None:
            return StoreError(self.reason)
        try:
            marks = list(self._unsaved.values())
            lost = self._outbox.write([*self._ring.events(), *events], self._baseline, marks)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the events must be kept
            return error
        self._losses.add(lost)
        self._ring.clear()
        self._unsaved.clear()
        self._baseline = None
        self._retry_s = RETRY_LEAST_S
        self.status, self.reason = "ok", ""
        return None

    def _replace_removed(self, now_s: float) -> None:
        """Somebody removed the file that we have open: what it has unsent goes to a new one.

        As much as the ring holds; the rest is a loss like any other.
        """
        nothing: tuple[list[Stored], OverflowReading | None] = ([], None)
        unsent, lost = self._read(lambda outbox: outbox.unsent(RING_EVENTS), nothing)
        self._losses.add(lost)
        held, marks = self._ring.events(), list(self._unsaved.values())
        self._ring.clear()
        self._losses.add_dropped(self._ring.extend([*unsent, *held]))
        self._unsaved.clear()
        self._note(marks)
        self.damage.append("the file was removed; a new one was made")
        self.close()
        self._baseline = self._newest
        self.open(now_s)

    def _replace_damaged(self, error: Exception, now_s: float) -> None:
        self.close()
        try:
            kept = set_aside(self._dir / FILE_NAME)
        except OSError as problem:
            self._fall_back(f"{error}; {reason_of(problem)}", now_s)
            return
        self.damage.append(f"{worded(error)}; kept as {kept.name}")
        self._baseline = self._newest
        self.open(now_s)

    def _fall_back(self, reason: str, now_s: float) -> None:
        self.status, self.reason = "volatile", reason
        self.retry_at_s = now_s + self._retry_s
        self._retry_s = min(RETRY_MOST_S, self._retry_s * 2)

    def _reopen(self, now_s: float) -> None:
        self.close()
        reason = self.reason
        self.open(now_s)
        if self.status == "ok":  # only a successful write says that the disk is well again
            self.status, self.reason = "volatile", reason

    def _note(self, marks: Sequence[Mark]) -> None:
        for mark in marks:
            if not self._ring.mark(mark):
                self._unsaved[mark.id] = mark
        while len(self._unsaved) > MAX_UNSAVED_MARKS:
            del self._unsaved[next(iter(self._unsaved))]
            self.forgotten_marks += 1

    def pending(self, cursor: Cursor, limit: int) -> Batch:
        """Return at most ``limit`` pending events after ``cursor``, disk before memory."""
        rows = self._rows(lambda outbox: outbox.pending(self._row_of(cursor), limit))
        row = rows[-1].row if rows else self._row_of(cursor)
        cursor = Cursor(row, cursor.ring, self._openings)
        held = self._ring.pending(cursor.ring, limit - len(rows)) if len(rows) < limit else []
        if held:
            cursor = replace(cursor, ring=held[-1].row)
        fresh = [stored for stored in rows if stored.entry.id not in self._unsaved]
        return Batch((*fresh, *held), cursor, more=len(rows) + len(held) >= limit)

    def _row_of(self, cursor: Cursor) -> int:
        """Return where ``cursor`` stands in the file; a new file counts its rows from 1 again."""
        return cursor.row if cursor.opened == self._openings else 0

    def parked(self, limit: int) -> tuple[Stored, ...]:
        """Return the oldest parked event of each type."""
        rows = self._rows(lambda outbox: outbox.parked(limit))
        return tuple(stored for stored in rows if stored.entry.id not in self._unsaved)

    def unpark(self, event_type: str) -> None:
        """Make parked events of one type pending again."""
        self._ring.unpark(event_type)
        self._read(lambda outbox: outbox.unpark(event_type), 0)

    def history(self, since_wall_s: float, limit: int, types: Sequence[str]) -> list[Stored]:
        """Return the newest ``limit`` events since a time, the newest last."""
        rows = self._rows(lambda outbox: outbox.history(since_wall_s, limit, types))
        held = [
            stored
            for stored in self._ring.events()
            if stored.entry.wall_s >= since_wall_s and (not types or stored.entry.type in types)
        ]
        return [*rows, *held][-limit:]

    def replay(self, request: ReplayRequest) -> tuple[list[Stored], int]:
        """Return what :meth:`Outbox.replay` does; nothing while the disk cannot be read."""
        nothing: tuple[list[Stored], int] = ([], 0)
        return self._read(lambda outbox: outbox.replay(request), nothing)

    def purge(self, now_wall_s: float) -> None:
        """Delete some of what is older than ``keep_days``."""
        if self.status == "ok":
            self._read(lambda outbox: outbox.purge(now_wall_s), 0)

    def waiting(self) -> tuple[int, int]:
        """Return the number of pending and of parked events."""
        nothing: Mapping[Status, int] = {}
        counts = self._read(lambda outbox: outbox.counts(), nothing)
        held = [stored.status for stored in self._ring.events()]
        pending = counts.get(Status.PENDING, 0) + held.count(Status.PENDING)
        return pending, counts.get(Status.PARKED, 0) + held.count(Status.PARKED)

    def _rows(self, call: Callable[[Outbox], list[Stored]]) -> list[Stored]:
        nothing: list[Stored] = []
        return self._read(call, nothing)

    def _read(self, call: Callable[[Outbox], T], default: T) -> T:
        """Ask the disk; what it cannot answer now is nothing, the next write finds out why."""
        if self._outbox is None:
            return default
        try:
            return call(self._outbox)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if is_damage(error):
                self._replace_damaged(error, self.retry_at_s)
            return default

    def close(self) -> None:
        """Close the file; what was committed stays."""
        if self._outbox is not None:
            with contextlib.suppress(sqlite3.Error):
                self._outbox.close()
        self._outbox = None


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what tells one file from another that took its name; None without a file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
