"""Ways out of the node: which there are, which carry, and what that makes of the network.

A way out carries when its link is up with carrier, an address and a route; what probes find
behind a bond is added by :mod:`linkhold.decide.bond_paths`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.config.settings import Role
from linkhold.decide import bond_paths
from linkhold.model import DefaultRoute, HostNetwork, Link, Network, WayOut

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkhold.config.settings import Settings
    from linkhold.model import BondView

MAIN_TABLE = 254
"""RT_TABLE_MAIN of linux/rtnetlink.h: what traffic without a rule of its own uses."""

ROUTE_GONE = "default route "
"""How the obstacle of a way out begins whose route is gone while its link is fine."""
FAMILY_NAMES = {"inet": "IPv4", "inet6": "IPv6"}
DEFAULT_NAMES = frozenset({"default inet", "default inet6"})


def ways_out(
    settings: Settings, host: HostNetwork, known: tuple[WayOut, ...]
) -> tuple[WayOut, ...]:
    """Return every way out: default routes, then the configured ones.

    Default routes of the main table count; those of other tables (policy routing, VRFs) only
    when the main table has none. When the last default route is gone, the ``known`` ones of
    the look before stay, with the reason: the kernel takes routes away with their link.
    """
    main = [route for route in host.routes if route.table == MAIN_TABLE]
    # Routes that differ in metric only are one way out.
    ways = list(dict.fromkeys(_by_route(host, route) for route in sorted(main or host.routes)))
    lost = [way for way in known if way.name in DEFAULT_NAMES]
    if ways:  # IPv6 alone is not what training reaches the world by
        lost = [way for way in lost if way.family == "inet"]
        lost = lost if all(way.family != "inet" for way in ways) else []
    ways += [_lost(host, way) for way in lost]
    for way in settings.ways_out:
        family = "inet6" if ":" in way.target else "inet"
        link = host.by_name(way.link)
        found = WayOut(way.name, family, link.index if link else 0, way.link, way.target)
        ways.append(replace(found, obstacle=obstacle(host, found)))
    return tuple(ways)


def _by_route(host: HostNetwork, route: DefaultRoute) -> WayOut:
    link = host.links.get(route.index)
    name = link.name if link else f"interface {route.index}"
    way = WayOut(f"default {route.family}", route.family, route.index, name, route.gateway)
    return replace(way, obstacle=obstacle(host, way))


def obstacle(host: HostNetwork, way: WayOut) -> str:
    """Return why ``way`` cannot carry, in words; empty when nothing is in the way."""
    link = host.links.get(way.index) or host.by_name(way.link)
    if link is None:
        return f"{way.link} is gone"
    if not link.usable:
        return link_trouble(link)
    below = (host.links.get(at) for at in bond_paths.under(host, link.index))
    idle = [reason for one in below if one and (reason := bond_paths.idle(host, one))]
    if idle:
        return idle[0]
    ports = host.ports_of(link.index) if link.kind == "bridge" else ()
    if ports and not any(port.usable for port in ports):
        # A bridge keeps carrier by any port, a container's too; only watched ones lead out.
        return "; ".join(link_trouble(port) for port in ports)
    has_address = any(
        address.index == link.index and address.family == way.family and address.scope == "global"
        for address in host.addresses
    )
    return "" if has_address else f"{link.name} has no {FAMILY_NAMES[way.family]} address"


def link_trouble(link: Link) -> str:
    """Return in words why a link that is not usable is so."""
    return f"{link.name} lost carrier" if link.admin_up else f"{link.name} is set down"


def judge(
    settings: Settings,
    host: HostNetwork,
    ways: tuple[WayOut, ...],
    bonds: tuple[BondView, ...],
) -> tuple[Network, tuple[str, ...]]:
    """Return what the ways out can carry, and why it is no better."""
    if not ways:
        return Network.UNKNOWN, ("no default route, and no ways_out configured",)
    if not any(way.carries for way in ways):
        return Network.DOWN, _unique([*(way.obstacle for way in ways), *_bond_losses(host, bonds)])
    losses = _unique(_losses(settings, host, ways, bonds))
    return (Network.DEGRADED if losses else Network.OK), losses


def _lost(host: HostNetwork, way: WayOut) -> WayOut:
    via = f" via {way.via}" if way.via else ""
    trouble = obstacle(host, way)
    if not trouble or "address" in trouble:  # an address that left with its route is lesser news
        trouble = f"{ROUTE_GONE.rstrip()}{via} on {way.link} is gone"
    return replace(way, obstacle=trouble)


def _losses(
    settings: Settings, host: HostNetwork, ways: tuple[WayOut, ...], bonds: tuple[BondView, ...]
) -> Iterator[str]:
    yield from (way.obstacle for way in ways if way.obstacle)
    yield from _bond_losses(host, bonds)
    for name, entry in settings.links.items():
        if entry.role is Role.FABRIC:
            link = host.by_name(name)
            if link is None:
                yield f"{name} is gone"
            elif not link.usable:
                yield link_trouble(link)


def _bond_losses(host: HostNetwork, bonds: tuple[BondView, ...]) -> Iterator[str]:
    for bond in bonds:
        yield from member_troubles(host, bond)
        if bond.lost:
            yield f"{bond.name}: {members_left(bond)}"
        yield from bond_paths.losses(bond)


def member_troubles(host: HostNetwork, bond: BondView) -> tuple[str, ...]:
    """Return in words what is wrong with each lost member of ``bond``."""
    lost = (host.by_name(name) for name in bond.lost)
    return tuple(
        f"{link.name} is not used by {bond.name}" if link.usable else link_trouble(link)
        for link in lost
        if link is not None
    )


def members_left(bond: BondView) -> str:
    """Return how many members of a bond still carry: ``1 of 2 members``."""
    return f"{len(bond.members) - len(bond.lost)} of {len(bond.members)} members"


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))
