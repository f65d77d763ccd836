"""The part of ``linkhold status`` about power and notices."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from linkhold.cli.shown import clock, duration

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLUMNS = ("source", "kind", "state", "left", "charge", "heard", "says")


def rows(detail: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield a row for each source of power, with the age of its last sign of life."""
    heard = detail["agent"].get("heard_mono_ns", {})
    for name, one in detail["power"].get("sources", {}).items():
        last_ns = max(heard.get(name) or 0, one["at_mono_ns"] or 0)
        age = f"{duration((time.monotonic_ns() - last_ns) / 1e9)} ago" if last_ns else "never"
        left_s, charge = one["runtime_s"], one["charge"]
        says = "; ".join((*one["degraded"], one["detail"])) or "-"
        yield (
            name,
            one["kind"],
            _state(one),
            "-" if left_s is None else duration(left_s),
            "-" if charge is None else f"{charge:.0f} %",
            age,
            says,
        )


def _state(one: Mapping[str, Any]) -> str:
    if one["kind"] == "feeds" and not one["stale"]:
        return "degraded" if one["degraded"] else "-"  # feeds do not tell of mains
    return f"{one['state']} (silent)" if one["stale"] else str(one["state"])


def lines(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for planned work, each notice, the earliest end, and for who tells nothing."""
    work = document.get("maintenance")
    if work:
        left = _left(work["until_mono_ns"]).replace("in ", "for ")
        yield (
            f"maintenance until {clock(work['until'])} ({left}), by {work['by']}: {work['why']}; "
            "nobody is paged for this node"
        )
    for notice in document["notices"]:
        planned = ", planned" if notice.get("planned") else ""
        end = f", at {clock(notice['deadline'])} ({_left(notice['deadline_mono_ns'])})"
        yield (
            f"notice: {notice['kind']}: {notice['action']}{planned}"
            f"{end if notice['deadline'] else ''} ({notice['source']})"
        )
    deadline = document.get("deadline")
    if deadline:
        left = _left(deadline["at_mono_ns"])
        yield f"this machine may end at {clock(deadline['at'])} ({left}): {deadline['source']}"
    asked = document["detail"].get("notices", {})
    for name, why in asked.get("blind", {}).items():
        yield f"notices: {name} tells nothing: {why}"


def _left(mono_ns: int) -> str:
    left_s = (mono_ns - time.monotonic_ns()) / 1e9
    return f"in {duration(left_s)}" if left_s > 0 else "now"
