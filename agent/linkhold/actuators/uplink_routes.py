"""Default traffic over another uplink, without touching a route of the host. Standard library.

What is added, and nothing else is changed::

    32765: from all lookup main suppress_prefixlength 0 proto 156
    32765: from all lookup 156 proto 156
    table 156: default via 192.168.8.1 dev usb0 proto 156

The route is the kernel's own bytes of the uplink's default route in the main table (gateway,
source address, MTU ...), in a table of ours. The first rule lets every more specific route of
the main table go first, so that only what would have taken a default route takes ours.

Why so, and not by metrics: a copy of the route with a smaller metric cannot beat a default route
with metric 0, and those are common (static addresses in netplan, ifupdown or dhclient without
metrics); beside it, with equal metric, the kernel chooses by the state of neighbours
(fib_select_default), which may be the dead one. Why not 0.0.0.0/1 and 128.0.0.0/1: these are no
default routes to ``suppress_prefixlength 0``, so they would draw the traffic of a full WireGuard
tunnel past it. Rules of others with smaller numbers still come first, a tunnel's among them,
and its own packets follow the uplink. Our rules have the number of the last place before the
main table; of equal numbers the older rule comes first.

Everything carries the protocol number 156, so that whoever comes later, after a crash too, knows
it: :func:`restore` removes it. If the interface goes down the kernel removes the route, and
empty tables change nothing: lookups go on to the main table.
"""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.model import HostError
from linkhold.rtnl.attributes import attributes, each, pack, u8, u32
from linkhold.rtnl.exchange import NLM_F_CREATE, NLM_F_EXCL, Exchange, Request
from linkhold.rtnl.framing import NLM_F_REPLACE, RTM_DELROUTE, RTM_GETROUTE, RTM_NEWROUTE, Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROTOCOL = 156
"""Marks our routes and rules; taken by none in rtnetlink.h or iproute2's rt_protos."""
TABLE = 156
PRIORITY = 32765
"""The last place before the main table (32766)."""
METRIC = 1

RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RT_TABLE_MAIN, RTN_UNICAST, FR_ACT_TO_TBL, RT_SCOPE_NOWHERE = 254, 1, 1, 255
RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_MULTIPATH, RTA_CACHEINFO = 4, 5, 6, 9, 12
RTA_TABLE, RTA_VIA, RTA_EXPIRES, RTA_NH_ID = 15, 18, 23, 30
FRA_PRIORITY, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_PROTOCOL = 6, 14, 15, 21
RTM_F_CLONED = 0x200
RTNH_SETTABLE = 0x2 | 0x4
FAMILIES = (socket.AF_INET, socket.AF_INET6)

_RTMSG = struct.Struct("=BBBBBBBBI")
U32_BYTES = 4
_OURS = frozenset({RTA_TABLE, RTA_PRIORITY, RTA_CACHEINFO, RTA_EXPIRES, RTA_NH_ID})
"""What the copy has of its own, or must not have: it lives as long as we want it."""


@dataclass(frozen=True, slots=True)
class _Route:
    """A default route: where it leads, and its bytes."""

    index: int
    gateway: bytes
    metric: int
    raw: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Side:
    """One family: the host's default routes, ours, and our rules (table, bytes)."""

    host: tuple[_Route, ...] = ()
    ours: tuple[_Route, ...] = ()
    rules: tuple[tuple[int, bytes], ...] = ()

    def of(self, index: int) -> _Route | None:
        """Return the host's best default route over an interface."""
        found = [route for route in self.host if route.index == index]
        return min(found, key=lambda route: route.metric, default=None)

    @property
    def ruled(self) -> bool:
        """Whether both of our rules are there, in their order."""
        return [table for table, _ in self.rules] == [RT_TABLE_MAIN, TABLE]

    def leads_to(self, index: int) -> bool:
        """Whether our routes are as they should be for ``index``."""
        wanted = self.of(index)
        if wanted is None:
            return not self.ours
        is_it = [(route.index, route.gateway) for route in self.ours]
        return self.ruled and is_it == [(index, wanted.gateway)]


@dataclass(frozen=True, slots=True)
class Front:
    """What our routes do now: ``index`` is the interface in front, 0 for none.

    ``remains``: something of ours is there, if only a part that has no effect.
    """

    index: int = 0
    remains: bool = False


def look() -> Front:
    """Return what our routes do now. Raises :class:`HostError` where rtnetlink does not answer."""
    with Exchange() as kernel:
        return _front([_side(kernel, family) for family in FAMILIES])


def place(index: int) -> None:
    """Put the default routes of an interface in front of all others, and see that they are.

    A family in which it has none keeps the host's own routes. Raises :class:`HostError` with the
    reason and undoes what was done by half.
    """
    try:
        _change(lambda sides: _placing(sides, index))
        _check(index)
    except HostError:
        with contextlib.suppress(HostError):  # the first reason counts
            restore()
        raise


def _check(index: int) -> None:
    if look().index != index:
        raise HostError(f"the routes over {_name(index)} are not in place after they were made")


def restore() -> bool:
    """Remove all that is ours; return whether there was anything. The host's own routes stand.

    Raises :class:`HostError` when something of ours is left.
    """
    found = _change(_removing)
    if found and look().remains:
        raise HostError("routes or rules with protocol 156 are still there after their removal")
    return found


def _change(planned: Callable[[list[_Side]], list[Request]]) -> bool:
    """Do what ``planned`` asks for in one batch; return whether there was anything to do."""
    with Exchange() as kernel:
        requests = planned([_side(kernel, family) for family in FAMILIES])
        verdicts = kernel.change(requests) if requests else []
    for request, verdict in zip(requests, verdicts, strict=True):
        gone = request.kind in {RTM_DELROUTE, RTM_DELRULE} and verdict.code in {
            errno.ESRCH,
            errno.ENOENT,
        }
        if verdict.code and not gone:
            raise HostError(f"routes of an uplink: {verdict.reason}", code=verdict.code)
    return bool(requests)


def _placing(sides: list[_Side], index: int) -> list[Request]:
    if all(side.of(index) is None for side in sides):
        name = _name(index)
        raise HostError(f"{name} has no default route in the main table: give it one", code=0)
    requests: list[Request] = []
    for family, side in zip(FAMILIES, sides, strict=True):
        wanted = side.of(index)
        if wanted is None:
            requests += _removed(side)
            continue
        requests.append(Request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, copied(wanted.raw)))
        if not side.ruled:
            # The order counts: ours must not be asked before the specific routes of the main table.
            requests += [Request(RTM_DELRULE, 0, raw) for _, raw in side.rules]
            create = NLM_F_CREATE | NLM_F_EXCL
            requests += [Request(RTM_NEWRULE, create, body) for body in rules(family)]
    return requests


def _removing(sides: list[_Side]) -> list[Request]:
    return [request for side in sides for request in _removed(side)]


def _removed(side: _Side) -> Iterator[Request]:
    """Yield what removes our part of a family: rules first, then nobody asks for the routes."""
    for _, raw in reversed(side.rules):
        yield Request(RTM_DELRULE, 0, raw)
    for route in side.ours:
        yield Request(RTM_DELROUTE, 0, _deletion(route))


def _deletion(route: _Route) -> bytes:
    """Return the request that removes one of our routes, wherever it leads."""
    family, tos = route.raw[0], route.raw[3]
    head = _RTMSG.pack(family, 0, 0, tos, TABLE, PROTOCOL, RT_SCOPE_NOWHERE, RTN_UNICAST, 0)
    return head + u32(RTA_TABLE, TABLE) + u32(RTA_PRIORITY, route.metric)


def rules(family: int) -> tuple[bytes, bytes]:
    """Return our two rules of a family as requests, in the order in which they must be made."""
    ours = u32(FRA_PRIORITY, PRIORITY) + u8(FRA_PROTOCOL, PROTOCOL)
    main = _RTMSG.pack(family, 0, 0, 0, RT_TABLE_MAIN, 0, 0, FR_ACT_TO_TBL, 0)
    own = _RTMSG.pack(family, 0, 0, 0, TABLE, 0, 0, FR_ACT_TO_TBL, 0)
    return (
        main + ours + u32(FRA_SUPPRESS_PREFIXLEN, 0) + u32(FRA_TABLE, RT_TABLE_MAIN),
        own + ours + u32(FRA_TABLE, TABLE),
    )


def copied(raw: bytes) -> bytes:
    """Return a default route of the main table, in the kernel's bytes, as a request for ours."""
    family, length, source, tos, _, _, scope, kind, flags = _RTMSG.unpack_from(raw)
    settable = flags & RTNH_SETTABLE
    head = _RTMSG.pack(family, length, source, tos, TABLE, PROTOCOL, scope, kind, settable)
    kept = b"".join(
        pack(number, raw[start:end])
        for number, (start, end) in each(raw, _RTMSG.size, len(raw))
        if number not in _OURS
    )
    return head + kept + u32(RTA_TABLE, TABLE) + u32(RTA_PRIORITY, METRIC)


def _front(sides: list[_Side]) -> Front:
    remains = any(side.ours or side.rules for side in sides)
    led = {route.index for side in sides for route in side.ours}
    if len(led) != 1:
        return Front(0, remains)
    index = led.pop()
    return Front(index if all(side.leads_to(index) for side in sides) else 0, remains)


def _side(kernel: Exchange, family: int) -> _Side:
    empty = _RTMSG.pack(family, 0, 0, 0, 0, 0, 0, 0, 0)
    try:
        host, ours = _routes(kernel.dump(RTM_GETROUTE, empty))
        found = [_rule(raw) for raw in kernel.dump(RTM_GETRULE, empty)]
    except Malformed as error:
        raise HostError(f"rtnetlink: {error}") from error
    return _Side(host, ours, tuple(rule for rule in found if rule is not None))


def _routes(raws: Iterable[bytes]) -> tuple[tuple[_Route, ...], tuple[_Route, ...]]:
    """Return the default routes of the main table, and ours."""
    host: list[_Route] = []
    ours: list[_Route] = []
    for raw in raws:
        if len(raw) < _RTMSG.size:
            raise Malformed("a message body is cut off")
        _, length, source, _, table, protocol, _, kind, flags = _RTMSG.unpack_from(raw)
        if length or source or kind != RTN_UNICAST or flags & RTM_F_CLONED:
            continue
        found = attributes(raw, _RTMSG.size, len(raw))
        table = _u32(raw, found.get(RTA_TABLE), table)
        index = _u32(raw, found.get(RTA_OIF), 0)
        gateway = b"".join(
            raw[slice(*found[number])] for number in (RTA_GATEWAY, RTA_VIA) if number in found
        )
        route = _Route(index, gateway, _u32(raw, found.get(RTA_PRIORITY), 0), raw)
        if (table, protocol) == (TABLE, PROTOCOL):
            ours.append(route)
        elif table == RT_TABLE_MAIN and index:  # one over several interfaces is no uplink's
            host.append(route)
    return tuple(host), tuple(ours)


def _rule(raw: bytes) -> tuple[int, bytes] | None:
    """Return table and bytes of a rule that is ours."""
    found = attributes(raw, _RTMSG.size, len(raw))
    start, end = found.get(FRA_PROTOCOL, (0, 0))
    if raw[start:end] != bytes((PROTOCOL,)):
        return None
    return _u32(raw, found.get(FRA_TABLE), raw[4]), raw


def _u32(raw: bytes, span: tuple[int, int] | None, default: int) -> int:
    if span is None:
        return default
    if span[1] - span[0] < U32_BYTES:
        raise Malformed("an attribute is no 32-bit number")
    return int(struct.unpack_from("=I", raw, span[0])[0])


def _name(index: int) -> str:
    try:
        return socket.if_indextoname(index)
    except OSError:
        return f"interface {index}"
