"""Bonds that will not protect: judged whoever made them. Ways out that are lost without a link."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.config.settings import Settings, WayOutSettings
from linkhold.model import Address, DefaultRoute, HostNetwork, Link, Network, Severity
from support.world import World, bonded, single, types

if TYPE_CHECKING:
    from linkhold.model import BondOptions


def with_bond(host: HostNetwork, **changes: object) -> HostNetwork:
    """Return ``host`` with other options of bond0."""
    link = host.links[9]
    assert link.bond is not None
    options: BondOptions = replace(link.bond, **changes)  # type: ignore[arg-type]
    return replace(host, links={**host.links, 9: replace(link, bond=options)})


def with_vf(host: HostNetwork) -> HostNetwork:
    """Return ``host`` whose second member is a virtual function."""
    return replace(host, links={**host.links, 2: replace(host.links[2], vf=True)})


def test_no_monitoring_is_an_error_at_once() -> None:
    """R09: miimon 0 without ARP is critical from the first look, without waiting."""
    world = World()
    events = world.look(bonded(miimon_ms=0))
    told = next(event for event in events if event.type == "bond.unmonitored")

    assert (told.severity, told.data["initial"]) == (Severity.CRITICAL, True)
    assert [alert.severity for alert in world.state.alerts] == [Severity.CRITICAL]
    assert world.alerts == ["bond.unmonitored"]


def test_monitoring_that_is_switched_off_is_told_once() -> None:
    """The change is an event; looks after it are none."""
    world = World()
    world.look(bonded())
    first = world.look(bonded(miimon_ms=0))
    later = world.look(bonded(False, miimon_ms=0))

    assert "bond.unmonitored" in types(first)
    assert "bond.unmonitored" not in types(later)


@pytest.mark.parametrize(("miimon_ms", "told"), [(5000, False), (5001, True), (100_000, True)])
def test_monitoring_in_the_wrong_unit_is_named_in_seconds(miimon_ms: int, told: bool) -> None:  # noqa: FBT001
    """R10: more than five seconds between looks is a mistake of the unit."""
    world = World()
    events = world.look(bonded(miimon_ms=miimon_ms))
    slow = [event for event in events if event.type == "bond.slow_monitoring"]
    world.sleep(5)

    assert bool(slow) == told
    assert world.alerts == (["bond.slow_monitoring"] if told else [])
    if told:
        assert slow[0].data["detection_s"] == miimon_ms / 1000
        assert f"after up to {miimon_ms / 1000:g} s" in world.state.alerts[0].text


def test_a_virtual_function_that_gets_a_copied_mac_is_a_warning() -> None:
    """R08: before the first failover; with fail_over_mac active all is well."""
    world = World()
    world.look(bonded())
    events = world.look(with_vf(bonded()), after_s=1)  # known when the driver was asked
    world.sleep(5)

    assert types(events) == ["bond.vf_mac"]
    assert world.alerts == ["bond.vf_mac"]
    assert types(World().look(with_vf(with_bond(bonded(), fail_over_mac=1))))[-1] == "network.ok"


def test_a_bond_without_active_member_carries_nothing() -> None:
    """R04: members with carrier are of no use while none is active."""
    world = World()
    world.look(bonded(active=None))
    world.sleep(5)

    assert world.state.network is Network.DOWN
    assert world.state.cause[0] == "bond0 has no active member"
    assert not world.state.bonds[0].carrier


@pytest.mark.parametrize(
    ("miimon_ms", "words"), [(0, "miimon 0"), (100_000, "every 100 s: miimon 100000")]
)
def test_a_bond_that_does_not_leave_a_lost_member_is_down(miimon_ms: int, words: str) -> None:
    """Without monitoring, or with one in the wrong unit, it stays on the cable that is out."""
    world = World()
    world.look(bonded(miimon_ms=miimon_ms))
    assert (world.state.network, world.state.bonds[0].redundant) == (Network.OK, False)
    world.look(bonded(first=False, miimon_ms=miimon_ms), after_s=60)

    assert (world.state.network, world.state.bonds[0].carrier) == (Network.DOWN, False)
    assert "eth1 has no link, and bond0 does not leave it" in world.state.cause[0]
    assert words in world.state.cause[0]

    world.look(bonded(first=False, active=2, miimon_ms=miimon_ms))
    assert world.state.bonds[0].carrier


def test_a_standby_that_is_lost_takes_no_unmonitored_bond_down() -> None:
    """The active member carries on, and the bond is degraded as any other."""
    world = World()
    world.look(bonded(miimon_ms=0))
    world.look(bonded(second=False, miimon_ms=0))

    assert (world.state.network, world.state.bonds[0].carrier) == (Network.DEGRADED, True)


def test_a_monitored_bond_is_not_down_between_a_lost_cable_and_its_failover() -> None:
    """The kernel looks every 50 ms: that instant is a lost spare, as before."""
    world = World()
    world.look(bonded())
    world.look(bonded(first=False))

    assert world.state.network is Network.DEGRADED


def test_a_way_out_over_a_vlan_on_such_a_bond_does_not_carry() -> None:
    """What lies on the bond is cut off with it."""
    base = bonded(first=False, miimon_ms=0)
    vlan = Link(11, "bond0.5", kind="vlan", admin_up=True, carrier=True, parent=9, vlan_id=5)
    world = World()
    world.look(
        HostNetwork(
            {**base.links, 11: vlan},
            frozenset({Address(11, "inet", "10.0.5.2", 24)}),
            frozenset({DefaultRoute("inet", 11, "10.0.5.1")}),
        )
    )

    assert world.state.network is Network.DOWN


def test_a_lost_default_route_alerts_though_another_way_out_carries() -> None:
    """R02: link and address are fine, the route is gone: critical at once."""
    way = WayOutSettings("storage", "eth1", "10.0.0.9")
    world = World(Settings(ways_out=(way,)))
    world.look(single())
    world.look(replace(single(), routes=frozenset()), after_s=60)

    assert world.state.network is Network.DEGRADED
    assert [(a.type, a.severity) for a in world.state.alerts] == [
        ("route.default_lost", Severity.CRITICAL)
    ]
    assert "default route via 10.0.0.1 on eth1 is gone" in world.state.alerts[0].text


def test_a_lost_ipv4_route_counts_though_ipv6_has_one() -> None:
    """Most of the world is reached by IPv4 alone; the way back clears it."""
    both = {DefaultRoute("inet", 1, "10.0.0.1"), DefaultRoute("inet6", 1, "fe80::1")}
    six = {DefaultRoute("inet6", 1, "fe80::1")}
    host = single()
    v6 = replace(next(iter(host.addresses)), family="inet6", address="fd00::2", prefix_len=64)
    host = replace(host, addresses=host.addresses | {v6})
    world = World()
    world.look(replace(host, routes=frozenset(both)))
    world.look(replace(host, routes=frozenset(six)), after_s=60)

    assert world.alerts == ["route.default_lost"]

    world.look(replace(host, routes=frozenset(both)), after_s=60)
    world.sleep(60)

    assert (world.alerts, world.state.network) == ([], Network.OK)
