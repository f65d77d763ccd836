"""Rules about this host's own configuration and load. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from linkhold.decide.diagnosis.seen import (
    DEAD,
    addressed,
    dead_gateways,
    defaults,
    global_addresses,
    hurt,
    nics,
    on_link,
    reach,
    resolver_works,
    target_works,
    way_to,
)
from linkhold.decide.diagnosis.words import asking, listed
from linkhold.model.diagnosis import Place, State, Sure, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.diagnosis_facts import Facts, Fill, GatewayFacts, TargetFacts
    from linkhold.model.look import Look, LookedLink

FULL = 0.95
NUD_INCOMPLETE, NUD_FAILED = 0x01, 0x20
"""linux/neighbour.h: the kernel asks, or has asked, without an answer."""
BLOCKED = "a firewall of this host"
"""How :mod:`linkhold.sensors.reach.sockets` words EPERM: an output rule dropped the packet."""


def battery(facts: Facts) -> Iterator[Verdict]:
    """A site on battery: the network may end with it."""
    if facts.agent is not None and facts.agent.power in {"battery", "low"}:
        low = ", and it is low" if facts.agent.power == "low" else ""
        yield _on_battery(f"the agent says that this site is on battery{low}")
        return
    mains = [one for one in facts.supplies or () if one.kind in {"Mains", "USB"} and not one.scope]
    draining = any(
        one.status == "Discharging" for one in facts.supplies or () if one.scope != "Device"
    )
    if mains and draining and not any(one.online for one in mains):
        yield _on_battery("this host is on battery: its mains supply is offline")


def _on_battery(text: str) -> Verdict:
    return Verdict(State.DEGRADED, Place.POWER, Sure.CERTAIN, text, (
        "linkhold status", "upsc -l", "cat /sys/class/power_supply/*/uevent"
    ))  # fmt: skip


def duplicate_address(facts: Facts) -> Iterator[Verdict]:
    """Another host answers for an address of ours: traffic goes now here, now there."""
    for one in facts.duplicates or ():
        who = f"the host with MAC {one.mac}" if one.mac else "another host"
        text = f"{one.address} on {one.link} is used twice: {who} has it too, so answers go astray"
        yield Verdict(hurt(facts), Place.HOST, Sure.CERTAIN, text, (
            f"arping -D -I {one.link} {one.address}", f"ip addr show {one.link}",
            f"ip neigh flush dev {one.link}",
        ))  # fmt: skip


def no_address(facts: Facts) -> Iterator[Verdict]:
    """The only link that carries has no address: no lease, or nobody configured it."""
    if facts.look is None:
        return
    links, have = nics(facts), addressed(facts.look)
    usable = [link for link in links if link.usable]
    if not usable or any(link.index in have for link in links):
        return
    names = listed(tuple(link.name for link in usable))
    text = f"{names} carries but has no address: no DHCP answer, or it is not configured"
    yield Verdict(State.DOWN, Place.HOST, Sure.LIKELY, text, (
        f"ip addr show {usable[0].name}", "networkctl status", "journalctl -b | grep -i dhcp"
    ))  # fmt: skip


def no_default_route(facts: Facts) -> Iterator[Verdict]:
    """Link and address are fine, and no default route: only the own subnet is reached.

    A fabric without one is told by targets: where one answers there is nothing amiss.
    """
    look = facts.look
    if look is None or defaults(look) or target_works(facts) or resolver_works(facts):
        return
    have = addressed(look)
    able = [link for link in nics(facts) if link.usable and link.index in have]
    if not able:
        return
    text = (
        f"the default route is gone: {able[0].name} has a link and an address, "
        "but nothing beyond its own subnet is reached"
    )
    others = tuple(route for route in look.routes if route.destination == "default")
    if others:
        text += f" (there is one in table {others[0].table} only)"
    yield Verdict(State.DOWN, Place.HOST, Sure.CERTAIN, text, (
        "ip route; ip -6 route", f"ip route add default via GATEWAY dev {able[0].name}",
        "networkctl status; nmcli device",
    ))  # fmt: skip


def wrong_netmask(facts: Facts) -> Iterator[Verdict]:
    """A gateway outside of every subnet of its link, or a mask so wide that targets look near.

    Clouds have such gateways (a /32 and an on-link route), and there something beyond answers. A
    gateway answers ARP also to an address that it has no way back to.
    """
    for gateway in facts.gateways or () if facts.look is not None else ():
        link = facts.look.link(gateway.link) if facts.look is not None else None
        if facts.look is None or link is None or on_link(facts.look, link.index, gateway.address):
            continue
        if gateway.answer.heard in DEAD or _nothing_beyond(facts):
            yield _astray(facts.look, gateway, link, down=not target_works(facts))
    for target in facts.targets or () if facts.look is not None else ():
        yield from _too_wide(facts.look, target) if facts.look is not None else ()


def _nothing_beyond(facts: Facts) -> bool:
    dead = any(one.answer.heard in DEAD for one in facts.targets or ())
    dead = dead or any(one.heard in DEAD for one in facts.dns or ())
    lives = target_works(facts) or any(one.works for one in facts.dns or ())
    return dead and not lives


def _astray(look: Look, gateway: GatewayFacts, link: LookedLink, *, down: bool) -> Verdict:
    own = listed(tuple(a.address for a in global_addresses(look, link.index))) or "no address"
    trouble = (
        "and does not answer" if gateway.answer.heard in DEAD else "and nothing comes back by it"
    )
    text = (
        f"the gateway {gateway.address} lies in no subnet of {gateway.link} ({own}) {trouble}: "
        "wrong netmask, address or gateway"
    )
    state = State.DOWN if down else State.DEGRADED
    return Verdict(state, Place.HOST, Sure.LIKELY, text, (
        f"ip addr show {gateway.link}", "ip route", asking(gateway.link, gateway.address)
    ))  # fmt: skip


def _too_wide(look: Look, target: TargetFacts) -> Iterator[Verdict]:
    """A target that the mask puts on our own link, where nobody answers for it."""
    if target.answer.heard not in DEAD or not target.address:
        return
    route = way_to(look, target.address)
    if route is None or route.gateway or not route.indexes or route.destination == "default":
        return
    state = next((n.state for n in look.neighbours if n.address == target.address), 0)
    if not state & (NUD_INCOMPLETE | NUD_FAILED):
        return
    name = look.name_of(route.indexes[0])
    size = ipaddress.ip_network(route.destination).prefixlen
    text = (
        f"{target.name} ({target.address}) is taken for a neighbour on {name} (netmask /{size}) "
        "and answers no ARP there: the netmask is too wide, or that host is off"
    )
    yield Verdict(State.DEGRADED, Place.HOST, Sure.GUESS, text, (
        f"ip route get {target.address}", f"ip neigh show {target.address}", f"ip addr show {name}"
    ))  # fmt: skip


def blocked_here(facts: Facts) -> Iterator[Verdict]:
    """A probe that this host's own firewall would not let out (EPERM of send or connect)."""
    answers = [
        *(one.answer for one in facts.gateways or ()),
        *(one.answer for one in facts.targets or ()),
        *(facts.dns or ()),
    ]
    blocked = [one for one in answers if BLOCKED in one.detail]
    if not blocked:
        return
    where = ""
    if facts.firewall is not None and facts.firewall.closed:
        where = f" (see {listed(facts.firewall.closed)})"
    what = listed(tuple(dict.fromkeys(f"{one.how} to {one.target}" for one in blocked)))
    text = f"this host's own firewall drops what it sends: {what} was refused by the kernel{where}"
    state = State.DEGRADED if reach(facts) is State.HEALTHY else State.DOWN
    yield Verdict(state, Place.FIREWALL, Sure.CERTAIN, text, (
        "nft list ruleset", "iptables -L OUTPUT -v -n", "journalctl -b -u nftables -u firewalld"
    ))  # fmt: skip


def dropped_out(facts: Facts) -> Iterator[Verdict]:
    """Rules on the way out that dropped packets while a target did not answer.

    A connect is not told that its packets are dropped (tcp_connect ignores it), an echo is.
    """
    yield from _dropped(facts, Sure.LIKELY, {"output"})


def dropped_in(facts: Facts) -> Iterator[Verdict]:
    """The same on the way in, where other people's noise is dropped all day."""
    yield from _dropped(facts, Sure.GUESS, {"input", ""})


def _dropped(facts: Facts, sure: Sure, hooks: set[str]) -> Iterator[Verdict]:
    drops = facts.firewall.drops if facts.firewall is not None else ()
    grown = [drop for drop in drops if drop.grown and drop.hook in hooks]
    silent = [one.name for one in facts.targets or () if one.answer.heard in DEAD]
    silent += [one.target for one in facts.dns or () if one.heard in DEAD]
    silent += [one.address for one in dead_gateways(facts)]
    if not grown or not silent:
        return
    worst = max(grown, key=lambda drop: drop.grown)
    what = "what it sends" if "output" in hooks else "what it receives"
    text = (
        f"this host's own firewall drops {what}: {worst.grown} packets during the run "
        f"({worst.where}), while {listed(tuple(silent))} did not answer"
    )
    yield Verdict(State.DEGRADED, Place.FIREWALL, sure, text, (
        "nft list ruleset", "nft monitor trace", "conntrack -S"
    ))  # fmt: skip


def full_tables(facts: Facts) -> Iterator[Verdict]:
    """A table of the kernel that takes no more: new neighbours, or new connections, fail."""
    for fill in facts.fills or ():
        if fill.most > 0 and fill.entries >= FULL * fill.most:
            yield _conntrack(facts, fill) if fill.name == "conntrack" else _neighbours(facts, fill)


def _conntrack(facts: Facts, fill: Fill) -> Verdict:
    text = (
        f"the connection table of this host's firewall is full ({fill.entries} of {fill.most}): "
        "packets of new connections are dropped"
    )
    return Verdict(hurt(facts), Place.HOST, Sure.CERTAIN, text, (
        "conntrack -S; dmesg | grep conntrack",
        f"sysctl -w net.netfilter.nf_conntrack_max={fill.most * 4}",
        "conntrack -L | awk '{print $4}' | sort | uniq -c | sort -n | tail",
    ))  # fmt: skip


def _neighbours(facts: Facts, fill: Fill) -> Verdict:
    family = "ipv6" if fill.name.endswith("IPv6") else "ipv4"
    text = (
        f"the neighbour table is full ({fill.entries} of {fill.most}, {fill.name}): hosts that are "
        "not in it cannot be reached"
    )
    return Verdict(hurt(facts), Place.HOST, Sure.CERTAIN, text, (
        "ip -s neigh | wc -l; dmesg | grep 'table overflow'",
        f"sysctl -w net.{family}.neigh.default.gc_thresh3={fill.most * 8}",
        f"sysctl -w net.{family}.neigh.default.gc_thresh2={fill.most * 4}",
    ))  # fmt: skip


def rivals(facts: Facts) -> Iterator[Verdict]:
    """Two managers that both configure one NIC undo each other's work."""
    for owner in facts.owners or ():
        if not owner.contenders:
            continue
        others = listed(tuple(kind.value for kind in owner.contenders))
        text = f"{owner.kind.value} and {others} both configure {owner.name}: each undoes the other"
        yield Verdict(State.DEGRADED, Place.HOST, Sure.LIKELY, text, (
            "networkctl list; nmcli device", f"linkhold bond plan {owner.name}",
            "systemctl list-units '*network*'",
        ))  # fmt: skip


def clock(facts: Facts) -> Iterator[Verdict]:
    """A clock that is wrong breaks TLS, Kerberos and signed uploads, not packets."""
    found = facts.clock
    next_ = ("timedatectl", "chronyc tracking", "systemctl status systemd-timesyncd chrony")
    if found is not None and found.floor_s and found.wall_s < found.floor_s:
        text = (
            f"the clock is wrong: it is at least {round((found.floor_s - found.wall_s) / 60)} min "
            "behind, so certificates and signed requests fail"
        )
        yield Verdict(State.DEGRADED, Place.HOST, Sure.CERTAIN, text, next_)


def agent_mute(facts: Facts) -> Iterator[Verdict]:
    """An agent that is there and does not answer watches nothing; trainers run on without it."""
    if facts.agent is not None and facts.agent.mute:
        text = (
            f"the agent of this node hangs ({facts.agent.mute}): nobody watches, and training is "
            "neither held nor told to save"
        )
        yield Verdict(State.DEGRADED, Place.HOST, Sure.LIKELY, text, (
            "systemctl status linkhold", "journalctl -u linkhold -n 50",
            "systemctl restart linkhold",
        ))  # fmt: skip


def heartbeats(facts: Facts) -> Iterator[Verdict]:
    """An agent that has brokers of a fleet and reaches none: its heartbeats are lost."""
    if facts.agent is not None and facts.agent.running and facts.agent.fleet.startswith("down"):
        text = (
            "the agent reaches no broker of the fleet: its heartbeats are lost, and the people on "
            "call see this node as offline"
        )
        yield Verdict(State.DEGRADED, Place.BEYOND, Sure.LIKELY, text, (
            "linkhold status", "linkhold check", "linkhold events --since 1h"
        ))  # fmt: skip
