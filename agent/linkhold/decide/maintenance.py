"""Planned work: when it begins, and when it ends. Pure. It changes no advice and hides no state."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.happening import Happening
from linkhold.model import Moment, WireError
from linkhold.model.maintenance import Maintenance
from linkhold.wire import rfc3339
from linkhold.wire.maintenance import parse_maintenance

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from linkhold.decide.readings import MaintenanceReading
    from linkhold.model import NodeState


def see(
    state: NodeState, reading: MaintenanceReading, now: Moment
) -> tuple[NodeState, list[Happening]]:
    """Begin planned work, put it in the place of what is announced already, or end it."""
    before = state.maintenance
    if not reading.for_s:
        if before is None:
            return state, []
        news = _ended(before, f"ended by {reading.by}", now)
        return replace(state, maintenance=None), [news]
    if before is not None and before.id == reading.id:
        return state, []  # the broker may deliver a message twice
    ends = Moment(now.mono_ns + int(reading.for_s * 1e9), now.wall_s + reading.for_s)
    after = Maintenance(reading.id, reading.why, reading.by, now, ends)
    data = {
        "why": after.why,
        "by": after.by,
        "until": rfc3339(ends.wall_s),
        "renewed": before is not None,
    }
    return replace(state, maintenance=after), [Happening("maintenance.started", "node", data)]


def expire(state: NodeState, now: Moment) -> tuple[NodeState, list[Happening]]:
    """Return the state without planned work whose time is over, and the news."""
    work = state.maintenance
    if work is None or now.mono_ns < work.ends.mono_ns:
        return state, []
    return replace(state, maintenance=None), [_ended(work, "its time is over", now)]


def end_ns(state: NodeState) -> int | None:
    """Return when planned work ends by itself, None without any."""
    return state.maintenance.ends.mono_ns if state.maintenance is not None else None


def after_boot(document: Mapping[str, Any], now: Moment) -> Maintenance | None:
    """Return the planned work of a state that another boot stored, None once it is over.

    The monotonic clock began anew, so what is left of it counts by the wall clock.
    """
    try:
        work = parse_maintenance(document.get("maintenance"))
    except WireError:
        return None
    if work is None or work.ends.wall_s <= now.wall_s:
        return None
    left_s = min(work.ends.wall_s - now.wall_s, work.ends.seconds_since(work.began))
    ends = Moment(now.mono_ns + int(left_s * 1e9), now.wall_s + left_s)
    return replace(work, began=now, ends=ends)


def _ended(work: Maintenance, reason: str, now: Moment) -> Happening:
    lasted_s = round(now.seconds_since(work.began), 3)
    return Happening(
        "maintenance.ended", "node", {"by": work.by, "reason": reason, "lasted_s": lasted_s}
    )
