"""What a full outbox drops, and in which order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.decide.readings import OverflowReading

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Sequence

    from linkhold.config.settings import OutboxSettings

KEEP_SHARE = 0.95
"""A full outbox is cut to this share of its bounds: otherwise each event would drop another,
and the event that reports the loss would cause the next one."""
SETTLED = "status IN ('delivered', 'no_subscriber', 'local')"
_NEWEST_INFOS = "SELECT max(row) FROM event WHERE severity = 'info' GROUP BY type, subject"
_SUPERSEDED = f"severity = 'info' AND row NOT IN ({_NEWEST_INFOS})"
_DROP_ORDER = (
    f"{SETTLED} AND {_SUPERSEDED}",
    f"{SETTLED} AND severity = 'info'",
    "status IN ('delivered', 'local')",
    _SUPERSEDED,
    "severity = 'info'",
    "status = 'no_subscriber'",
    "TRUE",
)
"""What a full outbox drops first, the oldest first in each class."""


@dataclass(frozen=True, slots=True)
class _Surplus:
    rows: int
    size: int

    @property
    def left(self) -> bool:
        return self.rows > 0 or self.size > 0


def trim(
    database: sqlite3.Connection, totals: Sequence[tuple[str, int, int]], bounds: OutboxSettings
) -> OverflowReading | None:
    """Keep the bounds within the caller's transaction; return what was dropped undelivered.

    ``totals`` are (status, rows, bytes).
    """
    rows, size = sum(total[1] for total in totals), sum(total[2] for total in totals)
    surplus = _Surplus(_beyond(rows, bounds.max_events), _beyond(size, bounds.max_bytes))
    lost: list[tuple[int, str]] = []
    for where in _DROP_ORDER:
        if surplus.left:
            surplus = _drop(database, where, surplus, lost)
    return loss(sorted(lost))


def loss(events: Sequence[tuple[int, str]]) -> OverflowReading | None:
    """Return the loss of events given as (row, id), in order; None without any."""
    return OverflowReading(len(events), events[0][1], events[-1][1]) if events else None


def _beyond(found: int, most: int) -> int:
    return found - int(most * KEEP_SHARE) if found > most else 0


def _drop(
    database: sqlite3.Connection, where: str, surplus: _Surplus, lost: list[tuple[int, str]]
) -> _Surplus:
    query = f"SELECT row, id, status, length(payload) FROM event WHERE {where} ORDER BY row"  # noqa: S608
    dropped = []
    for row, event, status, size in database.execute(query):
        if not surplus.left:
            break
        surplus = _Surplus(surplus.rows - 1, surplus.size - size)
        dropped.append((row,))
        if status not in {"delivered", "local"}:
            lost.append((row, event))
    database.executemany("DELETE FROM event WHERE row = ?", dropped)
    return surplus
