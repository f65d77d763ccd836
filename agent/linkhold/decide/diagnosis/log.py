"""Rules about what the kernel's log tells: incidents, and flapping. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.diagnosis.seen import hurt, leads_out, reach
from linkhold.decide.diagnosis.words import age
from linkhold.model.diagnosis import Place, State, Sure, Verdict
from linkhold.model.kernel_log import LineClass, LineSeverity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Facts, LogIncident
    from linkhold.model.incidents import Incident

FLAPS = 3
"""Losses of one link in the time looked at that are no longer one pulled cable."""

PLACES = {
    LineClass.TX_TIMEOUT: Place.DRIVER,
    LineClass.RESET: Place.DRIVER,
    LineClass.FIRMWARE_FAULT: Place.NIC,
    LineClass.HARDWARE_ERROR: Place.NIC,
    LineClass.REMOVED: Place.NIC,
    LineClass.DEGRADED: Place.NIC,
    LineClass.LINK_DOWN: Place.CABLE,
    LineClass.BOND_DOWN: Place.CABLE,
}
"""A timeout or reset is the driver's or its firmware's before it is the card's."""

WORDS = {
    LineClass.TX_TIMEOUT: "its driver hangs (transmit timeout)",
    LineClass.RESET: "its driver was reset",
    LineClass.FIRMWARE_FAULT: "its firmware has failed",
    LineClass.HARDWARE_ERROR: "the card or its bus has a hardware error",
    LineClass.REMOVED: "the card has gone from the bus",
    LineClass.DEGRADED: "the card works with less than it should",
    LineClass.LINK_DOWN: "its link went down",
    LineClass.BOND_DOWN: "no member of the bond carries",
}
SOFT_LOCKUP = "soft lockup"
MODULE = "module has a fault"
"""How the tables of drivers word what a card says of the module in its port."""


def open_incidents(facts: Facts) -> Iterator[Verdict]:
    """An incident that the kernel's log opened, and that nothing has closed since."""
    for found in facts.log.incidents if facts.log is not None else ():
        if found.over:
            continue
        lost = _is_lost(facts, found.incident)
        state = State.DOWN if lost and hurt(facts) is State.DOWN else State.DEGRADED
        if lost and not facts.gateways and reach(facts) is not State.HEALTHY:
            state = State.DOWN
        yield _told(found, state, Sure.LIKELY)


def past_incidents(facts: Facts) -> Iterator[Verdict]:
    """A fault that has ended: what broke once in the time looked at explains a run that died."""
    for found in facts.log.incidents if facts.log is not None else ():
        if found.over and found.incident.severity.rank >= LineSeverity.ERROR.rank:
            yield _told(found, State.DEGRADED, Sure.LIKELY)


def _is_lost(facts: Facts, incident: Incident) -> bool:
    link = facts.network.by_name(incident.interface) if facts.network is not None else None
    return link is None or leads_out(facts, link.name)


def _told(found: LogIncident, state: State, sure: Sure) -> Verdict:
    incident = found.incident
    who = incident.interface or incident.address or incident.driver or "a NIC"
    by = f" ({incident.driver})" if incident.driver and incident.driver != who else ""
    place, what = _meaning(incident)
    over = f"; over since: {found.over}" if found.over else ""
    text = f"{who}{by}: {what}, {age(found.age_s)} ago by the kernel's log: {incident.cause}{over}"
    return Verdict(state, place, sure, text, _next(incident))


def _meaning(incident: Incident) -> tuple[Place, str]:
    """Return where the fault sits and what it is; a cause may say more than its class."""
    if incident.cause.startswith(SOFT_LOCKUP):
        return Place.DRIVER, "a processor is stuck in its driver (soft lockup)"
    if MODULE in incident.cause:
        return Place.CABLE, "its cable or transceiver has a fault"
    what = WORDS.get(incident.cls, incident.cls.value)
    return PLACES.get(incident.cls, Place.NIC), what


def _next(incident: Incident) -> tuple[str, ...]:
    grep = incident.interface or incident.address or incident.driver or "NETDEV"
    more = f"ethtool -i {incident.interface}" if incident.interface else "lspci -vv"
    address = f"lspci -vv -s {incident.address}" if incident.address else "dmesg --level=err,warn"
    return (f"dmesg -T | grep -e {grep}", more, address)


def flapping(facts: Facts) -> Iterator[Verdict]:
    """A link that went down again and again in the time looked at: a loose contact, mostly."""
    if facts.log is None:
        return
    for name, count in facts.log.downs.items():
        if count < FLAPS:
            continue
        text = (
            f"{name} went down {count} times in the last {age(facts.log.since_s)}: a loose "
            "contact, a bad transceiver or a switch port that resets"
        )
        yield Verdict(State.DEGRADED, Place.CABLE, Sure.LIKELY, text, (
            f"ethtool {name}", f"ip -s -s link show {name}", f"dmesg -T | grep {name}"
        ))  # fmt: skip
