"""Rules about links and bonds: cables, switches without power, NICs set down, bonds. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide import bond_faults, bonds
from linkhold.decide.diagnosis.seen import (
    addressed,
    carriers,
    defaults,
    leads_out,
    nics,
    reach,
)
from linkhold.decide.diagnosis.words import together
from linkhold.model.diagnosis import Place, State, Sure, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Facts
    from linkhold.model.network import BondView, Link

TWO = 2


def no_nic(facts: Facts) -> Iterator[Verdict]:
    """A host without any link but loopback has lost its NIC, or never had a driver for it."""
    if facts.network is None or facts.look is None or facts.network.links:
        return
    if any(link.admin_up and link.kind != "" for link in facts.look.links):
        return  # interfaces of containers and tunnels only: nothing is known of what is below
    yield Verdict(
        State.DOWN,
        Place.NIC,
        Sure.LIKELY,
        "this host has no network interface: the NIC is gone from the bus, or has no driver",
        ("lspci -nn | grep -i -e ethernet -e network", "dmesg --level=err,warn", "ip link"),
    )


def no_carrier(facts: Facts) -> Iterator[Verdict]:
    """A link that is up and has no carrier: its cable, or what is at the other end of it.

    One that has no address and leads nowhere is a free port and no fault, unless none is in use.
    """
    links = nics(facts)
    lit = any(link.usable for link in links)
    unlit = [link for link in links if link.admin_up and not link.carrier]
    have = addressed(facts.look) if facts.look is not None else frozenset()
    used = [link for link in unlit if link.index in have or leads_out(facts, link.name)]
    dark = used or ([] if lit else unlit)
    if not dark:
        return
    cables = tuple(dict.fromkeys(name for link in dark for name in _cables(facts, link)))
    if not cables:
        return  # bonds whose members are all set down: told by bond_members
    place, text = _dark(facts, cables) if lit else _all_dark(facts, cables)
    state = _lost(facts) if not lit or any(leads_out(facts, link.name) for link in dark) else None
    yield Verdict(state or State.DEGRADED, place, Sure.LIKELY, text, (
        f"ethtool {cables[0]}", f"ip -s link show {cables[0]}", f"dmesg | grep {cables[0]}"
    ))  # fmt: skip


def _dark(_facts: Facts, cables: tuple[str, ...]) -> tuple[Place, str]:
    have = "have" if len(cables) > 1 else "has"
    why = "the cable is out or broken, or the switch port is off"
    return Place.CABLE, f"{together(cables)} {have} no carrier: {why}"


def _all_dark(facts: Facts, cables: tuple[str, ...]) -> tuple[Place, str]:
    """Several cables do not break together: what they have in common is at the other end."""
    if len(cables) < TWO:
        return _dark(facts, cables)
    names = together(cables)
    if facts.agent is not None and facts.agent.power in {"battery", "low"}:
        return (
            Place.POWER,
            f"{names} lost their carrier while the site is on battery: the switches have no power",
        )
    return Place.SWITCH, f"{names} all have no carrier: the switch has no power or is restarting"


def _cables(facts: Facts, link: Link) -> tuple[str, ...]:
    """Return the links with cables of their own below ``link``, those without that are set down."""
    found = carriers(facts, link.name)
    below = [facts.network.by_name(name) for name in found[1:]] if facts.network else []
    if not below:
        return found
    return tuple(one.name for one in below if one is not None and one.admin_up)


def _lost(facts: Facts) -> State:
    """A way out without carrier is down, whatever else was asked, unless something answered."""
    return State.DEGRADED if reach(facts) in {State.HEALTHY, State.DEGRADED} else State.DOWN


def set_down(facts: Facts) -> Iterator[Verdict]:
    """A link with an address that somebody set down."""
    links = nics(facts)
    have = addressed(facts.look) if facts.look is not None else frozenset()
    none_up = not any(link.admin_up for link in links)
    for link in links:
        if link.admin_up or not (none_up or link.index in have):
            continue
        state = (
            _lost(facts) if facts.look is not None and not defaults(facts.look) else State.DEGRADED
        )
        text = f"{link.name} is set down: an administrator or a network manager did that"
        next_ = (
            f"ip link set {link.name} up",
            "journalctl -b -u 'systemd-networkd' -u NetworkManager",
        )
        yield Verdict(state, Place.HOST, Sure.CERTAIN, text, (*next_, "ip route"))


def bond_unwatched(facts: Facts) -> Iterator[Verdict]:
    """A bond that is made so that it cannot protect (decide/bond_faults)."""
    host = facts.network
    for link in host.links.values() if host is not None else ():
        for fault in bond_faults.faults(host, link.index) if host is not None else ():
            yield Verdict(State.DEGRADED, Place.HOST, Sure.CERTAIN, fault.text, (
                f"linkhold bond status {link.name}",
                f"linkhold bond plan {link.name}",
                f"cat /proc/net/bonding/{link.name}",
            ))  # fmt: skip


def bond_members(facts: Facts) -> Iterator[Verdict]:
    """Members that cannot carry; a bond of which none can is down."""
    for view in bonds.views(facts.network) if facts.network is not None else ():
        if not view.members:
            text = f"{view.name} has no member: the bond exists and leads nowhere"
            yield Verdict(_lost(facts), Place.HOST, Sure.CERTAIN, text, (
                f"linkhold bond status {view.name}", f"linkhold bond plan {view.name}", "ip link",
            ))  # fmt: skip
        elif view.lost and view.carrier:
            yield _one_leg(facts, view)
        elif not view.monitored and view.active in view.lost:
            yield _blind(facts, view)
        elif len(view.members) == 1 and view.carrier:
            yield _single(view)
        elif off := _set_down(facts, view):
            yield _members_down(facts, view, off)


def _set_down(facts: Facts, view: BondView) -> tuple[str, ...]:
    """Return the members that somebody has set down."""
    every = facts.network.ports_of(view.index) if facts.network is not None else ()
    return tuple(port.name for port in every if not port.admin_up)


def _members_down(facts: Facts, view: BondView, off: tuple[str, ...]) -> Verdict:
    """A bond waits for carrier of its members, and never sets one up itself."""
    are = "are" if len(off) > 1 else "is"
    text = (
        f"{together(off)}, of the {len(view.members)} members of {view.name}, {are} set down: it "
        "has no carrier and does not come back by itself"
    )
    return Verdict(_lost(facts), Place.HOST, Sure.CERTAIN, text, (
        f"ip link set {off[0]} up", f"linkhold bond status {view.name}",
        "journalctl -b -u 'systemd-networkd' -u NetworkManager",
    ))  # fmt: skip


def _single(view: BondView) -> Verdict:
    """A manager that takes a member out leaves every link up: nothing else tells it."""
    name = view.members[0].name
    text = (
        f"{view.name} has one member only, {name}: another one was taken out or never joined, and "
        "the next fault takes the node off the network"
    )
    return Verdict(State.DEGRADED, Place.HOST, Sure.LIKELY, text, (
        f"linkhold bond status {view.name}", f"linkhold bond plan {view.name}",
        f"dmesg -T | grep {view.name}",
    ))  # fmt: skip


def _one_leg(facts: Facts, view: BondView) -> Verdict:
    lost = [facts.network.by_name(name) for name in view.lost] if facts.network is not None else []
    off = [link.name for link in lost if link is not None and not link.admin_up]
    idle = [link.name for link in lost if link is not None and link.usable]
    left = f"{len(view.members) - len(view.lost)} of {len(view.members)} members carry"
    name = view.lost[0]
    if off:
        place, sure, why = Place.HOST, Sure.CERTAIN, f"{off[0]} is set down"
    elif idle:
        place, sure, why = Place.SWITCH, Sure.LIKELY, (
            f"{idle[0]} has a link, but the bond's monitor gets no answer through it"
        )  # fmt: skip
    else:
        place, sure, why = (
            Place.CABLE,
            Sure.LIKELY,
            f"{name} lost its carrier (cable or switch port)",
        )
    text = (
        f"{view.name} has lost a leg: {why}; {left}, the next fault takes the node off the network"
    )
    return Verdict(State.DEGRADED, place, sure, text, (
        f"ethtool {name}", f"linkhold bond status {view.name}", f"dmesg | grep {name}"
    ))  # fmt: skip


def _blind(facts: Facts, view: BondView) -> Verdict:
    text = (
        f"{view.name} stays on {view.active}, which has no carrier: without link monitoring "
        "(miimon 0) it does not fail over"
    )
    return Verdict(_lost(facts), Place.CABLE, Sure.CERTAIN, text, (
        f"linkhold bond status {view.name}", f"ip link set {view.name} type bond miimon 100",
        f"ethtool {view.active}",
    ))  # fmt: skip
