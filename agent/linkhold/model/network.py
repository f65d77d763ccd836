"""The host's network as the kernel tells it, and as people think of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.clock import Moment


@dataclass(frozen=True, slots=True)
class BondOptions:
    """What the kernel says about a bond (IFLA_INFO_DATA of kind ``bond``).

    ``active`` and ``primary`` are interface indexes; None when the kernel names none.
    ``peer_notif_delay_ms`` is None before Linux 5.3.
    """

    mode: int
    active: int | None = None
    miimon_ms: int = 0
    arp_interval_ms: int = 0
    primary: int | None = None
    primary_reselect: int = 0
    fail_over_mac: int = 0
    updelay_ms: int = 0
    downdelay_ms: int = 0
    num_peer_notif: int = 1
    peer_notif_delay_ms: int | None = None
    resend_igmp: int = 1
    all_slaves_active: int = 0

    @property
    def monitored(self) -> bool:
        """Whether the kernel watches the members at all; a bond without it never fails over."""
        return self.miimon_ms > 0 or self.arp_interval_ms > 0


@dataclass(frozen=True, slots=True)
class BondPort:
    """What the bond says about one of its members (IFLA_INFO_SLAVE_DATA).

    ``state`` is ``active`` or ``backup``; ``mii`` is ``up``, ``going_down``, ``down`` or
    ``going_back``.
    """

    state: str
    mii: str
    link_failures: int = 0
    perm_mac: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One network interface as the kernel reports it by rtnetlink.

    ``kind`` is the rtnetlink kind (``bond``, ``veth``, ``vlan`` ...), empty for hardware.
    ``carrier`` is the physical link; ``admin_up`` what an administrator set. ``master`` is the
    index of the bond, bridge or VRF this link is a port of. ``parent`` is the link that a VLAN
    with ``vlan_id`` lies on. ``carrier_ups`` and
    ``carrier_downs`` are the kernel's own counters (IFLA_CARRIER_UP_COUNT, _DOWN_COUNT).
    ``vf``: known to be a virtual function of SR-IOV.
    """

    index: int
    name: str
    kind: str = ""
    hw_type: int = 1
    admin_up: bool = False
    carrier: bool = False
    operstate: str = "unknown"
    mac: str = ""
    perm_mac: str = ""
    mtu: int = 0
    master: int | None = None
    carrier_ups: int = 0
    carrier_downs: int = 0
    bus_path: str = ""
    parent: int | None = None
    vlan_id: int = 0
    driver: str = ""
    speed_mbps: int | None = None
    vf: bool = False
    bond: BondOptions | None = None
    port: BondPort | None = None

    @property
    def usable(self) -> bool:
        """Whether frames can leave: administratively up and with carrier."""
        return self.admin_up and self.carrier


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """One address of an interface. ``family`` is ``inet`` or ``inet6``."""

    index: int
    family: str
    address: str
    prefix_len: int
    scope: str = "global"
    tentative: bool = False


@dataclass(frozen=True, slots=True, order=True)
class DefaultRoute:
    """One next hop of a default route. ``gateway`` is empty for a route without one.

    A multipath route is several of these with the same metric.
    """

    family: str
    index: int
    gateway: str = ""
    metric: int = 0
    table: int = 254


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """The part of the host's network that linkhold watches, at one instant."""

    links: Mapping[int, Link] = field(default_factory=dict)
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[DefaultRoute] = frozenset()

    def by_name(self, name: str) -> Link | None:
        """Return the link called ``name``, or None."""
        return next((link for link in self.links.values() if link.name == name), None)

    def ports_of(self, index: int) -> tuple[Link, ...]:
        """Return the ports of the bond or bridge ``index``, ordered by name."""
        ports = (link for link in self.links.values() if link.master == index)
        return tuple(sorted(ports, key=lambda link: link.name))


@dataclass(frozen=True, slots=True)
class BondMember:
    """One member of a bond. ``good`` is what the bond can use now: up, carrier and MII up.

    ``path`` is what probes say of what lies behind it: alive, dead or unknown.
    """

    name: str
    good: bool
    carrier: bool
    mii: str
    failures: int
    path: str = "unknown"
    path_reason: str = ""


@dataclass(frozen=True, slots=True)
class BondView:
    """A bond and its members as people think of it.

    ``redundant`` means that losing the active member now would cost no more than a failover:
    the kernel monitors the members and at least two of them are good, none of these with a path
    known dead. ``silent`` says which target of the probes answers through no member, ``would``
    which member probes would make active if they were allowed to; ``locked`` that they have
    moved it too often. ``flapping``: the active member changed too often.
    """

    name: str
    index: int
    mode: str
    carrier: bool
    active: str | None
    members: tuple[BondMember, ...]
    monitored: bool
    redundant: bool
    silent: str = ""
    would: str = ""
    locked: bool = False
    flapping: bool = False

    @property
    def dead(self) -> tuple[BondMember, ...]:
        """The good members whose path is known dead."""
        return tuple(member for member in self.members if member.good and member.path == "dead")

    @property
    def lost(self) -> tuple[str, ...]:
        """Names of the members that cannot carry now."""
        return tuple(member.name for member in self.members if not member.good)


@dataclass(frozen=True, slots=True)
class MemberPath:
    """What probes say of one member: ``verdict`` is alive, dead or unknown.

    ``died_active``: it was the active member when it died.
    """

    name: str
    verdict: str = "unknown"
    reason: str = ""
    died_active: bool = False


@dataclass(frozen=True, slots=True)
class BondPaths:
    """What probes say of one bond; see :class:`BondView` for the words."""

    bond: str
    members: tuple[MemberPath, ...] = ()
    silent: str = ""
    would: str = ""
    locked: bool = False


@dataclass(frozen=True, slots=True)
class WayOut:
    """One way from the node to the rest of the world, and whether it carries.

    ``index`` is the interface; ``obstacle`` says in words why it does not carry, else empty.
    """

    name: str
    family: str
    index: int
    link: str
    via: str
    obstacle: str = ""

    @property
    def carries(self) -> bool:
        """Whether packets can leave this way, as far as is known."""
        return not self.obstacle


@dataclass(frozen=True, slots=True)
class LinkHistory:
    """What is remembered of a link beyond its present state.

    ``downs`` are the latest losses (CLOCK_MONOTONIC, ns), oldest first, as many as matter.
    """

    since: Moment
    seen_up: bool = False
    flapping: bool = False
    downs: tuple[int, ...] = ()
