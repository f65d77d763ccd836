"""Google: preemption, host maintenance, upcoming maintenance (Compute Engine documentation)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.notices.dates import seconds
from linkhold.decide.notices.reading import document, excerpt, fields, refuse_page, said
from linkhold.decide.notices.values import Announced, Judged, Known, Odd

if TYPE_CHECKING:
    from linkhold.decide.notices.values import Answer

PREEMPTION_S = 30.0
"""What is left between the notice (ACPI G2) and the end (G3) of a Spot machine."""
MAINTENANCE = {"MIGRATE": "migrate", "TERMINATE": "terminate", "SHUTDOWN": "terminate"}
OVER = frozenset({"completed", "canceled", "cancelled"})
UPCOMING = "/upcoming-maintenance"


def refuse_header(answer: Answer) -> None:
    """Raise Odd for an answer that shows no ``Metadata-Flavor: Google``: another server's."""
    if answer.headers is None:
        return
    if {name.lower(): v for name, v in answer.headers.items()}.get("metadata-flavor") != "Google":
        raise Odd("the header Metadata-Flavor: Google is missing: another server answers")


def judge(answer: Answer) -> Judged:
    """Return what a 200 of Google says. Raises Odd."""
    refuse_page(answer.body)
    refuse_header(answer)
    word = answer.body.strip().strip('"').upper()  # in quotes with ?alt=json
    if answer.path.endswith("/preempted"):
        return _preempted(word)
    if answer.path.endswith("/maintenance-event"):
        return _maintenance(word)
    if answer.path.endswith(UPCOMING):
        return _upcoming(answer.body)
    return Judged(Known.YES, "this endpoint announces nothing")


def _preempted(word: str) -> Judged:
    if word == "FALSE":
        return Judged(Known.YES, "not preempted")
    if word != "TRUE":
        raise Odd(f"neither TRUE nor FALSE: {excerpt(word)}")
    found = Announced("preempted", "spot", "preempt", now=True, min_notice_s=PREEMPTION_S)
    return Judged(Known.YES, "preempted: about 30 s are left", (found,))


def _maintenance(word: str) -> Judged:
    if word == "NONE":
        return Judged(Known.YES, "no maintenance")
    verb, sep, _ = word.partition("_ON_HOST_MAINTENANCE")
    if not sep:
        raise Odd(f"no word of host maintenance: {excerpt(word)}")
    action = MAINTENANCE.get(verb, "unknown")
    found = Announced("maintenance-event", "maintenance", action, now=True, text=word)
    return Judged(Known.YES, f"host maintenance: {action}", (found,))


def _upcoming(body: str) -> Judged:
    if body.strip().strip('"').upper() in {"NONE", ""}:
        return Judged(Known.YES, "no maintenance is planned")
    plan = fields(document(body, dict))
    inner = plan.get("upcomingmaintenance")  # as the API wraps it
    plan = fields(inner) if isinstance(inner, dict) else plan
    if not plan:
        return Judged(Known.YES, "no maintenance is planned")
    status, kind = said(plan.get("maintenancestatus")).lower(), said(plan.get("type")).lower()
    if status in OVER:
        return Judged(Known.YES, f"the planned maintenance is {status}", (), ("upcoming",))
    at_s = seconds(plan.get("windowstarttime"))
    if at_s is None and not status and not kind:
        raise Odd("a plan with neither window, status nor type")
    found = Announced("upcoming", "maintenance", "maintenance", status, at_s, text=kind)
    return Judged(Known.YES, f"maintenance is planned ({status or kind or 'window'})", (found,))
