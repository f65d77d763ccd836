"""What incidents of the kernel's log mean for the node: events and alerts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from linkhold.decide.alert_tracking import Condition
from linkhold.decide.happening import Happening
from linkhold.model import Severity
from linkhold.model.incidents import Step
from linkhold.model.kernel_log import LineSeverity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from linkhold.model.incidents import Incident, IncidentChange, KernelLog

WHYS_SHOWN = 3
LINK_TROUBLE = frozenset(
    {"link.down", "link.flapping", "link.missing", "bond.down", "bond.degraded", "network.down"}
)


def news(changes: Iterable[IncidentChange], now_ns: int) -> list[Happening]:
    """Return the events of these steps of incidents."""
    return [_happening(change, now_ns) for change in changes]


def _happening(change: IncidentChange, now_ns: int) -> Happening:
    incident = change.incident
    data: dict[str, object] = {
        "class": incident.cls.value,
        "cause": incident.cause,
        "interface": incident.interface,
        "address": incident.address,
        "driver": incident.driver,
        "lines": incident.lines,
        "reason": change.reason,
    }
    if change.step is Step.CLOSED:
        data["lasted_s"] = round((now_ns - incident.opened_ns) / 1e9, 3)
        return Happening("nic.incident_closed", incident.subject, data)
    kind = "nic.incident" if change.step is Step.OPENED else "nic.incident_raised"
    return Happening(kind, incident.subject, data, severity(incident))


def severity(incident: Incident) -> Severity:
    """Return how much an incident matters to people; a device that is lost is critical."""
    critical = incident.severity is LineSeverity.CRITICAL
    return Severity.CRITICAL if critical else Severity.WARNING


def conditions(log: KernelLog, trouble: Sequence[Condition]) -> Iterator[Condition]:
    """Yield the alerts of incidents.

    ``trouble`` is what netlink told already. An incident that explains one of those is no alarm of
    its own: :func:`cause` adds it there.
    """
    for incident in log.incidents:
        if not any(_explains(incident, one) for one in trouble):
            yield Condition("nic.incident", incident.subject, severity(incident), _text(incident))
    if log.problem:
        text = f"the kernel's log is not read: {log.problem}; causes of faults will be missing"
        yield Condition("agent.kernel_log", "kernel log", Severity.INFO, text)


def cause(log: KernelLog, condition: Condition) -> str:
    """Return what the kernel's log adds to an alert of netlink, empty for nothing."""
    found = [one for one in log.incidents if _explains(one, condition)]
    return f"; the kernel's log says: {_text(found[0])}" if found else ""


def _explains(incident: Incident, told: Condition) -> bool:
    """Whether an incident is about the link that an alert is about, or names."""
    name = incident.interface
    if not name or told.type not in LINK_TROUBLE:
        return False
    named = rf"(?<![\w.-]){re.escape(name)}(?![\w.-])"
    return told.subject == name or bool(re.search(named, told.text))


def _text(incident: Incident) -> str:
    where = ", ".join(
        word for word in (incident.driver, incident.address) if word and word != incident.subject
    )
    place = f"{incident.subject} ({where})" if where else incident.subject
    others = [why for why in incident.whys if why != incident.cause][:WHYS_SHOWN]
    also = f"; then: {'; '.join(others)}" if others else ""
    lines = "1 line" if incident.lines == 1 else f"{incident.lines} lines"
    return f"{place}: {incident.cause}{also} ({lines} of the kernel's log)"
