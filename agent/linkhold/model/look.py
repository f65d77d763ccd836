"""All of a host's network configuration that a bond may have to carry over, at one instant.

Each object keeps the ``raw`` body of the kernel's own message beside the few decoded fields that
decisions need: what is put back, or put onto the bond, is what the kernel told, with every
attribute, also those that linkhold has never heard of.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

IFA_F_NODAD, IFA_F_PERMANENT = 0x02, 0x80
IFA_F_TENTATIVE, IFA_F_MANAGETEMPADDR, IFA_F_NOPREFIXROUTE = 0x40, 0x100, 0x200
"""linux/if_addr.h."""

BOND_LINK_UP = 0
"""linux/if_bonding.h: what the monitor of a bond says of a member in order."""

RTPROT_KERNEL, RTPROT_RA, RTPROT_DHCP = 2, 9, 16
"""linux/rtnetlink.h: who made a route."""


@dataclass(frozen=True, slots=True)
class LookedLink:
    """One interface. ``bond`` holds the options of a bond by name, ``port`` those of a member.

    ``token`` is the IPv6 interface token (``ip token``), empty for none. ``lower`` is the index
    of the interface beneath (a VLAN's NIC), 0 for none.
    """

    index: int
    name: str
    kind: str = ""
    hw_type: int = 1
    admin_up: bool = False
    carrier: bool = False
    mac: str = ""
    perm_mac: str = ""
    mtu: int = 0
    master: int = 0
    lower: int = 0
    token: str = ""
    bond: Mapping[str, object] | None = None
    port: Mapping[str, object] | None = None

    @property
    def usable(self) -> bool:
        """Whether its bond can use this member: carrier, and the bond's monitor says up."""
        return self.carrier and (self.port or {}).get("mii_status") == BOND_LINK_UP


@dataclass(frozen=True, slots=True)
class LookedAddress:
    """One address. ``address`` is written ``10.0.0.2/24``."""

    index: int
    family: str
    address: str
    scope: int
    flags: int
    raw: bytes = field(repr=False, default=b"")

    @property
    def link_local(self) -> bool:
        """Whether the kernel makes it by itself when the link comes up."""
        return self.family == "inet6" and self.address.lower().startswith("fe80:")


@dataclass(frozen=True, slots=True)
class LookedRoute:
    """One route. ``destination`` is ``default`` or a prefix; ``indexes`` its interfaces."""

    family: str
    table: int
    destination: str
    gateway: str
    metric: int
    protocol: int
    kind: int
    indexes: tuple[int, ...]
    nexthop_id: int = 0
    raw: bytes = field(repr=False, default=b"")


@dataclass(frozen=True, slots=True)
class LookedRule:
    """One policy rule; ``iif`` and ``oif`` name interfaces, empty for none."""

    family: str
    priority: int
    iif: str
    oif: str
    raw: bytes = field(repr=False, default=b"")


@dataclass(frozen=True, slots=True)
class LookedNeighbour:
    """One entry of the neighbour table. ``state`` is NUD_* of linux/neighbour.h."""

    index: int
    family: str
    address: str
    mac: str
    state: int
    raw: bytes = field(repr=False, default=b"")


@dataclass(frozen=True, slots=True)
class LookedNexthop:
    """One nexthop object (``ip nexthop``); ``index`` is its interface, 0 for none.

    ``group`` holds the ids of the members of a group, in their order; empty for any other.
    """

    id: int
    index: int
    group: tuple[int, ...] = ()
    raw: bytes = field(repr=False, default=b"")


@dataclass(frozen=True, slots=True)
class Look:
    """The host's network as one snapshot. ``sysctls`` are paths below /proc/sys and values."""

    links: tuple[LookedLink, ...] = ()
    addresses: tuple[LookedAddress, ...] = ()
    routes: tuple[LookedRoute, ...] = ()
    rules: tuple[LookedRule, ...] = ()
    neighbours: tuple[LookedNeighbour, ...] = ()
    nexthops: tuple[LookedNexthop, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)

    def link(self, name: str) -> LookedLink | None:
        """Return the interface called ``name``, or None."""
        return next((link for link in self.links if link.name == name), None)

    def name_of(self, index: int) -> str:
        """Return the name of an interface, or ``interface 7`` when it is not there."""
        found = next((link.name for link in self.links if link.index == index), "")
        return found or f"interface {index}"

    def addresses_of(self, index: int) -> tuple[LookedAddress, ...]:
        """Return the addresses of an interface, in the kernel's order."""
        return tuple(address for address in self.addresses if address.index == index)

    def routes_of(self, index: int) -> tuple[LookedRoute, ...]:
        """Return the routes that use an interface, in the kernel's order."""
        return tuple(route for route in self.routes if index in route.indexes)

    def ports_of(self, index: int) -> tuple[LookedLink, ...]:
        """Return the members of a bond or bridge."""
        return tuple(link for link in self.links if link.master == index)
