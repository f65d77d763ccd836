"""Alibaba and Tencent: a spot machine's end as a bare date; Alibaba's system events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkhold.decide.notices.dates import TENCENT_ZONE, seconds
from linkhold.decide.notices.reading import document, excerpt, fields, refuse_page, said
from linkhold.decide.notices.values import Announced, Judged, Known, Odd

if TYPE_CHECKING:
    from datetime import timezone

    from linkhold.decide.notices.values import Answer

VERBS = ("reboot", "redeploy", "stop", "migrate", "delete", "release")
OVER = frozenset({"avoided", "executed", "canceled", "cancelled", "failed"})
"""States of an event that comes no more (DescribeInstanceHistoryEvents)."""
WRAPPED = 4
ENDS = {"delete": "terminate", "release": "terminate"}


def alibaba(answer: Answer) -> Judged:
    """Return what a 200 of Alibaba says. Raises Odd."""
    if answer.path.endswith("/active-system-events"):
        return _system_events(answer.body)
    if answer.path.endswith("/termination-time"):
        return _end(answer, None)
    return Judged(Known.YES, "this endpoint announces nothing")


def tencent(answer: Answer) -> Judged:
    """Return what a 200 of Tencent says; its dates have no zone and are in UTC+8. Raises Odd."""
    if answer.path.endswith("/termination-time"):
        return _end(answer, TENCENT_ZONE)
    return Judged(Known.YES, "this endpoint announces nothing")


def _end(answer: Answer, zone: timezone | None) -> Judged:
    refuse_page(answer.body)
    at_s = seconds(answer.body) if zone is None else seconds(answer.body, zone)
    if at_s is None:
        raise Odd(f"no date where one is due: {excerpt(answer.body)}")
    found = Announced("spot-terminate", "spot", "terminate", at_s=at_s)
    return Judged(Known.YES, "spot: this machine will be taken back", (found,))


def _system_events(body: str) -> Judged:
    """Judge the active events. Their JSON is not documented; the API's names are taken."""
    if not body.strip():
        return Judged(Known.YES, "no system event is active")
    whole = document(body, (dict, list))
    events = _events(whole)
    if whole and not events and not _is_empty(whole):
        raise Odd("nothing in it is an event")
    over = [event for event in events if _state(event) in OVER]
    found = tuple(_event(event) for event in events if event not in over)
    why = f"{len(found)} system events are active, {len(over)} are over"
    return Judged(Known.YES, why, found, tuple(_event(event).key for event in over))


def _events(value: object, depth: int = 0) -> list[dict[str, Any]]:
    """Return the events in a list, or in whatever the API wraps a list in."""
    if isinstance(value, dict):
        told = fields(value)
        if told.keys() & {"eventtype", "eventid"}:
            return [told]
        value = list(value.values())
    if not isinstance(value, list) or depth > WRAPPED:
        return []
    return [event for one in value for event in _events(one, depth + 1)]


def _is_empty(value: object) -> bool:
    """Tell whether there is nothing in lists and objects but lists and objects."""
    if isinstance(value, dict):
        value = list(value.values())
    return isinstance(value, list) and all(_is_empty(one) for one in value)


def _state(event: dict[str, Any]) -> str:
    names = ("eventcyclestatus", "eventstatus", "status")
    return next((_named(event[name]) for name in names if name in event), "").lower()


def _named(value: object) -> str:
    """Return a word, also where the API has it as an object with Code and Name."""
    return said(fields(value).get("name")) if isinstance(value, dict) else said(value)


def _event(event: dict[str, Any]) -> Announced:
    named = _named(event.get("eventtype"))
    plain = named.lower()
    verb = next((verb for verb in VERBS if verb in plain), "unknown")
    spot = "interruption" in plain or "preemptible" in plain
    when = next((event[k] for k in ("notbefore", "executetime", "starttime") if k in event), "")
    return Announced(
        key=said(event.get("eventid")) or json.dumps(event, sort_keys=True)[:80],
        kind="spot" if spot else "maintenance",
        action="terminate" if spot else ENDS.get(verb, verb),
        status=_state(event),
        at_s=seconds(when),
        text=named[:200],
    )
