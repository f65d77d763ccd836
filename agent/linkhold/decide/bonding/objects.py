"""Everything that lives on one interface, as messages that put it on another. Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.decide.bonding import routes
from linkhold.decide.bonding.steps import GONE_ALREADY, THERE_ALREADY, SendObject
from linkhold.model.look import (
    RTPROT_KERNEL,
    RTPROT_RA,
    Look,
    LookedAddress,
    LookedRoute,
)
from linkhold.rtnl import retarget
from linkhold.rtnl.framing import NLM_F_REPLACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.bonding.steps import Change

NLM_F_EXCL, NLM_F_CREATE = 0x200, 0x400
RT_TABLE_LOCAL = 255
RTN_UNICAST = 1
NUD_IN_USE = 0x02 | 0x04 | 0x08 | 0x10 | 0x80
"""Reachable, stale, delay, probe, permanent (linux/neighbour.h)."""
MOST_NEIGHBOURS = 512


@dataclass(frozen=True, slots=True)
class Belongings:
    """What an interface carries and a move has to take along."""

    name: str
    index: int
    addresses: tuple[LookedAddress, ...]
    routes: tuple[LookedRoute, ...]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Its addresses without prefix lengths."""
        return tuple(address.address.partition("/")[0] for address in self.addresses)

    @property
    def routable(self) -> tuple[LookedAddress, ...]:
        """Its addresses but those that the kernel makes by itself."""
        return tuple(address for address in self.addresses if not address.link_local)

    @property
    def empty(self) -> bool:
        """Whether nobody would miss it."""
        return not self.routable and not any(r.protocol != RTPROT_KERNEL for r in self.routes)


def belongings(look: Look, name: str) -> Belongings:
    """Return what the interface ``name`` carries; an absent one carries nothing."""
    link = look.link(name)
    if link is None:
        return Belongings(name, 0, (), ())
    routes = tuple(route for route in look.routes_of(link.index) if not _kernels_own(route))
    return Belongings(name, link.index, look.addresses_of(link.index), routes)


def _kernels_own(route: LookedRoute) -> bool:
    """Whether the kernel makes the route by itself with an address or a link.

    Those are the local table (local, broadcast, multicast, anycast) and fe80::/64.
    """
    if route.protocol != RTPROT_KERNEL:
        return False
    link_local = route.family == "inet6" and route.destination.startswith("fe80:")
    return route.table == RT_TABLE_LOCAL or route.kind != RTN_UNICAST or link_local


def fingerprint(look: Look, name: str) -> str:
    """Return a digest of addresses and routes of an interface: whether somebody changed them.

    Lifetimes and states count down or settle by themselves, so they are left out; the kernel
    makes link-local addresses, and routers advertise routes, when they like.
    """
    mine = belongings(look, name)
    lines = [f"{a.family} {a.address}" for a in mine.routable]
    lines += [
        f"{r.family} {r.table} {r.destination} {r.gateway} {r.metric}"
        for r in mine.routes
        if r.protocol != RTPROT_RA
    ]
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]


def moved(look: Look, source: str, target: str) -> tuple[Change, ...]:
    """Return the burst that moves everything from ``source`` to ``target``.

    First the addresses, so that routes may name them as their source; then the routes that the
    kernel made with the old addresses give way to those that it made with the new ones; then the
    others are replaced, those without a gateway first, since a gateway must be reachable when a
    route through it is made. ``source`` keeps its addresses until it is taken out.
    """
    mine = belongings(look, source)
    return (
        *put_addresses(mine, target),
        *routes.moved(look, mine, target, far=False),
        *_nexthops(look, mine.index, target),
        *_neighbours(look, mine.index, target),
        *routes.moved(look, mine, target, far=True),
        *routes.advertised(look, mine, target),
        *_rules_put(look, source, target),
        *_rules_dropped(look, source, source),
    )


def put_back(look: Look, source: str, target: str) -> tuple[Change, ...]:
    """Return the burst that brings back to ``source`` what ``moved`` took to ``target``.

    It may be sent when nothing, all or part was moved, and again.
    """
    mine = belongings(look, source)
    return (
        *put_addresses(mine, source),
        *routes.put_back(look, mine, target, far=False),
        *_nexthops(look, mine.index, source),
        *_neighbours(look, mine.index, source),
        *routes.put_back(look, mine, target, far=True),
        *_rules_put(look, source, source),
        *_rules_dropped(look, source, target),
    )


def everything(look: Look, source: str, target: str) -> tuple[Change, ...]:
    """Return the burst that gives ``target`` all that ``source`` has, on a host where it has none.

    Routes that come with an address come by themselves.
    """
    mine = belongings(look, source)
    return (
        *put_addresses(mine, target),
        *_nexthops(look, mine.index, target),
        *routes.made_again(look, mine, target),
        *_rules_put(look, source, target),
    )


def taken_off(look: Look, source: str, target: str) -> tuple[Change, ...]:
    """Return the burst that takes addresses and rules of ``source`` off ``target`` again.

    Its routes go with the addresses, or when it is set down.
    """
    mine = belongings(look, source)
    if not mine.index:
        return ()
    return (*drop_addresses(mine, target), *_rules_dropped(look, source, target))


def put_addresses(mine: Belongings, target: str) -> Iterator[SendObject]:
    """Yield the addresses of ``mine`` as addresses of ``target``, so that their order stays.

    The kernel appends an IPv4 address, and puts an IPv6 address before those of its scope
    (ipv6_link_dev_addr); of several that fit, it sends from the first.
    """
    for one in _in_order_of_making(mine):
        template = retarget.address(one, mine.name, target)
        text = f"address {one.address} on {target}"
        yield SendObject(text, retarget.RTM_NEWADDR, template, NLM_F_CREATE, THERE_ALREADY)


def drop_addresses(mine: Belongings, target: str = "") -> Iterator[SendObject]:
    """Yield the removal of every address of ``mine`` from it, or from ``target``.

    The last that was made goes first, so that what is left at any point is in order still.
    """
    name = target or mine.name
    for one in reversed(_in_order_of_making(mine)):
        template = retarget.address(one, mine.name, name)
        text = f"no address {one.address} on {name}"
        yield SendObject(text, retarget.RTM_DELADDR, template, 0, GONE_ALREADY)


def _in_order_of_making(mine: Belongings) -> list[LookedAddress]:
    newest_first = [one for one in mine.addresses if one.family == "inet6"]
    return [one for one in mine.addresses if one.family == "inet"] + newest_first[::-1]


def _nexthops(look: Look, index: int, target: str) -> Iterator[SendObject]:
    """Yield the nexthop objects of an interface, then the groups that they belong to.

    A group has lost its member, and may be gone, when the interface was down meanwhile.
    """
    mine = [one for one in look.nexthops if one.index == index and index]
    ids = {one.id for one in mine}
    groups = [one for one in look.nexthops if ids & set(one.group)]
    for one in (*mine, *groups):
        what = f"nexthop {one.id} on {target}" if one.index else f"nexthop group {one.id}"
        template = retarget.nexthop(one, target)
        flags = NLM_F_CREATE | NLM_F_REPLACE
        yield SendObject(what, retarget.RTM_NEWNEXTHOP, template, flags)


def _neighbours(look: Look, index: int, target: str) -> Iterator[SendObject]:
    known = [
        one
        for one in look.neighbours
        if one.index == index and one.state & NUD_IN_USE and one.mac and any(one.mac.split(":"))
    ]
    for one in known[:MOST_NEIGHBOURS]:
        text = f"neighbour {one.address} on {target}"
        template = retarget.neighbour(one, target)
        flags = NLM_F_CREATE | NLM_F_REPLACE
        yield SendObject(text, retarget.RTM_NEWNEIGH, template, flags, (22,))


def _rules_put(look: Look, source: str, target: str) -> Iterator[SendObject]:
    for one in look.rules:
        if source in {one.iif, one.oif}:
            template = retarget.rule(one, lambda name: target if name == source else name)
            text = f"rule {one.priority} for {target}"
            flags = NLM_F_CREATE | NLM_F_EXCL  # without EXCL the kernel keeps two of a kind
            yield SendObject(text, retarget.RTM_NEWRULE, template, flags, THERE_ALREADY)


def _rules_dropped(look: Look, source: str, named: str) -> Iterator[SendObject]:
    """Yield the removal of the rules of ``source`` in the form in which they name ``named``."""
    for one in look.rules:
        if source in {one.iif, one.oif}:
            template = retarget.rule(one, lambda name: named if name == source else name)
            text = f"no rule {one.priority} for {named}"
            yield SendObject(text, retarget.RTM_DELRULE, template, 0, GONE_ALREADY)
