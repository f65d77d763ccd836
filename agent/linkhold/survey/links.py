"""What only netlink tells of a link: its kind, its own MAC, XDP on it, and what it is bound to."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.rtnl.attributes import attributes
from linkhold.rtnl.framing import RTM_GETLINK, Malformed
from linkhold.survey import routes

if TYPE_CHECKING:
    from linkhold.rtnl.attributes import Span

# linux/if_link.h
IFLA_IFNAME, IFLA_LINK, IFLA_LINKINFO, IFLA_LINK_NETNSID = 3, 5, 18, 37
IFLA_XDP, IFLA_PERM_ADDRESS = 43, 54
IFLA_INFO_KIND, IFLA_XDP_ATTACHED = 1, 2
IFINFO = struct.Struct("=BxHiII")
PAIRS = frozenset({"veth", "vxcan", "netkit"})
"""Kinds whose IFLA_LINK is the other end of a cable, not an interface beneath."""


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """One link; ``kind`` is empty for hardware, ``perm_mac`` where there is none (Linux 5.6).

    ``lower`` is the index of the interface that it is bound to, such as a tunnel's ``dev``
    (ip_tunnel_get_iflink); 0 for none, or for one in another network namespace.
    """

    index: int
    kind: str = ""
    perm_mac: str = ""
    xdp: bool = False
    lower: int = 0


def facts() -> dict[str, LinkFacts]:
    """Return all links of this network namespace by name; raises :class:`routes.NoAnswer`."""
    found = {}
    for data in routes.listed(RTM_GETLINK, IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0)):
        places = routes.parts(data, IFINFO.size)
        if IFLA_IFNAME in places:
            index = int(IFINFO.unpack_from(data)[2])
            try:
                found[_text(data, places[IFLA_IFNAME])] = _facts(index, data, places)
            except Malformed as error:
                raise routes.NoAnswer(str(error)) from error
    return found


def _facts(index: int, data: bytes, places: dict[int, Span]) -> LinkFacts:
    kind, xdp, perm, lower = "", False, "", 0
    if IFLA_LINKINFO in places:
        info = attributes(data, *places[IFLA_LINKINFO])
        kind = _text(data, info[IFLA_INFO_KIND]) if IFLA_INFO_KIND in info else ""
    if IFLA_XDP in places:
        info = attributes(data, *places[IFLA_XDP])
        xdp = IFLA_XDP_ATTACHED in info and routes.number(data, info[IFLA_XDP_ATTACHED]) != 0
    if IFLA_PERM_ADDRESS in places:
        start, end = places[IFLA_PERM_ADDRESS]
        perm = data[start:end].hex(":")
    if IFLA_LINK in places and IFLA_LINK_NETNSID not in places and kind not in PAIRS:
        lower = routes.number(data, places[IFLA_LINK])
    return LinkFacts(index, kind, perm, xdp, lower)


def _text(data: bytes, span: Span) -> str:
    return data[span[0] : span[1]].partition(b"\0")[0].decode("utf-8", "backslashreplace")
