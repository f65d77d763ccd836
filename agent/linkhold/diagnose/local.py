"""Steps that ask this host alone: links, hardware, tables, firewall, managers. Blocking."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.decide.diagnosis.seen import defaults, global_addresses
from linkhold.decide.watch import AGGREGATES, LOOPBACK_TYPE, VIRTUAL, Watch
from linkhold.model import HostError, Unavailable
from linkhold.model.diagnosis_facts import Card, Counted, Drop, FirewallFacts
from linkhold.sensors import ethtool
from linkhold.sensors.rtnetlink import RtnetlinkSensor
from linkhold.survey import nftables, pcie, routes, snapshot
from linkhold.survey.owners import Owners

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from linkhold.model.look import Look, LookedLink
    from linkhold.model.network import HostNetwork
    from linkhold.model.survey import Owner
    from linkhold.survey.files import Reader

PAIRS = frozenset({"veth", "netkit"})
"""What a container or a test has for a NIC: one end of a pair, told by its address, or alone."""
NET = "/sys/class/net"
LEGACY = ("/proc/net/ip_tables_names", "/proc/net/ip6_tables_names")


@dataclass(frozen=True, slots=True)
class Seen:
    """The host's network as one look; ``nics`` are links that lead out or are meant to."""

    look: Look
    network: HostNetwork
    nics: tuple[str, ...]


def look(ignored: frozenset[str]) -> Seen:
    """Return the host's network. Raises HostError and Unavailable where rtnetlink is silent."""
    whole = snapshot.take()
    meant = tuple(
        link.name for link in whole.links if _is_nic(whole, link) and link.name not in ignored
    )
    sensor = RtnetlinkSensor(Watch(forced=frozenset(meant), ignored=ignored))
    try:
        network = sensor.open().network
    finally:
        sensor.close()
    links = {i: replace(link, vf=ethtool.is_vf(link.name)) for i, link in network.links.items()}
    return Seen(whole, replace(network, links=links), meant)


def _is_nic(whole: Look, link: LookedLink) -> bool:
    """Whether a link is hardware, lies on it, or carries a default route.

    Bridges and tunnels of containers have addresses and no carrier all day, and are no fault.
    """
    if link.hw_type == LOOPBACK_TYPE:
        return False
    routed = any(link.index in route.indexes for route in defaults(whole))
    if routed or link.kind in AGGREGATES or link.kind not in VIRTUAL:
        return True
    master = next((one for one in whole.links if one.index == link.master), None)
    if master is not None and master.kind in AGGREGATES:
        return True
    if link.kind == "bridge" and any(one.kind not in VIRTUAL for one in whole.ports_of(link.index)):
        return True
    return link.kind in PAIRS and (
        bool(global_addresses(whole, link.index)) or _is_containers(whole, link)
    )


def _is_containers(whole: Look, link: LookedLink) -> bool:
    """Whether a pair's end is all that a container has, so that it is its NIC without address."""
    others = (one for one in whole.links if one.index != link.index)
    return not any(
        one.kind in PAIRS or one.kind not in VIRTUAL
        for one in others
        if one.hw_type != LOOPBACK_TYPE
    )


def grown(
    before: Mapping[str, Mapping[str, int]],
    after: Mapping[str, Mapping[str, int]],
    names: Sequence[str],
    seconds: float,
) -> tuple[Counted, ...]:
    """Return the counters of these links at both ends of the run."""
    return tuple(
        Counted(name, before[name], after[name], seconds)
        for name in names
        if name in before and name in after
    )


def cards(reader: Reader, seen: Seen) -> tuple[Card, ...]:
    """Return driver, firmware and PCIe link of each hardware NIC. May wait for the RTNL lock."""
    found = []
    for name in (link.name for link in seen.look.links if link.kind == ""):
        if seen.network.by_name(name) is None or not _is_ours(reader, seen.look, name):
            continue
        info = ethtool.driver_info(name)
        lanes = pcie.lanes(reader, name)
        found.append(
            Card(
                name, info.driver, info.version, info.firmware, lanes.speed, lanes.speed_most,
                lanes.width, lanes.width_most, lanes.slot_speed_most, lanes.slot_width_most,
            )
        )  # fmt: skip
    return tuple(found)


def _is_ours(reader: Reader, whole: Look, name: str) -> bool:
    """Whether sysfs shows this link, and not one of the same name in another namespace."""
    link = whole.link(name)
    return link is not None and reader.line(f"{NET}/{name}/ifindex") == str(link.index)


def owners(reader: Reader, seen: Seen) -> tuple[Owner, ...]:
    """Return who configures each NIC; may take a second on a busy host (it reads /proc)."""
    try:
        leases = routes.dhcp_interfaces()
    except OSError:
        leases = None
    everyone = Owners(reader, leases)
    found = []
    for name in seen.nics:
        link = seen.look.link(name)
        if link is not None and _is_ours(reader, seen.look, name):
            found.append(everyone.of(name, link.index))
    return tuple(found)


def dropped() -> dict[str, int]:
    """Return what the firewall's rules have dropped so far, by chain. Raises Unavailable."""
    try:
        return nftables.dropped()
    except (HostError, OSError) as error:
        raise _unseen(error) from error


def firewall(before: Mapping[str, int]) -> FirewallFacts:
    """Return what the firewall dropped since ``before``. Raises Unavailable."""
    after = dropped()
    try:
        chains = {chain.where: chain for chain in nftables.chains()}
    except (HostError, OSError) as error:
        raise _unseen(error) from error
    drops = tuple(
        Drop(
            where,
            chains[where].hook if where in chains else "",
            total - before.get(where, 0),
            total,
        )
        for where, total in after.items()
        if total
    )
    closed = tuple(
        chain.where
        for chain in chains.values()
        if chain.drops and chain.hook in {"input", "output"}
    )
    return FirewallFacts(drops, closed)


def legacy_rules(reader: Reader) -> bool:
    """Whether rules of legacy iptables are in force, which are not looked at."""
    return any(reader.line(path) for path in LEGACY)


def _unseen(error: Exception) -> Unavailable:
    if os.geteuid():
        return Unavailable("reading nf_tables needs root (CAP_NET_ADMIN)")
    return Unavailable(str(error))
