"""One look at the whole network configuration of a host, by dumps of rtnetlink.

Needs no privilege. Standard library only, since the guard compares with it.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.model import HostError
from linkhold.model.look import (
    Look,
    LookedAddress,
    LookedLink,
    LookedNeighbour,
    LookedNexthop,
    LookedRoute,
    LookedRule,
)
from linkhold.rtnl import bond
from linkhold.rtnl.attributes import attributes, u32
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import RTM_GETADDR, RTM_GETLINK, RTM_GETROUTE, Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.rtnl.attributes import Span

RTM_GETNEIGH, RTM_GETRULE, RTM_GETNEXTHOP = 30, 34, 106
FAMILIES: dict[int, str] = {socket.AF_INET: "inet", socket.AF_INET6: "inet6"}

IFF_UP = 0x1
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_MASTER = 1, 3, 4, 5, 10
IFLA_LINKINFO, IFLA_AF_SPEC, IFLA_EXT_MASK, IFLA_CARRIER, IFLA_PERM_ADDRESS = 18, 26, 29, 33, 54
INFO_KIND, INFO_DATA, INFO_SLAVE_KIND, INFO_SLAVE_DATA = 1, 2, 4, 5
RTEXT_FILTER_SKIP_STATS = 1 << 3
IFLA_INET6_TOKEN = 7
IFA_ADDRESS, IFA_LOCAL, IFA_FLAGS = 1, 2, 8
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_MULTIPATH = 1, 4, 5, 6, 9
RTA_TABLE, RTA_VIA, RTA_NH_ID = 15, 18, 30
FRA_IIFNAME, FRA_PRIORITY, FRA_OIFNAME = 3, 6, 17
NDA_DST, NDA_LLADDR = 1, 2
NHA_ID, NHA_GROUP, NHA_OIF = 1, 2, 5
RTM_F_CLONED = 0x200
NTF_PROXY = 0x08

IFINFO = struct.Struct("=BxHiII")
IFADDR = struct.Struct("=BBBBI")
RTMSG = struct.Struct("=BBBBBBBBI")
NDMSG = struct.Struct("=BxxxiHBB")
NEXTHOP = struct.Struct("=HBBi")
NHMSG_BYTES = 8

DEPRECATED_SYSCTLS = frozenset({"base_reachable_time", "retrans_time"})
"""The kernel logs whoever reads them; the same values are in files whose names end in _ms."""
SYSCTL_FOLDERS = ("net/ipv4/conf", "net/ipv6/conf", "net/ipv4/neigh", "net/ipv6/neigh")


def take(names: Iterable[str] = (), *, root: Path = Path("/")) -> Look:
    """Return the host's network now; ``names`` are interfaces whose sysctls to read as well.

    Raises :class:`~linkhold.model.HostError` where rtnetlink does not answer, or nonsense.
    """
    try:
        return _taken(names, root)
    except Malformed as error:
        raise HostError(f"rtnetlink: {error}") from error


def _taken(names: Iterable[str], root: Path) -> Look:
    with Exchange() as kernel:
        extended = IFINFO.pack(0, 0, 0, 0, 0) + u32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS)
        links = tuple(_link(raw) for raw in kernel.dump(RTM_GETLINK, extended))
        addresses = [_address(raw) for raw in kernel.dump(RTM_GETADDR, IFADDR.pack(0, 0, 0, 0, 0))]
        empty = RTMSG.pack(0, 0, 0, 0, 0, 0, 0, 0, 0)
        routes = [_route(raw) for raw in kernel.dump(RTM_GETROUTE, empty)]
        rules = [_rule(raw) for raw in kernel.dump(RTM_GETRULE, empty)]
        neighbours = [
            _neighbour(raw) for raw in kernel.dump(RTM_GETNEIGH, NDMSG.pack(0, 0, 0, 0, 0))
        ]
        nexthops = _nexthops(kernel)
    return Look(
        links,
        tuple(one for one in addresses if one),
        tuple(one for one in routes if one),
        tuple(one for one in rules if one),
        tuple(one for one in neighbours if one),
        nexthops,
        sysctls(names, root=root),
    )


def sysctls(names: Iterable[str], *, root: Path = Path("/")) -> dict[str, str]:
    """Return what the per-interface sysctls of ``names`` hold, by path below /proc/sys."""
    found = {}
    for folder in SYSCTL_FOLDERS:
        for name in names:
            for path in sorted((root / "proc/sys" / folder / name).glob("*")):
                if path.name in DEPRECATED_SYSCTLS:
                    continue
                with contextlib.suppress(OSError, UnicodeDecodeError):  # stable_secret unset: EIO
                    found[f"{folder}/{name}/{path.name}"] = path.read_text().strip()
    return found


def _nexthops(kernel: Exchange) -> tuple[LookedNexthop, ...]:
    with contextlib.suppress(Exception):  # Linux before 5.3 has no nexthop objects
        raws = kernel.dump(RTM_GETNEXTHOP, bytes(NHMSG_BYTES))
        return tuple(_nexthop(raw) for raw in raws)
    return ()


def _link(raw: bytes) -> LookedLink:
    _, hw_type, index, flags, _ = _head(IFINFO, raw)
    found = attributes(raw, IFINFO.size, len(raw))
    kind, options, port = _info(raw, found)
    return LookedLink(
        index=index,
        name=_text(raw, found, IFLA_IFNAME),
        kind=kind,
        hw_type=hw_type,
        admin_up=bool(flags & IFF_UP),
        carrier=_bytes(raw, found, IFLA_CARRIER) == b"\1",
        mac=_bytes(raw, found, IFLA_ADDRESS).hex(":"),
        perm_mac=_bytes(raw, found, IFLA_PERM_ADDRESS).hex(":"),
        mtu=_u32(raw, found, IFLA_MTU),
        master=_u32(raw, found, IFLA_MASTER),
        lower=_u32(raw, found, IFLA_LINK),
        token=_token(raw, found),
        bond=options,
        port=port,
    )


def _info(
    raw: bytes, found: dict[int, Span]
) -> tuple[str, dict[str, object] | None, dict[str, object] | None]:
    if IFLA_LINKINFO not in found:
        return "", None, None
    info = attributes(raw, *found[IFLA_LINKINFO])
    kind = _text(raw, info, INFO_KIND)
    options = port = None
    if kind == "bond" and INFO_DATA in info:
        options = bond.decode(raw, info[INFO_DATA], bond.OPTIONS)
    if _text(raw, info, INFO_SLAVE_KIND) == "bond" and INFO_SLAVE_DATA in info:
        port = bond.decode(raw, info[INFO_SLAVE_DATA], bond.PORT_OPTIONS)
    return kind, options, port


def _token(raw: bytes, found: dict[int, Span]) -> str:
    if IFLA_AF_SPEC not in found:
        return ""
    families = attributes(raw, *found[IFLA_AF_SPEC])
    if socket.AF_INET6 not in families:
        return ""
    token = _bytes(raw, attributes(raw, *families[socket.AF_INET6]), IFLA_INET6_TOKEN)
    return _ip(token) if any(token) else ""


def _address(raw: bytes) -> LookedAddress | None:
    family, prefix_len, flags, scope, index = _head(IFADDR, raw)
    if family not in FAMILIES:
        return None
    found = attributes(raw, IFADDR.size, len(raw))
    local = _bytes(raw, found, IFA_LOCAL) or _bytes(raw, found, IFA_ADDRESS)
    text = f"{_ip(local)}/{prefix_len}"
    flags = _u32(raw, found, IFA_FLAGS) or flags
    return LookedAddress(index, FAMILIES[family], text, scope, flags, raw)


def _route(raw: bytes) -> LookedRoute | None:
    family, length, _, _, table, protocol, _, kind, flags = _head(RTMSG, raw)
    if family not in FAMILIES or flags & RTM_F_CLONED:
        return None
    found = attributes(raw, RTMSG.size, len(raw))
    destination = _bytes(raw, found, RTA_DST)
    indexes, gateway = _hops(raw, found)
    return LookedRoute(
        family=FAMILIES[family],
        table=_u32(raw, found, RTA_TABLE) or table,
        destination=f"{_ip(destination)}/{length}" if destination else _all_of(family, length),
        gateway=gateway,
        metric=_u32(raw, found, RTA_PRIORITY),
        protocol=protocol,
        kind=kind,
        indexes=indexes,
        nexthop_id=_u32(raw, found, RTA_NH_ID),
        raw=raw,
    )


def _all_of(family: int, length: int) -> str:
    everything = "::" if family == socket.AF_INET6 else "0.0.0.0"  # noqa: S104
    return f"{everything}/{length}" if length else "default"


def _hops(raw: bytes, found: dict[int, Span]) -> tuple[tuple[int, ...], str]:
    """Return the interfaces of a route, and its gateway (the first one of several)."""
    if RTA_MULTIPATH not in found:
        index = _u32(raw, found, RTA_OIF)
        return ((index,) if index else ()), _gateway(raw, found)
    indexes, gateways = [], []
    position, end = found[RTA_MULTIPATH]
    while position < end:
        if position + NEXTHOP.size > end:
            raise Malformed("a next hop is cut off")
        length, _, _, index = NEXTHOP.unpack_from(raw, position)
        if length < NEXTHOP.size or position + length > end:
            raise Malformed("a next hop is longer than its route")
        indexes.append(index)
        inner = attributes(raw, position + NEXTHOP.size, position + length)
        gateways.append(_gateway(raw, inner))
        position += (length + 3) & ~3
    return tuple(indexes), next(filter(None, gateways), "")


def _gateway(raw: bytes, found: dict[int, Span]) -> str:
    if RTA_VIA in found:  # struct rtvia: a family, then the address
        return _ip(_bytes(raw, found, RTA_VIA)[2:])
    return _ip(_bytes(raw, found, RTA_GATEWAY)) if RTA_GATEWAY in found else ""


def _rule(raw: bytes) -> LookedRule | None:
    family = _head(RTMSG, raw)[0]
    if family not in FAMILIES:
        return None
    found = attributes(raw, RTMSG.size, len(raw))
    priority = _u32(raw, found, FRA_PRIORITY)
    iif, oif = (_text(raw, found, kind) for kind in (FRA_IIFNAME, FRA_OIFNAME))
    return LookedRule(FAMILIES[family], priority, iif, oif, raw)


def _neighbour(raw: bytes) -> LookedNeighbour | None:
    family, index, state, flags, _ = _head(NDMSG, raw)
    if family not in FAMILIES or flags & NTF_PROXY:
        return None
    found = attributes(raw, NDMSG.size, len(raw))
    mac = _bytes(raw, found, NDA_LLADDR).hex(":")
    return LookedNeighbour(
        index, FAMILIES[family], _ip(_bytes(raw, found, NDA_DST)), mac, state, raw
    )


def _nexthop(raw: bytes) -> LookedNexthop:
    if len(raw) < NHMSG_BYTES:
        raise Malformed("a message body is cut off")
    found = attributes(raw, NHMSG_BYTES, len(raw))
    group = _bytes(raw, found, NHA_GROUP)  # struct nexthop_grp: id, weight
    ids = tuple(one for one, _ in struct.iter_unpack("=II", group[: len(group) & ~7]))
    return LookedNexthop(_u32(raw, found, NHA_ID), _u32(raw, found, NHA_OIF), ids, raw)


def _head(layout: struct.Struct, raw: bytes) -> tuple[int, ...]:
    if len(raw) < layout.size:
        raise Malformed("a message body is cut off")
    return layout.unpack_from(raw)


def _bytes(raw: bytes, found: dict[int, Span], kind: int) -> bytes:
    start, end = found.get(kind, (0, 0))
    return raw[start:end]


def _u32(raw: bytes, found: dict[int, Span], kind: int) -> int:
    value = _bytes(raw, found, kind)
    return int.from_bytes(value[:4], "little" if struct.pack("=H", 1)[0] else "big")


def _text(raw: bytes, found: dict[int, Span], kind: int) -> str:
    return _bytes(raw, found, kind).partition(b"\0")[0].decode("utf-8", "backslashreplace")


def _ip(raw: bytes) -> str:
    sizes = {4: socket.AF_INET, 16: socket.AF_INET6}
    if len(raw) not in sizes:
        raise Malformed("an address of neither 4 nor 16 bytes")
    return socket.inet_ntop(sizes[len(raw)], raw)
