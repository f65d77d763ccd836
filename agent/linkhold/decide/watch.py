"""Which interfaces linkhold looks at, so that container churn gives no readings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.config.settings import Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from collections.abc import Set as AbstractSet

    from linkhold.config.settings import Settings
    from linkhold.model import DefaultRoute, Link

LOOPBACK_TYPE = 772  # ARPHRD_LOOPBACK, linux/if_arp.h

AGGREGATES = frozenset({"bond", "team"})

# Interfaces that container runtimes, VMs and tunnels make and remove all day. They have no cable
# of their own: what can fail is below them, and that is watched. The names are the kernel's
# rtnl_link_ops.kind.
VIRTUAL = frozenset(
    {
        *("veth", "netkit", "vxcan", "vcan", "dummy", "ifb", "nlmon", "vsockmon", "netdevsim"),
        *("tun", "macvlan", "macvtap", "ipvlan", "ipvtap"),
        *("bridge", "openvswitch", "vrf", "batadv"),
        *("vxlan", "geneve", "bareudp", "gtp", "amt", "l2tp", "wireguard", "ovpn", "xfrm"),
        *("gre", "gretap", "erspan", "ip6gre", "ip6gretap", "ip6erspan"),
        *("sit", "ipip", "ip6tnl", "vti", "vti6"),
    }
)


@dataclass(frozen=True, slots=True)
class Watch:
    """What the owner says about interfaces by name.

    ``forced`` are named under ``links:`` with any role but ``ignore``; ``ignored`` have that role.
    """

    forced: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()


def watch_of(settings: Settings) -> Watch:
    """Return what the configuration says about interfaces.

    Uplinks and the members of bonds are looked at as well: also while they are in no bond.
    """
    ignored = frozenset(n for n, entry in settings.links.items() if entry.role is Role.IGNORE)
    named = frozenset(settings.links) | {uplink.link for uplink in settings.uplinks}
    named |= {member for bond in settings.bonds.values() for member in bond.members}
    return Watch(forced=named - ignored, ignored=ignored)


def is_watched(
    link: Link, links: Mapping[int, Link], routed: AbstractSet[int], watch: Watch
) -> bool:
    """Return whether ``link`` is looked at.

    ``links`` are all links of the host, ``routed`` the indexes that carry a default route.
    """
    if link.name in watch.ignored:
        return False
    if link.name in watch.forced:
        return True
    if link.hw_type == LOOPBACK_TYPE:
        return False
    if link.kind not in VIRTUAL or link.index in routed:
        return True
    master = links.get(link.master) if link.master is not None else None
    return master is not None and master.kind in AGGREGATES


def watched(
    links: Mapping[int, Link],
    routes: Iterable[DefaultRoute],
    watch: Watch,
    led: AbstractSet[int] = frozenset(),
) -> frozenset[int]:
    """Return the indexes of the links that are looked at.

    ``led`` are links that carried a default route before: one that has lost it is not gone.
    """
    routed = {route.index for route in routes} | led
    return frozenset(
        index for index, link in links.items() if is_watched(link, links, routed, watch)
    )
