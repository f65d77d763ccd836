"""Holds of operators in the state document: encoded, and read back by client and agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.model import Moment, WireError
from linkhold.model.holds import OperatorHold
from linkhold.wire.documents import from_rfc3339, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable


def holds_document(holds: Iterable[OperatorHold]) -> list[dict[str, Any]]:
    """Return the field ``holds`` of the state document."""
    return [
        {
            "job": hold.job or None,
            "uploads": hold.uploads,
            "training": hold.training,
            "why": hold.why,
            "by": hold.by,
            "uid": hold.uid,
            "since": rfc3339(hold.began.wall_s),
            "since_mono_ns": hold.began.mono_ns,
            "until": rfc3339(hold.ends.wall_s),
            "until_mono_ns": hold.ends.mono_ns,
            "processes": [list(key) for key in hold.processes],
        }
        for hold in holds
    ]


def parse_holds(value: Any) -> tuple[OperatorHold, ...]:
    """Return the holds of a state document; none where an agent before them wrote it.

    One that is damaged is left out: it must neither hold training for ever nor hide the others.
    """
    found = []
    for entry in value if isinstance(value, list) else ():
        try:
            found.append(_hold(entry))
        except (KeyError, TypeError, ValueError, OverflowError, WireError):
            continue
    return tuple(found)


def _hold(entry: Any) -> OperatorHold:
    return OperatorHold(
        job=str(entry["job"] or ""),
        uploads=entry["uploads"] is True,
        training=entry["training"] is True,
        why=str(entry["why"]),
        by=str(entry["by"]),
        uid=int(entry["uid"]),
        began=Moment(int(entry["since_mono_ns"]), from_rfc3339(entry["since"])),
        ends=Moment(int(entry["until_mono_ns"]), from_rfc3339(entry["until"])),
        processes=tuple((int(pid), int(started)) for pid, started in entry["processes"]),
    )
