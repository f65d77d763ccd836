"""Bytes of rtnetlink messages to frozen values: links, addresses, default routes. Pure.

A decoder reads the message body between two positions of a datagram, raises
:class:`~linkhold.rtnl.framing.Malformed` when it makes no sense, and nothing else. One scan
over the attributes finds their places; only those that are wanted are then read.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, replace

from linkhold.model import Address, BondOptions, BondPort, DefaultRoute, Link
from linkhold.rtnl.attributes import Span, attributes
from linkhold.rtnl.framing import Malformed

FAMILIES: dict[int, str] = {socket.AF_INET: "inet", socket.AF_INET6: "inet6"}
FAMILY_BY_SIZE = {4: socket.AF_INET, 16: socket.AF_INET6}

_U16 = struct.Struct("=H")
_U32 = struct.Struct("=I")
_IFINFO = struct.Struct("=BxHiII")
_IFADDR = struct.Struct("=BBBBI")
_RTMSG = struct.Struct("=BBBBBBBBI")
_NEXTHOP = struct.Struct("=HBBi")

IFF_UP, IFF_LOWER_UP = 0x1, 0x10000
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER, IFLA_OPERSTATE = 1, 3, 4, 5, 10, 16
IFLA_LINKINFO, IFLA_CARRIER, IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT = 18, 33, 47, 48
IFLA_PERM_ADDRESS, IFLA_PARENT_DEV_NAME = 54, 56
IFLA_INFO_KIND, IFLA_INFO_DATA, IFLA_INFO_SLAVE_KIND, IFLA_INFO_SLAVE_DATA = 1, 2, 4, 5
IFLA_VLAN_ID = 1

# linux/if.h IF_OPER_*, in the words of RFC 2863 and of iproute2.
OPERSTATES = ("unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up")

# linux/if_bonding.h: BOND_STATE_* and BOND_LINK_*.
PORT_STATES = ("active", "backup")
MII_STATES = ("up", "going_down", "down", "going_back")

IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
IFA_F_OPTIMISTIC, IFA_F_TENTATIVE = 0x04, 0x40
SCOPES = {0: "global", 200: "site", 253: "link", 254: "host", 255: "nowhere"}

RT_TABLE_LOCAL, RTN_UNICAST = 255, 1
RTM_F_CLONED, RTNH_F_DEAD = 0x200, 0x1
RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_PREFSRC, RTA_MULTIPATH = 4, 5, 6, 7, 9
RTA_TABLE, RTA_VIA, RTA_NH_ID = 15, 18, 30


@dataclass(frozen=True, slots=True)
class Leg:
    """One next hop of a route; ``gateway`` is empty for a route straight onto the link."""

    index: int
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class Route:
    """One default route as the kernel keeps it: what is replaced or deleted as a whole.

    IPv4 keeps all next hops in one route, IPv6 one route per next hop. ``kind`` is the RTN_ type;
    all but unicast lead nowhere (blackhole, unreachable ...) and have no legs: no way out, but
    they take part when routes replace each other. ``dead`` are legs that the
    kernel does not use while their link is administratively down. ``nexthop_id`` is the nexthop
    object it uses, 0 for none; ``source`` the preferred source address.
    """

    family: str
    table: int
    kind: int = RTN_UNICAST
    metric: int = 0
    tos: int = 0
    source: str = ""
    nexthop_id: int = 0
    legs: tuple[Leg, ...] = ()
    dead: tuple[Leg, ...] = ()

    def same_slot(self, other: Route) -> bool:
        """Whether the kernel lets one replace the other (same table, metric and TOS)."""
        mine = (self.family, self.table, self.metric, self.tos)
        return mine == (other.family, other.table, other.metric, other.tos)

    @property
    def hops(self) -> frozenset[Leg]:
        """All legs, dead or alive."""
        return frozenset((*self.legs, *self.dead))

    def matches(self, other: Route) -> bool:
        """Whether both are one route, whichever legs live."""
        mine = (self.kind, self.source, self.nexthop_id, self.hops)
        others = (other.kind, other.source, other.nexthop_id, other.hops)
        return self.same_slot(other) and mine == others

    def without(self, index: int) -> Route:
        """Return the route with its legs over link ``index`` dead."""
        gone = tuple(leg for leg in self.legs if leg.index == index)
        kept = tuple(leg for leg in self.legs if leg.index != index)
        return replace(self, legs=kept, dead=self.dead + gone)

    def default_routes(self) -> tuple[DefaultRoute, ...]:
        """Return one model value per live leg."""
        return tuple(
            DefaultRoute(self.family, leg.index, leg.gateway, self.metric, self.table)
            for leg in self.legs
        )


def _header(layout: struct.Struct, data: bytes, start: int, end: int) -> tuple[int, ...]:
    if end - start < layout.size or end > len(data):
        raise Malformed("a message body is cut off")
    return layout.unpack_from(data, start)


def _raw(data: bytes, found: dict[int, Span], kind: int) -> bytes:
    start, end = found.get(kind, (0, 0))
    return data[start:end]


def _u32(data: bytes, found: dict[int, Span], kind: int, default: int = 0) -> int:
    span = found.get(kind)
    if span is None:
        return default
    if span[1] - span[0] != _U32.size:
        raise Malformed(f"attribute {kind} is no 32-bit number")
    return int(_U32.unpack_from(data, span[0])[0])


def _u16(data: bytes, found: dict[int, Span], kind: int) -> int:
    span = found.get(kind)
    if span is None:
        return 0
    if span[1] - span[0] != _U16.size:
        raise Malformed(f"attribute {kind} is no 16-bit number")
    return int(_U16.unpack_from(data, span[0])[0])


def _u8(data: bytes, found: dict[int, Span], kind: int, default: int = 0) -> int:
    span = found.get(kind)
    if span is None:
        return default
    if span[1] <= span[0]:
        raise Malformed(f"attribute {kind} is empty")
    return data[span[0]]


def _text(data: bytes, found: dict[int, Span], kind: int) -> str:
    """Names are bytes to the kernel; what is no UTF-8 stays visible and stays valid JSON."""
    return _raw(data, found, kind).partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _mac(data: bytes, found: dict[int, Span], kind: int) -> str:
    return _raw(data, found, kind).hex(":")


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if number < len(words) else "unknown"


def _ip(raw: bytes) -> str:
    family = FAMILY_BY_SIZE.get(len(raw))
    if family is None:
        raise Malformed("an address of neither 4 nor 16 bytes")
    return socket.inet_ntop(family, raw)


def link_index(data: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the address family and the interface index of a link message.

    Only AF_UNSPEC is about the link as such: a bridge reports its ports with AF_BRIDGE in the
    same group, and an RTM_DELLINK of that family only means that a port left the bridge.
    """
    header = _header(_IFINFO, data, start, end)
    return header[0], header[2]


def decode_link(
    data: bytes,
    start: int,
    end: int,
    driver: str = "",
    speed_mbps: int | None = None,
    vf: bool = False,  # noqa: FBT001, FBT002 - the third of the details, as the table keeps them
) -> Link | None:
    """Return the link that an RTM_NEWLINK describes; None for a message that is only an addendum.

    Wireless drivers send such addenda without a name (rtnetlink_ifinfo_prep). ``driver``,
    ``speed_mbps`` and ``vf`` are what was asked for before; the message carries none of them.
    """
    _, hw_type, index, flags, _ = _header(_IFINFO, data, start, end)
    found = attributes(data, start + _IFINFO.size, end)
    if IFLA_IFNAME not in found:
        return None
    kind, bond, port, vlan_id = _link_info(data, found)
    return Link(
        index=index,
        name=_text(data, found, IFLA_IFNAME),
        kind=kind,
        hw_type=hw_type,
        admin_up=bool(flags & IFF_UP),
        carrier=_u8(data, found, IFLA_CARRIER, flags & IFF_LOWER_UP) != 0,
        operstate=_word(OPERSTATES, _u8(data, found, IFLA_OPERSTATE)),
        mac=_mac(data, found, IFLA_ADDRESS),
        perm_mac=_mac(data, found, IFLA_PERM_ADDRESS),
        mtu=_u32(data, found, IFLA_MTU),
        master=_u32(data, found, IFLA_MASTER) or None,
        carrier_ups=_u32(data, found, IFLA_CARRIER_UP_COUNT),
        carrier_downs=_u32(data, found, IFLA_CARRIER_DOWN_COUNT),
        bus_path=_text(data, found, IFLA_PARENT_DEV_NAME),
        parent=_u32(data, found, IFLA_LINK) or None if kind == "vlan" else None,
        vlan_id=vlan_id,
        driver=driver,
        speed_mbps=speed_mbps,
        vf=vf,
        bond=bond,
        port=port,
    )


def _link_info(
    data: bytes, found: dict[int, Span]
) -> tuple[str, BondOptions | None, BondPort | None, int]:
    span = found.get(IFLA_LINKINFO)
    if span is None:
        return "", None, None, 0
    info = attributes(data, *span)
    kind = _text(data, info, IFLA_INFO_KIND)
    bond = port = None
    vlan_id = 0
    if kind == "vlan" and IFLA_INFO_DATA in info:
        vlan_id = _u16(data, attributes(data, *info[IFLA_INFO_DATA]), IFLA_VLAN_ID)
    if kind == "bond" and IFLA_INFO_DATA in info:
        bond = _bond_options(data, attributes(data, *info[IFLA_INFO_DATA]))
    if IFLA_INFO_SLAVE_DATA in info and _text(data, info, IFLA_INFO_SLAVE_KIND) == "bond":
        port = _bond_port(data, attributes(data, *info[IFLA_INFO_SLAVE_DATA]))
    return kind, bond, port, vlan_id


def _bond_options(data: bytes, found: dict[int, Span]) -> BondOptions:
    """IFLA_BOND_* of linux/if_link.h; an index is left out while there is none."""
    return BondOptions(
        mode=_u8(data, found, 1),
        active=_u32(data, found, 2) or None,
        miimon_ms=_u32(data, found, 3),
        updelay_ms=_u32(data, found, 4),
        downdelay_ms=_u32(data, found, 5),
        arp_interval_ms=_u32(data, found, 7),
        primary=_u32(data, found, 11) or None,
        primary_reselect=_u8(data, found, 12),
        fail_over_mac=_u8(data, found, 13),
        num_peer_notif=_u8(data, found, 16, 1),
        peer_notif_delay_ms=_u32(data, found, 28) if 28 in found else None,  # noqa: PLR2004
        resend_igmp=_u32(data, found, 15, 1),
        all_slaves_active=_u8(data, found, 17),
    )


def _bond_port(data: bytes, found: dict[int, Span]) -> BondPort:
    """IFLA_BOND_SLAVE_* of linux/if_link.h."""
    return BondPort(
        state=_word(PORT_STATES, _u8(data, found, 1, 255)),
        mii=_word(MII_STATES, _u8(data, found, 2, 255)),
        link_failures=_u32(data, found, 3),
        perm_mac=_mac(data, found, 4),
    )


def decode_address(data: bytes, start: int, end: int) -> Address | None:
    """Return the address in an RTM_NEWADDR or RTM_DELADDR; None for other families.

    IFA_LOCAL is ours where both are there; IFA_ADDRESS is then the peer's. An optimistic address
    is in use while it is checked, so it is not called tentative.
    """
    family, prefix_len, flags, scope, index = _header(_IFADDR, data, start, end)
    if family not in FAMILIES:
        return None
    found = attributes(data, start + _IFADDR.size, end)
    flags = _u32(data, found, IFA_FLAGS, flags)
    return Address(
        index=index,
        family=FAMILIES[family],
        address=_ip(_raw(data, found, IFA_LOCAL) or _raw(data, found, IFA_ADDRESS)),
        prefix_len=prefix_len,
        scope=SCOPES.get(scope, str(scope)),
        tentative=bool(flags & IFA_F_TENTATIVE) and not flags & IFA_F_OPTIMISTIC,
    )


def decode_routes(data: bytes, start: int, end: int) -> tuple[Route, ...]:
    """Return the default route in an RTM_NEWROUTE or RTM_DELROUTE; empty for any other route.

    Not counted as default: routes for some sources only, cached ones, and the local table.
    """
    header = _header(_RTMSG, data, start, end)
    family, dst_len, src_len, tos, table, _, _, kind, flags = header
    if dst_len or src_len or table == RT_TABLE_LOCAL or flags & RTM_F_CLONED:
        return ()
    if family not in FAMILIES:
        return ()
    found = attributes(data, start + _RTMSG.size, end)
    route = Route(
        FAMILIES[family],
        table=_u32(data, found, RTA_TABLE, table),
        kind=kind,
        metric=_u32(data, found, RTA_PRIORITY),
        tos=tos,
        source=_ip(_raw(data, found, RTA_PREFSRC)) if RTA_PREFSRC in found else "",
        nexthop_id=_u32(data, found, RTA_NH_ID),
    )
    if kind != RTN_UNICAST:
        return (route,)
    return _split(route, _hops(data, found, flags))


def _split(route: Route, hops: list[tuple[Leg, bool]]) -> tuple[Route, ...]:
    """IPv6 adds and deletes next hops one by one, so each is a route of its own."""
    if route.family == "inet6" and len(hops) > 1:
        return tuple(one for hop in hops for one in _split(route, [hop]))
    legs = tuple(leg for leg, dead in hops if not dead)
    return (replace(route, legs=legs, dead=tuple(leg for leg, dead in hops if dead)),)


def _hops(data: bytes, found: dict[int, Span], flags: int) -> list[tuple[Leg, bool]]:
    """Return each next hop with whether it is dead."""
    if RTA_MULTIPATH not in found:
        index = _u32(data, found, RTA_OIF)
        return [(Leg(index, _gateway(data, found)), bool(flags & RTNH_F_DEAD))] if index else []
    hops = []
    position, end = found[RTA_MULTIPATH]
    while position < end:
        length, hop_flags, _, index = _header(_NEXTHOP, data, position, end)
        if length < _NEXTHOP.size or position + length > end:
            raise Malformed("a next hop is longer than its route")
        inner = attributes(data, position + _NEXTHOP.size, position + length)
        hops.append((Leg(index, _gateway(data, inner)), bool(hop_flags & RTNH_F_DEAD)))
        position += (length + 3) & ~3
    return hops


def _gateway(data: bytes, found: dict[int, Span]) -> str:
    """RTA_VIA (struct rtvia) names a gateway of another family: IPv4 routes via IPv6."""
    if RTA_VIA in found:
        return _ip(_raw(data, found, RTA_VIA)[_U16.size :])
    return _ip(_raw(data, found, RTA_GATEWAY)) if RTA_GATEWAY in found else ""
