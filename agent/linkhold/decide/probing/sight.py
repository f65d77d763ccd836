"""From the host's network and the configuration to the bonds that are looked after."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import TYPE_CHECKING

from linkhold.config.settings import Detect
from linkhold.decide.bond_paths import under
from linkhold.decide.bonds import MODES
from linkhold.decide.paths import MAIN_TABLE
from linkhold.decide.probing.values import BondSight, MemberSight, Sights, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.settings import BondSettings, Settings
    from linkhold.model import Address, HostNetwork, Link

ETHERNET = 1  # ARPHRD_ETHER, linux/if_arp.h
FAIL_OVER_MAC_ACTIVE = 1
ACTIVE_BACKUP = MODES.index("active-backup")
OTHER_FIRST_OCTETS = (0x02, 0x04, 0x06, 0x08, 0x0A, 0x0C)
"""Bits to flip for a MAC of our own; 0x02 is the one that says "locally administered"."""


def sights(settings: Settings, host: HostNetwork) -> Sights:
    """Return the bonds of the configuration that exist as active-backup bonds."""
    return Sights(tuple(_sights(settings, host)))


def _sights(settings: Settings, host: HostNetwork) -> Iterator[BondSight]:
    for name, entry in settings.bonds.items():
        link = host.by_name(name)
        if link is not None and link.bond is not None and link.bond.mode == ACTIVE_BACKUP:
            yield _sight(entry, host, link)


def _sight(entry: BondSettings, host: HostNetwork, bond: Link) -> BondSight:
    assert bond.bond is not None  # noqa: S101 - _sights() selects by it
    ports = host.ports_of(bond.index)
    active = host.links.get(bond.bond.active) if bond.bond.active else None
    targets, problem = _targets(entry, host, bond)
    return BondSight(
        name=bond.name,
        index=bond.index,
        members=tuple(_member(bond, port, ports) for port in ports),
        active=active.name if active is not None and active in ports else "",
        preferred=_preferred(entry, ports),
        targets=targets,
        problem=problem,
        moves_per_minute=entry.moves_per_minute,
        reflex=bond.bond.downdelay_ms == 0,
    )


def _member(bond: Link, port: Link, ports: tuple[Link, ...]) -> MemberSight:
    mii = port.port.mii if port.port else "unknown"
    return MemberSight(
        name=port.name,
        index=port.index,
        carrier=port.usable,
        good=port.usable and mii == "up",
        mac=port.mac,
        standby_mac=_standby_mac(bond, port, ports),
    )


def permanent_mac(port: Link) -> str:
    """Return the MAC that a member was made with, whatever the bond gave it."""
    from_bond = port.port.perm_mac if port.port else ""
    return from_bond or port.perm_mac or port.mac


def _standby_mac(bond: Link, port: Link, ports: tuple[Link, ...]) -> str:
    """Return what a standby may send with: its permanent MAC unless the bond uses that.

    The bond has the permanent MAC of one member, and would be looked for behind the wrong switch
    if that member, as a standby, sent with it. Then a locally administered one is made of it.
    """
    assert bond.bond is not None  # noqa: S101 - see _sight()
    if bond.bond.fail_over_mac == FAIL_OVER_MAC_ACTIVE:
        return port.mac
    own = permanent_mac(port)
    taken = {bond.mac, *(permanent_mac(other) for other in ports if other is not port)}
    if own not in taken:
        return own
    octets = bytes.fromhex(own.replace(":", ""))
    made = (bytes([octets[0] ^ bits]) + octets[1:] for bits in OTHER_FIRST_OCTETS)
    return next((mac.hex(":") for mac in made if mac.hex(":") not in taken), "")


def _preferred(entry: BondSettings, ports: tuple[Link, ...]) -> str:
    wish = (entry.primary or next(iter(entry.members), "")).lower()
    return next(
        (
            port.name
            for port in ports
            if wish in {port.name.lower(), permanent_mac(port), port.bus_path.lower()}
        ),
        "",
    )


def _targets(entry: BondSettings, host: HostNetwork, bond: Link) -> tuple[tuple[Target, ...], str]:
    """Return whom to ask, and why there is nobody to."""
    if entry.detect is Detect.MII:
        return (), "not probed: detect is mii"
    if bond.hw_type != ETHERNET:
        return (), f"not probed: {bond.name} is not Ethernet"
    above = [link for link in host.links.values() if bond.index in under(host, link.index)]
    if entry.targets:
        found = [_on_link(host, above, address) for address in entry.targets]
        problem = f"no target is on a network of {bond.name}: {', '.join(entry.targets)}"
    else:
        found = list(_gateways(host, above))
        problem = f"no gateway over {bond.name}, and no targets configured"
    targets = tuple(dict.fromkeys(target for target in found if target is not None))
    return targets, "" if targets else problem


def _gateways(host: HostNetwork, above: list[Link]) -> Iterator[Target]:
    main = [route for route in host.routes if route.table == MAIN_TABLE]
    for route in sorted(main or host.routes):
        link = next((link for link in above if link.index == route.index), None)
        if link is not None and route.gateway:
            source = _source(host, link, route.gateway)
            yield Target(route.gateway, source, link.vlan_id)


def _on_link(host: HostNetwork, above: list[Link], address: str) -> Target | None:
    for link in above:
        source = next((a.address for a in _own(host, link) if _covers(a, address)), "")
        if source:
            return Target(address, _source(host, link, address), link.vlan_id)
    return None


def _source(host: HostNetwork, link: Link, target: str) -> str:
    """Return our address to ask with: of the target's network, else any; none on a bridge.

    A bridge above the bond has a MAC of its own, which the address belongs to.
    """
    if link.kind == "bridge":
        return ""
    family = "inet6" if ":" in target else "inet"
    own = [a for a in _own(host, link) if a.family == family and not a.tentative]
    nearest = sorted(own, key=lambda a: (not _covers(a, target), a.scope != "link", a))
    return nearest[0].address if nearest else ""


def _own(host: HostNetwork, link: Link) -> Iterator[Address]:
    return (address for address in host.addresses if address.index == link.index)


def _covers(address: Address, target: str) -> bool:
    network = ip_network(f"{address.address}/{address.prefix_len}", strict=False)
    return ip_address(target) in network
