"""Which bonds are probed, through whom, and whom they ask."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.config.settings import BondSettings, Detect, Settings
from linkhold.decide.probing import Target
from linkhold.decide.probing.sight import sights
from linkhold.model import Address, DefaultRoute, HostNetwork, Link
from support.world import bonded

if TYPE_CHECKING:
    from linkhold.decide.probing.values import BondSight

ETH1, ETH2 = "02:00:00:00:00:01", "02:00:00:00:00:02"


def host(**bond: object) -> HostNetwork:
    """Return a host whose bond has the MAC of eth1, as the kernel does it."""
    base = bonded()
    links = dict(base.links)
    for index, permanent in ((1, ETH1), (2, ETH2)):
        port = links[index].port
        assert port is not None
        links[index] = replace(links[index], mac=ETH1, port=replace(port, perm_mac=permanent))
    options = links[9].bond
    assert options is not None
    links[9] = replace(links[9], mac=ETH1, bond=replace(options, **bond))  # type: ignore[arg-type]
    return replace(base, links=links)


def seen(network: HostNetwork, **entry: object) -> BondSight:
    """Return what is seen of bond0."""
    settings = Settings(
        bonds={"bond0": BondSettings(**{"members": ("eth1", "eth2"), **entry})}  # type: ignore[arg-type]
    )
    [bond] = sights(settings, network).bonds
    return bond


def test_only_configured_active_backup_bonds_are_seen() -> None:
    """A bond that is not in the configuration, or of another mode, is let alone."""
    assert sights(Settings(), host()).bonds == ()
    other = Settings(bonds={"bond0": BondSettings(members=("eth1",))})
    assert sights(other, host(mode=4)).bonds == ()
    assert sights(other, HostNetwork()).bonds == ()


def test_default_target_is_the_gateway_over_the_bond() -> None:
    """Without targets the gateways of default routes over the bond are asked."""
    assert seen(host()).targets == (Target("10.0.0.1", "10.0.0.2"),)


def test_standby_never_has_the_bonds_mac() -> None:
    """A standby sends with its permanent MAC; the member whose MAC the bond has makes one up."""
    members = {member.name: member for member in seen(host()).members}

    assert members["eth2"].standby_mac == ETH2
    assert members["eth1"].standby_mac not in {ETH1, ETH2}
    assert int(members["eth1"].standby_mac[:2], 16) & 1 == 0
    assert members["eth1"].mac == ETH1


def test_members_keep_their_macs_with_fail_over_mac_active() -> None:
    """VFs and IPoIB ports own their MACs and probe with them."""
    base = host(fail_over_mac=1)
    links = {**base.links, 2: replace(base.links[2], mac=ETH2)}
    members = {member.name: member for member in seen(replace(base, links=links)).members}

    assert members["eth2"].standby_mac == ETH2


def test_off_link_targets_are_refused_with_the_reason() -> None:
    """A target beyond the gateway cannot be asked by ARP, and that is said."""
    bond = seen(host(), targets=("192.0.2.1", "10.0.0.7"))
    assert bond.targets == (Target("10.0.0.7", "10.0.0.2"),)
    bond = seen(host(), targets=("192.0.2.1",))
    assert bond.targets == ()
    assert bond.problem == "no target is on a network of bond0: 192.0.2.1"


def test_gateway_over_a_vlan_is_asked_with_its_tag() -> None:
    """The VLAN that carries the default route is where the gateway is asked."""
    base = host()
    vlan = Link(11, "bond0.5", kind="vlan", admin_up=True, carrier=True, parent=9, vlan_id=5)
    network = HostNetwork(
        {**base.links, 11: vlan},
        frozenset({Address(11, "inet", "10.0.5.2", 24)}),
        frozenset({DefaultRoute("inet", 11, "10.0.5.1")}),
    )

    assert seen(network).targets == (Target("10.0.5.1", "10.0.5.2", 5),)


def test_bridge_above_the_bond_lends_no_address() -> None:
    """A bridge has a MAC of its own: its address is never named with the bond's."""
    base = host()
    links = {**base.links, 9: replace(base.links[9], master=12)}
    links[12] = Link(12, "br0", kind="bridge", admin_up=True, carrier=True)
    network = HostNetwork(
        links,
        frozenset({Address(12, "inet", "10.0.0.2", 24)}),
        frozenset({DefaultRoute("inet", 12, "10.0.0.1")}),
    )

    assert seen(network).targets == (Target("10.0.0.1", ""),)


def test_ipv6_gateway_is_asked_from_an_address_of_its_kind() -> None:
    """A link-local gateway is asked from our link-local address."""
    network = replace(
        host(),
        addresses=frozenset(
            {
                Address(9, "inet6", "fd00::2", 64),
                Address(9, "inet6", "fe80::2", 64, "link"),
                Address(9, "inet6", "fe80::3", 64, "link", tentative=True),
            }
        ),
        routes=frozenset({DefaultRoute("inet6", 9, "fe80::1")}),
    )

    assert seen(network).targets == (Target("fe80::1", "fe80::2"),)


def test_primary_is_found_by_name_mac_and_bus_path() -> None:
    """The preferred member is named as in the configuration; empty means the first."""
    base = host()
    links = {**base.links, 2: replace(base.links[2], bus_path="0000:3b:00.1")}
    network = replace(base, links=links)

    assert seen(network).preferred == "eth1"
    for name in ("eth2", ETH2.upper(), "0000:3b:00.1"):
        assert seen(network, primary=name).preferred == "eth2"
    assert seen(network, primary="eth7").preferred == ""


def test_mii_detection_means_no_probes() -> None:
    """``detect: mii`` leaves the reflex on carrier and nothing else."""
    bond = seen(host(), detect=Detect.MII)

    assert bond.targets == ()
    assert bond.reflex
    assert not seen(host(downdelay_ms=200)).reflex
