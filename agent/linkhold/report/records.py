"""Events of any node as a report reads them: checked, once each, in order, on one clock."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from linkhold.fleet_view.words import printable
from linkhold.model import WireError
from linkhold.wire import from_rfc3339, parse_event
from linkhold.wire.documents import MAX_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.fleet_view.picture import Key

CLOCK_STEP_S = 5.0
"""A wall clock that is further from where a later one of the same boot puts it was wrong."""
_ID_PARTS = 3
_SEQ = re.compile(r"[0-9]{1,18}")
_SOURCE_PARTS = 3


@dataclass(frozen=True, slots=True)
class Record:
    """One event. ``at_s`` is wall clock, ``mono_ns`` CLOCK_MONOTONIC of its boot, 0 for unknown."""

    key: Key
    id: str
    boot: str
    session: str
    seq: int
    at_s: float
    mono_ns: int
    type: str
    subject: str
    severity: str
    data: Mapping[str, Any] = field(compare=False)


def read_record(payload: bytes | str) -> Record:
    """Read a CloudEvent of an agent. Raises :class:`WireError` for what is none."""
    view = parse_event(payload)
    document = view.document
    source = str(document.get("source", "")).split("/")
    if len(source) != _SOURCE_PARTS or source[0] != "linkhold":
        raise WireError("event: its source is no node of linkhold")
    parts = view.id.rsplit("-", 2)
    if len(parts) != _ID_PARTS or not _SEQ.fullmatch(parts[2]):
        raise WireError("event: its id is none of an agent")
    data, mono = document.get("data"), document.get("monotime")
    return Record(
        key=(source[1], source[2]),
        id=view.id,
        boot=parts[0],
        session=parts[1],
        seq=int(parts[2]),
        at_s=from_rfc3339(view.time),
        mono_ns=mono if type(mono) is int and 0 <= mono < MAX_INTEGER else 0,
        type=view.type,
        subject=printable(view.subject, 120),
        severity=view.severity.value,
        data=data if isinstance(data, dict) else {},
    )


@dataclass(frozen=True, slots=True)
class History:
    """What is known of one node: its events in order. ``stepped`` were put on the right clock."""

    key: Key
    records: tuple[Record, ...]
    stepped: int = 0


def collate(records: Iterable[Record]) -> dict[Key, History]:
    """Return the events of each node, each once, oldest first."""
    once = {(record.key, record.id): record for record in records}
    by_node: dict[Key, list[Record]] = defaultdict(list)
    for record in once.values():
        by_node[record.key].append(record)
    return {key: _history(key, found) for key, found in sorted(by_node.items())}


def _history(key: Key, records: list[Record]) -> History:
    offsets: dict[str, tuple[int, float]] = {}
    for record in records:
        known = offsets.get(record.boot)
        if record.mono_ns and (known is None or record.mono_ns > known[0]):
            offsets[record.boot] = (record.mono_ns, record.at_s - record.mono_ns / 1e9)
    placed = [_placed(record, offsets) for record in records]
    stepped = sum(one is not before for one, before in zip(placed, records, strict=True))
    return History(key, tuple(sorted(placed, key=_order)), stepped)


def _placed(record: Record, offsets: Mapping[str, tuple[int, float]]) -> Record:
    """Return a record where the last known clock of its boot puts it.

    A node may boot with a wrong clock, which is set later: what was told before lies elsewhere.
    """
    if not record.mono_ns:
        return record
    at_s = record.mono_ns / 1e9 + offsets[record.boot][1]
    return record if abs(at_s - record.at_s) <= CLOCK_STEP_S else replace(record, at_s=at_s)


def _order(record: Record) -> tuple[float, int]:
    return (record.at_s, record.seq)
