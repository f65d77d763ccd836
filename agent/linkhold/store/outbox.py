"""The outbox: every event of the last days on disk, and the state that goes with the last one.

Synchronous SQLite in WAL mode with synchronous=FULL: what a call of :meth:`Outbox.write` has
returned for survives the loss of power. One thread owns an :class:`Outbox`
(:mod:`linkhold.store.keeper`); nothing here waits, logs or starts threads. Errors are sqlite3's
own: plain ``sqlite3.DatabaseError`` means a damaged file, ``sqlite3.OperationalError`` a disk
that refuses (full, read-only, input/output error).
"""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from linkhold.model import Severity
from linkhold.store.outbox_trim import SETTLED, loss, trim
from linkhold.wire import dumps, event_document, event_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from linkhold.config.settings import OutboxSettings
    from linkhold.decide.readings import OverflowReading
    from linkhold.model import Event, Identity

MAX_ANSWER_BYTES = 8_000_000
"""An answer ends after this many bytes of payload, whatever its limit of rows."""
PURGE_ROWS = 1500
"""Rows that one :meth:`Outbox.purge` deletes at most: about 8 ms of work."""
FREE_PAGES = 256
"""Pages that one :meth:`Outbox.purge` gives back to the file system at most."""


class Status(str, Enum):
    """What became of an event. ``LOCAL``: recorded while no fleet was configured."""

    PENDING = "pending"
    DELIVERED = "delivered"
    NO_SUBSCRIBER = "no_subscriber"
    PARKED = "parked"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Entry:
    """One event as it is kept: its CloudEvent in ``payload`` and what it is found by."""

    id: str
    session: str
    seq: int
    type: str
    subject: str
    severity: Severity
    wall_s: float
    payload: bytes


@dataclass(frozen=True, slots=True)
class Stored:
    """An event in the outbox, or (``volatile``) in memory until the disk takes it again.

    ``row`` grows in the order of recording; ``code`` is the broker's last MQTT v5 reason code.
    """

    row: int
    entry: Entry
    status: Status = Status.PENDING
    code: int = 0
    attempts: int = 0
    volatile: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """What a broker answered to the event ``id``."""

    id: str
    status: Status
    code: int = 0


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """Events that the fleet wants once more: a range of one session, or all since a time."""

    request: str
    session: str = ""
    from_seq: int = 1
    to_seq: int = 0
    since_wall_s: float = 0.0
    limit: int = 1000


def entry_of(identity: Identity, event: Event) -> Entry:
    """Return ``event`` ready for the outbox, its CloudEvent encoded."""
    return Entry(
        id=event_id(identity, event.seq),
        session=identity.session,
        seq=event.seq,
        type=event.type,
        subject=event.subject,
        severity=event.severity,
        wall_s=event.at.wall_s,
        payload=dumps(event_document(identity, event)),
    )


COLUMNS = "row, id, session, seq, type, subject, severity, wall_s, payload, status, code, attempts"
_TEXTS = (1, 2, 4, 5)
"""Where the columns id, session, type and subject are."""
_INSERT = (
    "INSERT INTO event (id, session, seq, type, subject, severity, wall_s, payload, status, code,"
    " attempts) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
    " ON CONFLICT (id) DO UPDATE SET status = excluded.status, code = excluded.code"
)


class Outbox:
    """The open database. ``settings`` bounds it and may be replaced at any time."""

    def __init__(self, database: sqlite3.Connection, settings: OutboxSettings) -> None:
        self.settings = settings
        self._database = database
        self._synchronous = ""

    def write(
        self, events: Sequence[Stored], baseline: bytes | None, marks: Sequence[Mark] = ()
    ) -> OverflowReading | None:
        """Commit events, the state after them and answers of brokers in one transaction.

        ``baseline`` None keeps the stored one. An id that is already there keeps its row.
        Returns what had to be dropped undelivered for the bounds. Raises ``sqlite3.Error``,
        and then nothing was changed.
        """
        # Answers alone need not survive a loss of power: the event would be sent once more.
        self._synchronise("FULL" if events or baseline is not None else "NORMAL")
        with self._transaction():
            self._database.executemany(_INSERT, map(_values, events))
            self._database.executemany(
                "UPDATE event SET status = ?, code = ?, attempts = attempts + 1 WHERE id = ?",
                [(mark.status.value, mark.code, mark.id) for mark in marks],
            )
            if baseline is not None:
                self._keep("baseline", baseline)
            if events:
                last = events[-1].entry
                self._keep("session", last.session)
                self._keep("seq", last.seq)
            return trim(self._database, self._totals(), self.settings)

    def unpark(self, event_type: str) -> int:
        """Make parked events of one type pending again; returns how many."""
        with self._transaction():
            return self._database.execute(
                "UPDATE event SET status = 'pending' WHERE status = 'parked' AND type = ?",
                (event_type,),
            ).rowcount

    def baseline(self) -> bytes | None:
        """Return the state as it was committed with the last events, or None."""
        value = self._kept("baseline")
        return value if isinstance(value, bytes) else None

    def last_position(self) -> tuple[str, int] | None:
        """Return session and seq of the last event ever committed, or None."""
        session, seq = self._kept("session"), self._kept("seq")
        if isinstance(session, str) and isinstance(seq, int):
            return session, seq
        return None

    def counts(self) -> Mapping[Status, int]:
        """Return the number of events in each status."""
        return {Status(name): rows for name, rows, _ in self._totals()}

    def pending(self, after_row: int, limit: int) -> list[Stored]:
        """Return pending events with a higher row than ``after_row``, in order."""
        where = "status = 'pending' AND row > ? ORDER BY row LIMIT ?"
        return self._select(where, after_row, limit)

    def unsent(self, limit: int) -> tuple[list[Stored], OverflowReading | None]:
        """Return at most ``limit`` events that nobody has got, in order, and what is beyond.

        Those still to be sent come before those that nobody heard, information comes last.
        """
        where = "status NOT IN ('delivered', 'local')"
        order = "status = 'no_subscriber', severity = 'info', row"
        rows = self._select(f"{where} ORDER BY {order} LIMIT ?", limit)
        rows.sort(key=lambda stored: stored.row)
        taken = {stored.row for stored in rows}
        query = f"SELECT row, id FROM event WHERE {where} ORDER BY row"  # noqa: S608
        return rows, loss([pair for pair in self._database.execute(query) if pair[0] not in taken])

    def parked(self, limit: int) -> list[Stored]:
        """Return the oldest parked event of each type."""
        oldest = "SELECT min(row) FROM event WHERE status = 'parked' GROUP BY type"
        return self._select(f"row IN ({oldest}) ORDER BY row LIMIT ?", limit)

    def history(self, since_wall_s: float, limit: int, types: Sequence[str] = ()) -> list[Stored]:
        """Return the newest ``limit`` events since a wall-clock time, the newest last."""
        marks = ",".join("?" * len(types))
        only = f"AND type IN ({marks})" if types else ""
        where = f"wall_s >= ? {only} ORDER BY row DESC LIMIT ?"
        return self._select(where, since_wall_s, *types, limit)[::-1]

    def replay(self, request: ReplayRequest) -> tuple[list[Stored], int]:
        """Return the requested events in order, and how many of the range are not there.

        A range of a session covers at most ``limit`` sequence numbers from ``from_seq`` on, and
        none that the running session has not reached.
        """
        if not request.session:
            return self._select(
                "wall_s >= ? ORDER BY row LIMIT ?", request.since_wall_s, request.limit
            ), 0
        last = min(request.to_seq, request.from_seq + request.limit - 1)
        position = self.last_position()
        if position is not None and position[0] == request.session:
            last = min(last, position[1])
        where = "session = ? AND seq BETWEEN ? AND ? ORDER BY row"
        rows = self._select(where, request.session, request.from_seq, last)
        return rows, max(0, last - request.from_seq + 1 - len(rows))

    def purge(self, now_wall_s: float) -> int:
        """Delete some settled events older than ``keep_days``; returns how many.

        Only :data:`PURGE_ROWS` a call, so that a clock that jumps years ahead cannot empty the
        history at once. Pending and parked events stay until the bounds are reached.
        """
        oldest = now_wall_s - self.settings.keep_days * 86400
        with self._transaction():
            gone = self._database.execute(
                f"DELETE FROM event WHERE row IN (SELECT row FROM event WHERE {SETTLED}"  # noqa: S608
                " AND wall_s < ? ORDER BY row LIMIT ?)",
                (oldest, PURGE_ROWS),
            ).rowcount
        self._database.execute(f"PRAGMA incremental_vacuum({FREE_PAGES})").fetchall()
        return gone

    def close(self) -> None:
        """Close the file; what was committed is on disk already."""
        self._database.close()

    def _synchronise(self, how: str) -> None:
        """Have commits wait for the disk (FULL) or not (NORMAL, which WAL keeps consistent)."""
        if how != self._synchronous:
            self._database.execute(f"PRAGMA synchronous = {how}")
            self._synchronous = how

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # a full disk has rolled back by itself
                self._database.execute("ROLLBACK")
            raise

    def _keep(self, key: str, value: bytes | str | int) -> None:
        self._database.execute("INSERT OR REPLACE INTO kept VALUES (?, ?)", (key, value))

    def _kept(self, key: str) -> Any:
        found = self._database.execute("SELECT value FROM kept WHERE key = ?", (key,)).fetchone()
        return found[0] if found else None

    def _totals(self) -> list[tuple[str, int, int]]:
        return self._database.execute("SELECT status, rows, bytes FROM total").fetchall()

    def _select(self, where: str, *values: Any) -> list[Stored]:
        query = f"SELECT {COLUMNS} FROM event WHERE {where}"  # noqa: S608
        rows: list[Stored] = []
        size = 0
        for row in self._database.execute(query, values):
            rows.append(_stored(row))
            size += len(rows[-1].entry.payload)
            if size > MAX_ANSWER_BYTES:
                break
        return rows


def _text(value: str) -> str:
    """Return text that SQLite can keep: an interface's name may hold bytes that are no UTF-8."""
    return value.encode("utf-8", "replace").decode()


def _values(stored: Stored) -> tuple[Any, ...]:
    entry = stored.entry
    texts = (_text(entry.type), _text(entry.subject), entry.severity.value)
    head = (_text(entry.id), _text(entry.session), entry.seq, *texts, entry.wall_s, entry.payload)
    return (*head, stored.status.value, stored.code, stored.attempts)


def _stored(row: tuple[Any, ...]) -> Stored:
    try:
        # bytes() of a number would be as many zeros: a damaged column must not cost the memory.
        payload = row[8] if isinstance(row[8], bytes) else str(row[8]).encode()
        id_, session, type_, subject = (str(row[at]) for at in _TEXTS)
        severity, wall_s = Severity(row[6]), float(row[7])
        entry = Entry(id_, session, int(row[3]), type_, subject, severity, wall_s, payload)
        return Stored(row[0], entry, Status(row[9]), int(row[10]), int(row[11]))
    except (TypeError, ValueError, OverflowError) as error:
        raise sqlite3.DatabaseError(f"event {row[0]} is damaged: {error}") from error
