"""Power and notices as JSON, and read back after a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.model import Notice, Power, PowerState
from linkhold.model.power_sources import SourceKind, SourceReading
from linkhold.model.power_view import Deadline, PowerView
from linkhold.wire.documents import parse_stamp, stamp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model import NodeState


def notice_document(notice: Notice) -> dict[str, Any]:
    """Return a notice as JSON. ``planned``: somebody on this machine ordered it."""
    deadline = notice.deadline
    return {
        "kind": notice.kind,
        "action": notice.action,
        "source": notice.source,
        "planned": notice.planned,
        **stamp("seen", notice.seen),
        **(stamp("deadline", deadline) if deadline else _NO_DEADLINE),
    }


_NO_DEADLINE = {"deadline": None, "deadline_mono_ns": None}


def deadline_document(deadline: Deadline | None) -> dict[str, Any] | None:
    """Return the earliest end of this machine as JSON, None for none."""
    return None if deadline is None else {**stamp("at", deadline.at), "source": deadline.source}


def power_document(state: NodeState) -> dict[str, Any]:
    """Return the part of the state document about power, each source by its name."""
    power, view = state.power, state.power_view
    return {
        "runtime_s": power.runtime_s,
        "source": power.source,
        "confirmed": power.confirmed,
        "forced_shutdown": power.forced_shutdown,
        **stamp("since", state.power_since),
        "deadline": deadline_document(view.deadline),
        "degraded": list(view.degraded),
        "unknown": view.unknown,
        "sources": {one.source: _source(one) for one in view.sources},
    }


def _source(one: SourceReading) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "state": one.state.value,
        "stale": one.stale,
        "charge": one.charge,
        "runtime_s": one.runtime_s,
        "forced_shutdown": one.forced_shutdown,
        "tokens": list(one.tokens),
        "degraded": list(one.degraded),
        "detail": one.detail,
        **({"at": None, "at_mono_ns": None} if one.at is None else stamp("at", one.at)),
    }


# All of these raise KeyError, TypeError, ValueError and AttributeError for what is damaged.


def parse_power(state: str, detail: Mapping[str, Any]) -> Power:
    """Return what all sources said together."""
    return Power(
        state=PowerState(state),
        confirmed=bool(detail["confirmed"]),
        runtime_s=_number(detail["runtime_s"]),
        forced_shutdown=bool(detail["forced_shutdown"]),
        source=str(detail["source"]),
    )


def parse_power_view(detail: Mapping[str, Any]) -> PowerView:
    """Return what :func:`power_document` shows of the sources; nothing from agents before it."""
    sources = detail.get("sources", {})
    return PowerView(
        tuple(_parse_source(name, one) for name, one in sources.items()),
        parse_deadline(detail.get("deadline")),
        tuple(map(str, detail.get("degraded", ()))),
        bool(detail.get("unknown", False)),
    )


def _parse_source(name: str, one: Mapping[str, Any]) -> SourceReading:
    return SourceReading(
        source=name,
        kind=SourceKind(one["kind"]),
        state=PowerState(one["state"]),
        at=parse_stamp(one, "at") if one["at"] else None,
        stale=bool(one["stale"]),
        charge=_number(one["charge"]),
        runtime_s=_number(one["runtime_s"]),
        forced_shutdown=bool(one["forced_shutdown"]),
        tokens=tuple(map(str, one["tokens"])),
        degraded=tuple(map(str, one["degraded"])),
        detail=str(one["detail"]),
    )


def parse_notice(value: Mapping[str, Any]) -> Notice:
    """Return what :func:`notice_document` was given."""
    return Notice(
        kind=str(value["kind"]),
        action=str(value["action"]),
        source=str(value["source"]),
        seen=parse_stamp(value, "seen"),
        deadline=parse_stamp(value, "deadline") if value["deadline"] else None,
    )


def parse_deadline(value: Mapping[str, Any] | None) -> Deadline | None:
    """Return what :func:`deadline_document` was given."""
    return Deadline(parse_stamp(value, "at"), str(value["source"])) if value else None


def _number(value: Any) -> float | None:
    if isinstance(value, str):  # float() takes "nan" too, which no state could be written with
        raise TypeError("a text in the place of a number")
    return None if value is None else float(value)
