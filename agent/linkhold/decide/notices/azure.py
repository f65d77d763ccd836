"""Azure scheduled events (Microsoft Learn, "Scheduled Events for Linux VMs")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.json_values import number
from linkhold.decide.notices.dates import seconds
from linkhold.decide.notices.reading import document, fields, said
from linkhold.decide.notices.values import Announced, Judged, Known, Odd

if TYPE_CHECKING:
    from linkhold.decide.notices.values import Answer

TYPES = {
    "freeze": ("maintenance", "freeze", 900.0),
    "reboot": ("maintenance", "reboot", 900.0),
    "redeploy": ("maintenance", "redeploy", 600.0),
    "preempt": ("spot", "preempt", 30.0),
    "terminate": ("maintenance", "terminate", 300.0),
}
"""Event type: kind and action of the notice, and the shortest notice that is documented, in s."""
OVER = frozenset({"completed", "canceled", "cancelled"})


MAX_NAME_CHARS = 256


def machine(body: str) -> tuple[str, bool | None]:
    """Return this machine's name and whether it can be preempted, empty and None where not told.

    ``compute`` of the instance metadata has both (Microsoft Learn, "Azure Instance Metadata
    Service"): the priority of a machine is Regular, Spot or, in old scale sets, Low.
    """
    try:
        found = document(body, dict)
    except Odd:
        return "", None
    name, priority = said(found.get("name")), said(found.get("priority")).lower()
    spot = {"regular": False, "spot": True, "low": True}.get(priority)
    return (name if name.isprintable() and len(name) <= MAX_NAME_CHARS else ""), spot


def judge(answer: Answer) -> Judged:
    """Return what a 200 of Azure says of this machine alone. Raises Odd."""
    events = fields(document(answer.body, dict)).get("events")
    if not isinstance(events, list):
        raise Odd("no list of events")
    told = [fields(event) for event in events if isinstance(event, dict)]
    readable = [event for event in told if event.get("eventtype")]
    if events and not readable:
        raise Odd("no entry of the list is an event")
    ours = [event for event in readable if _concerns(event, answer.this_vm)]
    over = [event for event in ours if said(event.get("eventstatus")).lower() in OVER]
    found = tuple(_event(event) for event in ours if event not in over)
    why = f"{len(found)} of {len(events)} events concern this machine"
    return Judged(Known.YES, why, found, tuple(_key(event) for event in over))


def _concerns(event: dict[str, Any], this_vm: str) -> bool:
    """Tell whether an event is of this machine: all of a scale set see all events.

    Without a name to compare every event counts: better one checkpoint too many.
    """
    resources = event.get("resources")
    if not this_vm or not isinstance(resources, list):
        return True
    return this_vm.lower() in {str(name).lower() for name in resources}


def _event(event: dict[str, Any]) -> Announced:
    named = said(event.get("eventtype")).lower()
    kind, action, min_notice_s = TYPES.get(named, ("maintenance", "unknown", None))
    status, at_s = said(event.get("eventstatus")).lower(), seconds(event.get("notbefore"))
    return Announced(
        key=_key(event),
        kind=kind,
        action=action,
        status=status,
        at_s=at_s,
        now=status == "started" or at_s is None,
        duration_s=_duration_s(event),
        min_notice_s=min_notice_s,
        text=f"{named}: {said(event.get('description'))}"[:200],
    )


def _duration_s(event: dict[str, Any]) -> float | None:
    """Return how long a pause lasts in s; -1 means unknown."""
    duration = number(event.get("durationinseconds"))
    return None if duration is None or duration < 0 else duration


def _key(event: dict[str, Any]) -> str:
    return said(event.get("eventid")) or f"{event.get('eventtype')}-{event.get('notbefore')}"
