"""Kernel objects moved from one interface to another: the kernel's own bytes, sent back. Pure.

What a dump says about an address, a route, a rule, a neighbour or a nexthop object is what a
request has to say to make it again (that is how ``ip route restore`` works). So nothing is decoded
and encoded again; the interface is exchanged, and what only the kernel may say is left out. The
interface stays a name until the moment of sending: a bond has no index before it exists.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model.look import (
    IFA_F_MANAGETEMPADDR,
    IFA_F_NOPREFIXROUTE,
    LookedAddress,
    LookedNeighbour,
    LookedNexthop,
    LookedRoute,
    LookedRule,
)
from linkhold.rtnl.attributes import each, pack, text, u32
from linkhold.rtnl.framing import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

RTM_NEWADDR, RTM_DELADDR, RTM_NEWROUTE, RTM_DELROUTE = 20, 21, 24, 25
RTM_NEWNEIGH, RTM_NEWRULE, RTM_DELRULE, RTM_NEWNEXTHOP = 28, 32, 33, 104

IFA_LABEL, IFA_FLAGS = 3, 8
IFA_F_HOMEADDRESS, IFA_F_MCAUTOJOIN, IFA_F_NODAD = 0x10, 0x400, 0x02
SETTABLE_FLAGS = (
    IFA_F_NODAD | IFA_F_HOMEADDRESS | IFA_F_MANAGETEMPADDR | IFA_F_NOPREFIXROUTE | IFA_F_MCAUTOJOIN
)
"""What inet6_rtm_newaddr() lets a request set; the other flags are the kernel's."""

RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_MULTIPATH = 4, 5, 6, 9
RTA_CACHEINFO, RTA_EXPIRES = 12, 23
RTA_VIA, RTA_ENCAP_TYPE, RTA_ENCAP, RTA_NH_ID = 18, 21, 22, 30
HOPS = frozenset({RTA_OIF, RTA_GATEWAY, RTA_MULTIPATH, RTA_VIA, RTA_ENCAP_TYPE, RTA_ENCAP})
"""What a dump tells of a route's nexthop object, and a request must not say beside its id."""
RTNH_SETTABLE = 0x2 | 0x4
"""RTNH_F_PERVASIVE and RTNH_F_ONLINK; dead, linkdown and offload are the kernel's to say."""
USER_HZ = 100
FRA_IIFNAME, FRA_OIFNAME = 3, 17
NDA_DST, NDA_LLADDR = 1, 2
NUD_STALE, NUD_PERMANENT = 0x04, 0x80
NHA_OIF = 5
NHA_OF_A_GROUP = frozenset({1, 2, 3})
"""NHA_ID, NHA_GROUP, NHA_GROUP_TYPE; a resilient group's state is not a request's to say."""

_RTMSG_FLAGS = struct.Struct("=I")
_INDEX = struct.Struct("=I")
_CACHEINFO = struct.Struct("=IIi")
_NEXTHOP = struct.Struct("=HBBi")


@dataclass(frozen=True, slots=True)
class Template:
    """A body with holes for interface indexes: (offset, name of the interface)."""

    body: bytes
    holes: tuple[tuple[int, str], ...] = ()


class _Body:
    """Collects the parts of a body and the holes in it."""

    def __init__(self, head: bytes) -> None:
        self.data = bytearray(head)
        self.holes: list[tuple[int, str]] = []

    def index(self, name: str, offset: int) -> None:
        _INDEX.pack_into(self.data, offset, 0)
        self.holes.append((offset, name))

    def add(self, attribute: bytes) -> None:
        self.data += attribute

    def add_index(self, kind: int, name: str) -> None:
        self.add(u32(kind, 0))
        self.holes.append((len(self.data) - _INDEX.size, name))

    def done(self) -> Template:
        return Template(bytes(self.data), tuple(self.holes))


def address(one: LookedAddress, source: str, target: str) -> Template:
    """Return ``one``, an address of ``source``, as a request for ``target``.

    Lifetimes travel in IFA_CACHEINFO. A temporary (RFC 8981) address becomes an ordinary one
    with its lifetimes, since only the kernel makes those.
    """
    body = _Body(one.raw[:8])
    body.data[2] = one.flags & SETTABLE_FLAGS & 0xFF
    body.index(target, 4)
    for kind, (start, end) in each(one.raw, 8, len(one.raw)):
        value = one.raw[start:end]
        if kind == IFA_LABEL:
            label = value.rstrip(b"\0").decode("utf-8", "surrogateescape")
            body.add(text(kind, target + label.removeprefix(source)))
        elif kind == IFA_FLAGS:
            body.add(u32(kind, one.flags & SETTABLE_FLAGS))
        else:
            body.add(pack(kind, value))
    return body.done()


def route(one: LookedRoute, names: Mapping[int, str], metric: int = 0) -> Template:
    """Return a route as a request; ``names`` says for each interface index where it leads now.

    ``metric`` 0 leaves that as it is.
    """
    body = _Body(one.raw[:12])
    flags = _RTMSG_FLAGS.unpack_from(body.data, 8)[0] & RTNH_SETTABLE
    _RTMSG_FLAGS.pack_into(body.data, 8, flags)
    for kind, (start, end) in each(one.raw, 12, len(one.raw)):
        value = one.raw[start:end]
        if one.nexthop_id and kind in HOPS:
            continue
        if kind == RTA_OIF:
            body.add_index(kind, names[_index(value)])
        elif kind == RTA_PRIORITY and metric:
            body.add(u32(kind, metric))
        elif kind == RTA_MULTIPATH:
            _multipath(body, value, names)
        elif kind == RTA_CACHEINFO:
            _expiry(body, value)
        else:
            body.add(pack(kind, value))
    return body.done()


def _index(value: bytes) -> int:
    if len(value) != _INDEX.size:
        raise Malformed("the interface of a route is no number")
    return int(_INDEX.unpack(value)[0])


def _expiry(body: _Body, cacheinfo: bytes) -> None:
    """Keep how long an IPv6 route lives: struct rta_cacheinfo counts it in USER_HZ ticks."""
    if len(cacheinfo) < _CACHEINFO.size:
        raise Malformed("the lifetime of a route is cut off")
    ticks = _CACHEINFO.unpack_from(cacheinfo)[2]
    if ticks > 0:
        body.add(u32(RTA_EXPIRES, max(1, ticks // USER_HZ)))


def _multipath(body: _Body, value: bytes, names: Mapping[int, str]) -> None:
    start = len(body.data) + 4
    data = bytearray(value)
    position = 0
    while position + _NEXTHOP.size <= len(data):
        length, flags, hops, index = _NEXTHOP.unpack_from(data, position)
        _NEXTHOP.pack_into(data, position, length, flags & RTNH_SETTABLE, hops, 0)
        body.holes.append((start + position + 4, names[index]))
        position += (max(length, _NEXTHOP.size) + 3) & ~3
    body.add(pack(RTA_MULTIPATH, bytes(data)))


def rule(one: LookedRule, renamed: Callable[[str], str]) -> Template:
    """Return a policy rule as a request; ``renamed`` maps the names of iif and oif."""
    body = _Body(one.raw[:8] + bytes(4))  # the flags (resolved, detached) are the kernel's
    flags = _RTMSG_FLAGS.unpack_from(one.raw, 8)[0] & 0x00000003  # FIB_RULE_PERMANENT, _INVERT
    _RTMSG_FLAGS.pack_into(body.data, 8, flags & 0x2)
    for kind, (start, end) in each(one.raw, 12, len(one.raw)):
        value = one.raw[start:end]
        if kind in {FRA_IIFNAME, FRA_OIFNAME}:
            body.add(text(kind, renamed(value.rstrip(b"\0").decode("utf-8", "surrogateescape"))))
        else:
            body.add(pack(kind, value))
    return body.done()


def neighbour(one: LookedNeighbour, target: str) -> Template:
    """Return a neighbour for ``target``: a permanent one as it is, a learned one as stale.

    A stale entry is used at once and checked by the kernel a few seconds later.
    """
    state = NUD_PERMANENT if one.state & NUD_PERMANENT else NUD_STALE
    body = _Body(one.raw[:8] + struct.pack("=HBB", state, 0, 0))
    body.index(target, 4)
    for kind, (start, end) in each(one.raw, 12, len(one.raw)):
        if kind in {NDA_DST, NDA_LLADDR}:
            body.add(pack(kind, one.raw[start:end]))
    return body.done()


def nexthop(one: LookedNexthop, target: str) -> Template:
    """Return a nexthop object over ``target``; routes that use it by its id follow at once."""
    # struct nhmsg: a request must leave scope and flags zero (rtm_to_nh_config), but for ONLINK.
    flags = _RTMSG_FLAGS.unpack_from(one.raw, 4)[0] & RTNH_SETTABLE
    body = _Body(bytes((one.raw[0], 0, one.raw[2], 0)) + _RTMSG_FLAGS.pack(flags))
    for kind, (start, end) in each(one.raw, 8, len(one.raw)):
        if kind == NHA_OIF:
            body.add_index(kind, target)
        elif not one.group or kind in NHA_OF_A_GROUP:
            body.add(pack(kind, one.raw[start:end]))
    return body.done()
