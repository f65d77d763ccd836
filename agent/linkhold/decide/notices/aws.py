"""AWS: spot, rebalance and scheduled events (EC2 user guide; node-termination-handler's tests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.notices.dates import seconds
from linkhold.decide.notices.reading import document, excerpt, fields, refuse_page, said
from linkhold.decide.notices.values import Announced, Judged, Known, Odd

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.notices.values import Answer

CODES = {
    "system-reboot": "reboot",
    "instance-reboot": "reboot",
    "instance-stop": "stop",
    "instance-retirement": "stop",  # or terminated, where the root is an instance store
    "system-maintenance": "maintenance",
}
SPOT_ACTIONS = frozenset({"terminate", "stop", "hibernate"})
OVER = frozenset({"completed", "canceled", "cancelled"})
LEAVING = frozenset({"terminated", "detached", "warmed:terminated"})


def judge(answer: Answer) -> Judged:
    """Return what a 200 of AWS says. Raises Odd."""
    for end, rule in _RULES.items():
        if answer.path.endswith(end):
            return rule(answer)
    return Judged(Known.YES, "this endpoint announces nothing")


def _spot(answer: Answer) -> Judged:
    body = fields(document(answer.body, dict))
    action, at_s = said(body.get("action")).lower(), seconds(body.get("time"))
    if not action:
        raise Odd("a spot notice without an action")
    found = Announced(
        key=f"spot-{action}",
        kind="spot",
        action=action if action in SPOT_ACTIONS else "unknown",
        at_s=at_s,
        now=action == "hibernate" or at_s is None,
    )
    more = "; hibernation begins at once" if action == "hibernate" else ""
    return Judged(Known.YES, f"spot: this machine will {action[:20]}{more}", (found,))


def _termination(answer: Answer) -> Judged:
    refuse_page(answer.body)
    at_s = seconds(answer.body)
    if at_s is None:
        # The EC2 guide says of this endpoint that text that is no time means no notice.
        return Judged(Known.YES, f"no time, so no notice: {excerpt(answer.body)}")
    found = Announced("spot-terminate", "spot", "terminate", at_s=at_s)
    return Judged(Known.YES, "spot: this machine will be terminated", (found,))


def _rebalance(answer: Answer) -> Judged:
    at_s = seconds(fields(document(answer.body, dict)).get("noticetime"))
    if at_s is None:
        raise Odd("a rebalance recommendation without a time")
    found = Announced("rebalance", "rebalance", "rebalance", at_s=at_s)
    return Judged(Known.YES, "elevated risk of an interruption, no shutdown", (found,))


def _scheduled(answer: Answer) -> Judged:
    events = document(answer.body, list)
    told = [fields(event) for event in events if isinstance(event, dict)]
    readable = [event for event in told if said(event.get("code"))]
    if events and not readable:
        raise Odd("no entry of the list is an event")
    over = [event for event in readable if said(event.get("state")).lower() in OVER]
    found = tuple(_event(event) for event in readable if event not in over)
    why = f"{len(found)} scheduled, {len(over)} cancelled or completed; State decides"
    return Judged(Known.YES, why, found, tuple(_key(event) for event in over))


def _event(event: dict[str, Any]) -> Announced:
    code = said(event.get("code")).lower()
    return Announced(
        key=_key(event),
        kind="maintenance",
        action=CODES.get(code, "unknown"),
        status=said(event.get("state")).lower() or "active",
        at_s=seconds(event.get("notbefore")),
        text=f"{code}: {said(event.get('description'))}"[:200],
    )


def _key(event: dict[str, Any]) -> str:
    return said(event.get("eventid")) or f"{event.get('code')}-{event.get('notbefore')}"


def _lifecycle(answer: Answer) -> Judged:
    refuse_page(answer.body)
    state = answer.body.strip()
    if state.lower() not in LEAVING:
        return Judged(Known.YES, f"the group wants it {excerpt(state)}")
    found = Announced("autoscaling", "maintenance", "terminate", now=True)
    return Judged(Known.YES, "its group takes this machine away", (found,))


_RULES: dict[str, Callable[[Answer], Judged]] = {
    "/spot/instance-action": _spot,
    "/spot/termination-time": _termination,
    "/events/recommendations/rebalance": _rebalance,
    "/events/maintenance/scheduled": _scheduled,
    "/autoscaling/target-lifecycle-state": _lifecycle,
}
