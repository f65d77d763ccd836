"""What only netlink tells of a link: its kind, its burned-in address, an XDP program on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.rtnl.attributes import attributes
from linkhold.survey import routes

if TYPE_CHECKING:
    from linkhold.rtnl.attributes import Span

# linux/if_link.h
IFLA_IFNAME, IFLA_LINKINFO, IFLA_XDP, IFLA_PERM_ADDRESS = 3, 18, 43, 54
IFLA_INFO_KIND, IFLA_XDP_ATTACHED = 1, 2


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """One link; ``kind`` is empty for hardware, ``perm_mac`` where there is none (Linux 5.6)."""

    index: int
    kind: str = ""
    perm_mac: str = ""
    xdp: bool = False


def facts() -> dict[str, LinkFacts]:
    """Return all links of this network namespace by name; raises :class:`routes.NoAnswer`."""
    found = {}
    for index, data, places in routes.links():
        if IFLA_IFNAME in places:
            found[_text(data, places[IFLA_IFNAME])] = _facts(index, data, places)
    return found


def _facts(index: int, data: bytes, places: dict[int, Span]) -> LinkFacts:
    kind, xdp, perm = "", False, ""
    if IFLA_LINKINFO in places:
        info = attributes(data, *places[IFLA_LINKINFO])
        kind = _text(data, info[IFLA_INFO_KIND]) if IFLA_INFO_KIND in info else ""
    if IFLA_XDP in places:
        info = attributes(data, *places[IFLA_XDP])
        xdp = IFLA_XDP_ATTACHED in info and routes.number(data, info[IFLA_XDP_ATTACHED]) != 0
    if IFLA_PERM_ADDRESS in places:
        start, end = places[IFLA_PERM_ADDRESS]
        perm = data[start:end].hex(":")
    return LinkFacts(index, kind, perm, xdp)


def _text(data: bytes, span: Span) -> str:
    return data[span[0] : span[1]].partition(b"\0")[0].decode("utf-8", "backslashreplace")
