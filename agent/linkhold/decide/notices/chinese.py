"""Alibaba and Tencent: a spot machine's end as a bare date; Alibaba's system events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkhold.decide.notices.dates import TENCENT_ZONE, seconds
from linkhold.decide.notices.reading import document, excerpt, refuse_page, said
from linkhold.decide.notices.values import Announced, Judged, Known, Odd

if TYPE_CHECKING:
    from datetime import timezone

    from linkhold.decide.notices.values import Answer

VERBS = ("reboot", "redeploy", "stop", "migrate", "delete", "release")
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
    refuse_page(body)
    events = document(body, list) if body.lstrip()[:1] == "[" else [document(body, dict)]
    found = tuple(_event(event) for event in events if isinstance(event, dict) and event)
    if any(events) and not found:
        raise Odd("no entry of the list is an event")
    return Judged(Known.YES, f"{len(found)} system events are active", found)


def _event(event: dict[str, Any]) -> Announced:
    fields = {key.lower(): value for key, value in event.items()}
    named = next((said(fields[k]) for k in ("eventtype", "type", "name") if k in fields), "")
    plain = named.lower()
    verb = next((verb for verb in VERBS if verb in plain), "unknown")
    spot = "interruption" in plain or "preemptible" in plain
    when = next((fields[k] for k in ("notbefore", "executetime", "starttime") if k in fields), "")
    return Announced(
        key=said(fields.get("eventid")) or json.dumps(event, sort_keys=True)[:80],
        kind="spot" if spot else "maintenance",
        action="terminate" if spot else ENDS.get(verb, verb),
        at_s=seconds(when),
        text=named[:200],
    )
