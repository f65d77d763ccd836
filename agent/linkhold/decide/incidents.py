"""From lines of the kernel's log to incidents: one for each fault of a NIC, with its cause.

A transmit timeout, a firmware fault, an error of the card or its bus, or its removal opens one;
every later line of the same NIC joins it. Netlink is the truth about links: a line that says
"link up" ends an incident only where the link carries, and traffic both ways ends it without any
line. A fault that comes again and again is one long incident, not many short ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from linkhold.model.incidents import Incident, IncidentChange, Incidents, LinkFacts, Step
from linkhold.model.kernel_log import EndsLink, Finding, LineClass, LineSeverity, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

OPENING = frozenset({
    LineClass.TX_TIMEOUT, LineClass.FIRMWARE_FAULT, LineClass.HARDWARE_ERROR, LineClass.REMOVED,
})  # fmt: skip
FAULTS = OPENING | {LineClass.LINK_DOWN, LineClass.BOND_DOWN, LineClass.RESET, LineClass.DEGRADED}
SECOND_NS = 1_000_000_000
MOST_OPEN = 64
MOST_WHYS = 16
MOST_REMEMBERED = 256


@dataclass(frozen=True, slots=True)
class IncidentRules:
    """When incidents begin and end; times in seconds.

    A warning alone opens nothing: ``warnings`` of them within ``warnings_s`` do. Traffic both ways
    ends an incident ``calm_s`` after its last fault, where ``storm`` openings within ``storm_s``
    were seen only ``storm_s`` after it. One of which nothing more can be known ends after
    ``stale_s``. A stack counts for a wedged processor within ``lockup_s``.
    """

    calm_s: float = 10.0
    warnings: int = 10
    warnings_s: float = 60.0
    storm: int = 3
    storm_s: float = 600.0
    stale_s: float = 3600.0
    lockup_s: float = 5.0


DEFAULTS = IncidentRules()


class Outcome(NamedTuple):
    """The incidents after a line or a look, and what is to be published."""

    state: Incidents
    changes: tuple[IncidentChange, ...] = ()


def absorb(
    state: Incidents,
    finding: Finding,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules = DEFAULTS,
) -> Outcome:
    """Fold in what one line says. ``facts`` are all interfaces by name, ``now_ns`` monotonic."""
    if finding.mark is not Mark.NOTHING:
        return _lockup(state, finding, facts, now_ns, rules)
    if finding.cls in {LineClass.NONE, LineClass.CONFIG}:
        return Outcome(state)
    subject = _subject(state, finding, facts)
    known = state.open.get(subject)
    if known is not None:
        return _join(state, known, finding, facts, now_ns, rules)
    if finding.cls not in OPENING or finding.ends_link is EndsLink.RETURNS:
        return Outcome(state)
    if finding.severity.rank <= LineSeverity.WARNING.rank:
        state, enough = _often_enough(state, (subject, finding.cls), now_ns, rules)
        if not enough:
            return Outcome(state)
    return _open(state, subject, finding, facts, now_ns, rules)


def look(
    state: Incidents,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules = DEFAULTS,
) -> Outcome:
    """Close what is over by now: call it every few seconds while an incident is open.

    Traffic both ways since the last fault, over a link with carrier, proves the NIC well.
    """
    kept: dict[str, Incident] = {}
    changes: list[IncidentChange] = []
    for subject, incident in state.open.items():
        seen, reason = _seen(state, incident, facts, now_ns, rules)
        if reason:
            changes.append(IncidentChange(Step.CLOSED, seen, reason))
        else:
            kept[subject] = seen
    if not changes and kept == dict(state.open):
        return Outcome(state)
    return Outcome(replace(state, open=MappingProxyType(kept)), tuple(changes))


def cause_of(state: Incidents, interface: str, facts: Mapping[str, LinkFacts]) -> Incident | None:
    """Return the open incident that explains trouble of a link or bond, None for none.

    With one, an alert of netlink about the same interface says the cause instead of a second alarm.
    """
    own = _facts(facts, interface)
    for incident in state.open.values():
        member = _facts(facts, incident.interface)
        same = bool(incident.interface) and incident.interface == interface
        by_address = bool(incident.address) and incident.address == own.address
        if same or by_address or (bool(interface) and member.bond == interface):
            return incident
    return None


def _facts(facts: Mapping[str, LinkFacts], interface: str) -> LinkFacts:
    return facts.get(interface, LinkFacts(carrier=False))


def _subject(state: Incidents, finding: Finding, facts: Mapping[str, LinkFacts]) -> str:
    """Return the incident that a line belongs to, else the name of the one it would open."""
    interface = finding.interface or _only_at(finding.address, facts)
    for subject, incident in state.open.items():
        if interface and interface == incident.interface:
            return subject
        address = finding.address or _facts(facts, interface).address
        if address and address == incident.address:
            return subject
        if finding.bond and finding.interface == finding.bond:
            member = _facts(facts, incident.interface)
            if member.bond == finding.bond:
                return subject
    return interface or finding.address or finding.driver or finding.cls.value


def _only_at(address: str, facts: Mapping[str, LinkFacts]) -> str:
    names = [name for name, one in facts.items() if address and one.address == address]
    return names[0] if len(names) == 1 else ""


def _open(
    state: Incidents,
    subject: str,
    finding: Finding,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules,
) -> Outcome:
    if len(state.open) >= MOST_OPEN:
        return Outcome(replace(state, dropped=state.dropped + 1))
    interface = finding.interface or _only_at(finding.address, facts)
    incident = Incident(
        subject=subject,
        cls=finding.cls,
        severity=finding.severity,
        cause=finding.why,
        opened_ns=now_ns,
        last_fault_ns=now_ns,
        interface=interface,
        address=finding.address or _facts(facts, interface).address,
        driver=finding.driver,
        whys=(finding.why,),
    )
    openings = _remember(state.openings, (subject, finding.cls), now_ns, rules.storm_s)
    state = replace(_with(state, incident), openings=openings)
    return Outcome(state, (IncidentChange(Step.OPENED, incident),))


def _join(
    state: Incidents,
    known: Incident,
    finding: Finding,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules,
) -> Outcome:
    joined = replace(
        known,
        lines=known.lines + 1,
        whys=_appended(known.whys, finding.why),
        interface=known.interface or finding.interface,
        address=known.address or finding.address,
        driver=known.driver or finding.driver,
    )
    if finding.ends_link is EndsLink.RETURNS:
        return _recovered(state, joined, facts, now_ns, rules)
    if finding.cls in FAULTS:
        joined = replace(joined, last_fault_ns=now_ns, recovered_ns=None, baseline=None)
    worse = finding.cls in OPENING and finding.severity.rank > known.severity.rank
    if not worse:
        return Outcome(_with(state, joined))
    raised = replace(joined, cls=finding.cls, severity=finding.severity, cause=finding.why)
    return Outcome(_with(state, raised), (IncidentChange(Step.RAISED, raised, finding.why),))


def _recovered(
    state: Incidents,
    incident: Incident,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules,
) -> Outcome:
    """Close on a line of recovery, unless netlink contradicts it or the fault keeps returning."""
    known = facts.get(incident.interface)
    if (known is not None and not known.carrier) or _stormy(state, incident, now_ns, rules):
        return Outcome(_with(state, replace(incident, recovered_ns=now_ns)))
    left = {subject: one for subject, one in state.open.items() if subject != incident.subject}
    change = IncidentChange(Step.CLOSED, incident, f"the log says so: {incident.whys[-1]}")
    return Outcome(replace(state, open=MappingProxyType(left)), (change,))


def _seen(
    state: Incidents,
    incident: Incident,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules,
) -> tuple[Incident, str]:
    """Return the incident after a look, and why it is over, or an empty text."""
    stormy = _stormy(state, incident, now_ns, rules)
    calm_ns = now_ns - incident.last_fault_ns
    calm = calm_ns >= (rules.storm_s if stormy else rules.calm_s) * SECOND_NS
    one = facts.get(incident.interface)
    if one is None:
        stale = calm_ns >= rules.stale_s * SECOND_NS
        return incident, "nothing more was heard of it" if stale else ""
    if not one.carrier:
        return replace(incident, baseline=None), ""
    if incident.recovered_ns is not None and not stormy:
        return incident, "the log said so, and the link carries"
    if one.rx_packets is None or one.tx_packets is None:
        return incident, "the link carries, and nothing more was heard" if calm else ""
    if incident.baseline is None:
        return replace(incident, baseline=(one.rx_packets, one.tx_packets)), ""
    flows = one.rx_packets > incident.baseline[0] and one.tx_packets > incident.baseline[1]
    return incident, "traffic flows both ways" if flows and calm else ""


def _lockup(
    state: Incidents,
    finding: Finding,
    facts: Mapping[str, LinkFacts],
    now_ns: int,
    rules: IncidentRules,
) -> Outcome:
    """Remember a wedged processor; the poll function of a NIC in its stack says whose fault."""
    if finding.mark is Mark.LOCKUP:
        return Outcome(replace(state, lockup_ns=now_ns))
    if state.lockup_ns is None or now_ns - state.lockup_ns > rules.lockup_s * SECOND_NS:
        return Outcome(state)
    state = replace(state, lockup_ns=None)
    blame = replace(
        finding,
        cls=LineClass.HARDWARE_ERROR,
        severity=LineSeverity.CRITICAL,
        why=f"soft lockup in the poll function of {finding.driver}",
        ends_link=EndsLink.LIKELY,
        mark=Mark.NOTHING,
    )
    same = [one for one in state.open.values() if one.driver == finding.driver]
    if not same:
        return absorb(state, blame, facts, now_ns, rules)
    changes: list[IncidentChange] = []
    for incident in same:
        state, more = _join(state, incident, blame, facts, now_ns, rules)
        changes += more
    return Outcome(state, tuple(changes))


def _often_enough(
    state: Incidents, key: tuple[str, LineClass], now_ns: int, rules: IncidentRules
) -> tuple[Incidents, bool]:
    warnings = _remember(state.warnings, key, now_ns, rules.warnings_s, rules.warnings)
    return replace(state, warnings=warnings), len(warnings[key]) >= rules.warnings


def _stormy(state: Incidents, incident: Incident, now_ns: int, rules: IncidentRules) -> bool:
    """Whether incidents of this subject began so often lately that this one must not end soon."""
    since_ns = now_ns - round(rules.storm_s * SECOND_NS)
    times = [
        time
        for (subject, _), found in state.openings.items()
        if subject == incident.subject
        for time in found
    ]
    return sum(time >= since_ns for time in times) >= rules.storm


def _remember(
    known: Mapping[tuple[str, LineClass], tuple[int, ...]],
    key: tuple[str, LineClass],
    now_ns: int,
    window_s: float,
    most: int = 8,
) -> Mapping[tuple[str, LineClass], tuple[int, ...]]:
    """Return the times with ``now_ns`` for ``key``, without what is older than the window."""
    since_ns = now_ns - round(window_s * SECOND_NS)
    kept = {
        other: times
        for other, found in known.items()
        if (times := tuple(time for time in found if time >= since_ns))
    }
    kept[key] = (*kept.pop(key, ()), now_ns)[-most:]
    for oldest in list(kept)[: max(0, len(kept) - MOST_REMEMBERED)]:
        del kept[oldest]
    return MappingProxyType(kept)


def _with(state: Incidents, incident: Incident) -> Incidents:
    return replace(state, open=MappingProxyType({**state.open, incident.subject: incident}))


def _appended(whys: tuple[str, ...], why: str) -> tuple[str, ...]:
    return whys if why in whys or len(whys) >= MOST_WHYS else (*whys, why)
