"""What the facts say together: which way a packet takes, what answers, and what does not. Pure."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from linkhold.decide.bond_paths import under
from linkhold.decide.paths import MAIN_TABLE
from linkhold.model.diagnosis import State
from linkhold.model.probes import Heard

if TYPE_CHECKING:
    from linkhold.model.diagnosis_facts import Facts, GatewayFacts, TargetFacts
    from linkhold.model.look import Look, LookedAddress, LookedRoute
    from linkhold.model.network import Link

RTN_UNICAST = 1
DEAD = frozenset({Heard.SILENT, Heard.UNREACHABLE})
RT_SCOPE_SITE = 200
"""linux/rtnetlink.h: what is below link scope can be spoken to from other networks."""


def defaults(look: Look) -> tuple[LookedRoute, ...]:
    """Return the default routes of the main table, the preferred one of each family first."""
    found = (
        route
        for route in look.routes
        if route.destination == "default"
        and route.table == MAIN_TABLE
        and route.kind == RTN_UNICAST
    )
    return tuple(sorted(found, key=lambda route: (route.family, route.metric)))


def way_to(look: Look, address: str) -> LookedRoute | None:
    """Return the route of the main table that a packet to ``address`` takes, None without one.

    The longest prefix counts, then the smallest metric; policy rules are not followed.
    """
    wanted = ipaddress.ip_address(address.partition("%")[0])
    family = "inet6" if wanted.version == 6 else "inet"  # noqa: PLR2004
    sizes = _networks_of(wanted)
    found, best = None, (-1, 0)
    for route in look.routes:
        size = sizes.get(route.destination)
        if size is None or (route.family, route.table, route.kind) != (
            family, MAIN_TABLE, RTN_UNICAST,
        ):  # fmt: skip
            continue
        if (size, -route.metric) > best:
            found, best = route, (size, -route.metric)
    return found


def _networks_of(wanted: ipaddress.IPv4Address | ipaddress.IPv6Address) -> dict[str, int]:
    """Return every network that holds an address as routes name it, with its prefix length.

    A route is looked up by its text then: to parse the 100,000 of a router takes a second.
    """
    lengths = range(wanted.max_prefixlen + 1)
    networks = (ipaddress.ip_network((wanted, length), strict=False) for length in lengths)
    return {"default": 0} | {str(network): network.prefixlen for network in networks}


def _covers(destination: str, wanted: ipaddress.IPv4Address | ipaddress.IPv6Address) -> int | None:
    if destination == "default":
        return 0
    network = ipaddress.ip_network(destination, strict=False)
    return network.prefixlen if wanted in network else None


def on_link(look: Look, index: int, address: str) -> bool:
    """Whether a network that is reached directly over this link holds ``address``."""
    plain = address.partition("%")[0]
    wanted = ipaddress.ip_address(plain)
    if wanted.is_link_local:
        return True
    if any(wanted in ipaddress.ip_interface(a.address).network for a in look.addresses_of(index)):
        return True
    return any(
        not route.gateway
        and route.kind == RTN_UNICAST
        and route.destination != "default"
        and _covers(route.destination, wanted) is not None
        for route in look.routes_of(index)
    )


def global_addresses(look: Look, index: int) -> tuple[LookedAddress, ...]:
    """Return the addresses of a link that other hosts can use."""
    return tuple(a for a in look.addresses_of(index) if a.scope <= RT_SCOPE_SITE)


def addressed(look: Look) -> frozenset[int]:
    """Return the links that have such an address."""
    return frozenset(a.index for a in look.addresses if a.scope <= RT_SCOPE_SITE)


def nics(facts: Facts) -> tuple[Link, ...]:
    """Return the links that lead out or are meant to, without those under a bond."""
    every = facts.network.links.values() if facts.network is not None else ()
    by_name = {link.name: link for link in every}
    found = (by_name.get(name) for name in facts.nics)
    return tuple(link for link in found if link is not None and link.port is None)


def carriers(facts: Facts, name: str) -> tuple[str, ...]:
    """Return a link and the links under it: members of a bond, the NIC below a VLAN."""
    link = facts.network.by_name(name) if facts.network else None
    if facts.network is None or link is None:
        return (name,)
    lower = (facts.network.links.get(index) for index in under(facts.network, link.index))
    found = [link, *(one for one in lower if one is not None)]
    ports = [port for one in found for port in facts.network.ports_of(one.index) if one.bond]
    return tuple(dict.fromkeys(one.name for one in [*found, *ports]))


def leads_out(facts: Facts, name: str) -> bool:
    """Whether a default route uses this link, or one on top of it."""
    if facts.look is None:
        return False
    over = {facts.look.name_of(i) for route in defaults(facts.look) for i in route.indexes}
    return any(name in carriers(facts, top) for top in over)


def dead_gateways(facts: Facts) -> tuple[GatewayFacts, ...]:
    """Return the gateways that were asked and did not answer."""
    return tuple(one for one in facts.gateways or () if one.answer.heard in DEAD)


def dead_targets(facts: Facts) -> tuple[TargetFacts, ...]:
    """Return the targets that were asked and did not answer."""
    return tuple(one for one in facts.targets or () if one.answer.heard in DEAD)


def gateway_works(facts: Facts) -> bool:
    """Whether a gateway answered: to a probe, which may need root, or as this host's resolver."""
    if any(one.answer.works for one in facts.gateways or ()):
        return True
    known = {one.address for one in facts.gateways or ()}
    return any(one.works and one.target in known for one in facts.dns or ())


def target_works(facts: Facts) -> bool:
    """Whether a target, or the host that it is on, answered."""
    return any(
        one.answer.works or (one.ping is not None and one.ping.works) for one in facts.targets or ()
    )


def resolver_works(facts: Facts) -> bool:
    """Whether a resolver beyond a gateway answered: that too shows a way out."""
    return any(one.works and _is_beyond(facts, one.target) for one in facts.dns or ())


def _is_beyond(facts: Facts, address: str) -> bool:
    plain = ipaddress.ip_address(address.partition("%")[0])
    if facts.look is None or plain.is_loopback or plain.is_link_local:
        return False
    route = way_to(facts.look, address)
    return route is not None and bool(route.gateway)


def way_out_works(facts: Facts) -> bool:
    """Whether anything was seen to answer that lies on the way out, or beyond it."""
    return gateway_works(facts) or target_works(facts) or resolver_works(facts)


def reach(facts: Facts) -> State:
    """Return whether this host reaches anything beyond itself, as far as is known."""
    gateways, targets = facts.gateways or (), facts.targets or ()
    if target_works(facts) or resolver_works(facts):
        return State.HEALTHY
    if gateway_works(facts) and not _all_dead(facts):
        return State.HEALTHY
    if gateway_works(facts):
        return State.DEGRADED
    asked = [*(one.answer for one in gateways), *(one.answer for one in targets)]
    if asked and all(answer.heard in DEAD for answer in asked):
        return State.DOWN
    return State.UNKNOWN


def _all_dead(facts: Facts) -> bool:
    return bool(facts.targets) and len(dead_targets(facts)) == len(facts.targets or ())


def hurt(facts: Facts) -> State:
    """Return the state of a fault that may explain why nothing is reached: down, else degraded."""
    return State.DOWN if reach(facts) is State.DOWN else State.DEGRADED
