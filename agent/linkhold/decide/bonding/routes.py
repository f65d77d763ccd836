"""The routes of one interface, as messages that put them on another and back. Pure.

A route that is alone with its table, destination and metric is replaced in place. Where there are
several of a kind, replacing hits the first of them, whosesoever it is (fib_table_insert,
fib6_add_rt2node): the one of another NIC in the same network, say. There each is appended and the
old one removed, and those behind it are put behind it again, since the first of a kind is used.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.bonding.steps import GONE_ALREADY, THERE_ALREADY, SendObject
from linkhold.model.look import IFA_F_NOPREFIXROUTE, RTPROT_KERNEL, RTPROT_RA
from linkhold.rtnl import retarget
from linkhold.rtnl.framing import NLM_F_REPLACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkhold.decide.bonding.objects import Belongings
    from linkhold.model.look import Look, LookedRoute

NLM_F_CREATE, NLM_F_APPEND = 0x400, 0x800
RT_TABLE_MAIN = 254
COPIES = 8
"""How far above the kernel's own metric an advertised default route is taken for our copy."""
PUT, APPEND = NLM_F_CREATE | NLM_F_REPLACE, NLM_F_CREATE | NLM_F_APPEND


def split(mine: Belongings) -> tuple[list[LookedRoute], list[LookedRoute]]:
    """Return the routes that come with an address, and the others in order of making.

    Those of :func:`advertised` are in neither.
    """
    prefixes = {
        (one.family, str(ipaddress.ip_interface(one.address).network))
        for one in mine.addresses
        if not one.flags & IFA_F_NOPREFIXROUTE
    }
    made: list[LookedRoute] = []
    others: list[LookedRoute] = []
    for route in mine.routes:
        if _is_advertised(route):
            continue
        comes = route.protocol == RTPROT_KERNEL and not route.gateway
        comes = comes and (route.family, route.destination) in prefixes
        (made if comes else others).append(route)
    return made, sorted(others, key=lambda route: (bool(route.gateway), route.nexthop_id > 0))


def moved(look: Look, mine: Belongings, target: str, *, far: bool) -> Iterator[SendObject]:
    """Yield what moves the routes of ``mine`` to ``target``, which has the addresses already.

    Those that are ``far`` lead through a gateway. It must be reachable when they, or a nexthop
    object, are made; so the others come first.
    """
    made, others = split(mine)
    for kind in _kinds(look, (*made, *others), far=far):
        if len(kind) == 1:
            (route,) = kind
            yield drop(look, route) if route in made else put(look, route, mine.name, target)
            continue
        for route in _from_the_first_of(mine, kind):
            if not _names_us(mine, route):
                yield drop(look, route)
                yield put(look, route, mine.name, target, APPEND)
            else:
                if route not in made:
                    yield put(look, route, mine.name, target, APPEND)
                yield drop(look, route)


def put_back(look: Look, mine: Belongings, target: str, *, far: bool) -> Iterator[SendObject]:
    """Yield what brings them back from ``target``, whether none, all or some of them moved.

    Nothing is replaced: with some back already that would be the wrong one, and make two of one.
    """
    made, others = split(mine)
    for kind in _kinds(look, (*made, *others), far=far):
        for route in _from_the_first_of(mine, kind):
            if len(kind) > 1:
                yield drop(look, route)
            yield put(look, route, mine.name, mine.name, APPEND)
            if _names_us(mine, route):
                yield drop(look, route, mine.name, target)


def _names_us(mine: Belongings, route: LookedRoute) -> bool:
    """Whether a route has another name on another interface: not one that goes by an object."""
    return mine.index in route.indexes and not route.nexthop_id


def advertised(look: Look, mine: Belongings, target: str) -> Iterator[SendObject]:
    """Yield copies on ``target`` of the default routes that routers advertise (RFC 4861).

    Only the kernel can make one that it takes for its own. It ignores advertisements where
    another stands in the place of that (ndisc_router_discovery), and would let addresses expire.
    So a copy has a metric of its own; it carries until the next advertisement comes, and then
    expires. The original goes with its interface.
    """
    best: dict[str, LookedRoute] = {}
    for route in sorted(filter(_is_advertised, mine.routes), key=lambda route: route.metric):
        best.setdefault(route.gateway, route)  # a copy of former days is none to be copied
    for route in best.values():
        names = _names(look, route, mine.name, target)
        metric = _free_metric(look, mine, route, target)
        template = retarget.route(route, names, metric)
        where = _where(replace(route, metric=metric))
        text = f"route {where} on {target}, until a router advertises it"
        yield SendObject(text, retarget.RTM_NEWROUTE, template, APPEND, THERE_ALREADY)


def _free_metric(look: Look, mine: Belongings, route: LookedRoute, target: str) -> int:
    """Return a metric that no other default route has: of an equal one it became a next hop.

    Nor is it the kernel's own. That of a copy of a copy does not grow: without an advertisement in
    between it would fall behind another default route after some changes.
    """
    own = _own_metric(look, mine.name)
    taken = {own} | {
        other.metric
        for other in look.routes
        if (other.family, other.table, other.destination)
        == (route.family, route.table, route.destination)
        and not (target == mine.name and _is_advertised(other) and other.indexes == (mine.index,))
    }
    by_kernel_or_copy = own <= route.metric <= own + COPIES
    first = own if by_kernel_or_copy else route.metric
    return next(metric for metric in itertools.count(first + 1) if metric not in taken)


def _own_metric(look: Look, name: str) -> int:
    """Return the metric of the default route that the kernel makes of an advertisement.

    IP6_RT_PRIO_USER, or since Linux 5.12 what ra_defrtr_metric says.
    """
    return int(look.sysctls.get(f"net/ipv6/conf/{name}/ra_defrtr_metric", "1024"))


def _is_advertised(route: LookedRoute) -> bool:
    by_router = route.family == "inet6" and route.protocol == RTPROT_RA
    return by_router and route.destination == "default"


def made_again(look: Look, mine: Belongings, target: str) -> Iterator[SendObject]:
    """Yield what makes them on ``target``, where none of them is."""
    _, others = split(mine)
    of_a_kind = Counter(map(_key, look.routes))
    for route in others:
        flags = PUT if of_a_kind[_key(route)] == 1 else APPEND
        yield put(look, route, mine.name, target, flags)


def put(look: Look, route: LookedRoute, source: str, target: str, flags: int = PUT) -> SendObject:
    """Return a route with ``target`` in the place of ``source``; other next hops stay."""
    template = retarget.route(route, _names(look, route, source, target))
    text = f"route {_where(route)} on {_on(look, route, source, target)}"
    return SendObject(text, retarget.RTM_NEWROUTE, template, flags, THERE_ALREADY)


def drop(look: Look, route: LookedRoute, source: str = "", target: str = "") -> SendObject:
    """Return the removal of a route, or of what ``put`` made of it."""
    template = retarget.route(route, _names(look, route, source, target))
    text = f"no route {_where(route)} on {_on(look, route, source, target)}"
    return SendObject(text, retarget.RTM_DELROUTE, template, 0, GONE_ALREADY)


def _kinds(
    look: Look, routes: Iterable[LookedRoute], *, far: bool
) -> Iterator[tuple[LookedRoute, ...]]:
    """Yield for each of ``routes`` all of its kind in the kernel's order, each kind once."""
    by_key: dict[object, list[LookedRoute]] = {}
    for route in look.routes:
        by_key.setdefault(_key(route), []).append(route)
    for key in dict.fromkeys(map(_key, routes)):
        kind = tuple(by_key[key])
        if far == any(route.gateway or route.nexthop_id for route in kind):
            yield kind


def _key(route: LookedRoute) -> object:
    # struct rtmsg: bytes 1 to 3 are both prefix lengths and the type of service.
    return route.family, route.table, route.destination, route.metric, route.raw[1:4]


def _from_the_first_of(mine: Belongings, kind: tuple[LookedRoute, ...]) -> Iterator[LookedRoute]:
    first = next(at for at, route in enumerate(kind) if mine.index in route.indexes)
    yield from kind[first:]


def _names(look: Look, route: LookedRoute, source: str, target: str) -> dict[int, str]:
    names = {index: look.name_of(index) for index in route.indexes}
    return {index: target if name == source else name for index, name in names.items()}


def _on(look: Look, route: LookedRoute, source: str, target: str) -> str:
    return " and ".join(dict.fromkeys(_names(look, route, source, target).values()))


def _where(route: LookedRoute) -> str:
    via = f" via {route.gateway}" if route.gateway else ""
    metric = f" metric {route.metric}" if route.metric else ""
    table = "" if route.table == RT_TABLE_MAIN else f" table {route.table}"
    return f"{route.destination}{via}{metric}{table}"
