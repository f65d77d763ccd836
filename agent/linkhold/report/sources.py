"""Where a report's events come from: lines of JSON, and what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.fleet_view.words import printable
from linkhold.model import WireError
from linkhold.report.records import Record, read_record
from linkhold.report.rules import BEGINS, ENDS, MARKS

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_RECORDS = 500_000
"""About half a gigabyte of memory."""
MOST_LINE = 1 << 18
_OTHERS = frozenset({"advice.changed", "agent.leg_b", "agent.sensor", "notice.withdrawn"})


@dataclass(slots=True)
class Collected:
    """Records that a page can show, and how many lines were none of an agent.

    ``problem`` is what was wrong with the first of these.
    """

    records: list[Record] = field(default_factory=list)
    unreadable: int = 0
    problem: str = ""
    dropped: int = 0

    def add(self, payload: bytes | str) -> Record | None:
        """Read an event; keep it when a page can show it. Return it when it is one."""
        try:
            record = read_record(_short(payload))
        except WireError as error:
            self.unreadable += 1
            self.problem = self.problem or printable(error, 200)
            return None
        if is_shown(record):
            if len(self.records) < MOST_RECORDS:
                self.records.append(record)
            else:
                self.dropped += 1
        return record

    def add_lines(self, lines: Iterable[bytes]) -> None:
        """Read events, one a line; empty lines are nothing."""
        for line in lines:
            if line.strip():
                self.add(line)

    def notes(self) -> list[str]:
        """Return what a reader of the page must know."""
        notes = []
        if self.unreadable:
            notes.append(f"{self.unreadable} lines were no events, the first: {self.problem}")
        if self.dropped:
            notes.append(f"{self.dropped} events are left out: more than {MOST_RECORDS} were told.")
        return notes


def _short(payload: bytes | str) -> bytes | str:
    if len(payload) > MOST_LINE:
        raise WireError(f"event of {len(payload)} bytes; at most {MOST_LINE}")
    return payload


def is_shown(record: Record) -> bool:
    """Tell whether a page shows events of this type."""
    type_ = record.type
    return type_ in BEGINS or type_ in ENDS or type_ in MARKS or type_ in _OTHERS
