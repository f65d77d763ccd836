"""Links, bonds and ways out: what is said about them, and when."""

from __future__ import annotations

from dataclasses import replace

from linkhold.config.settings import LinkSettings, Role, Settings, WayOutSettings
from linkhold.decide.readings import SensorReading
from linkhold.model import Address, DefaultRoute, HostNetwork, Network, Severity, Uploads
from support.world import World, bonded, nic, single, types


def test_first_sight_gives_one_initial_event_a_subject() -> None:
    """Without a stored state each subject gets exactly one event, marked initial."""
    world = World()
    events = world.look(bonded())

    assert types(events) == ["link.up", "link.up", "link.up", "bond.up", "network.ok"]
    assert all(event.data["initial"] for event in events)
    assert world.alerts == []


def test_lost_carrier_is_an_event_at_once_and_advice_after_settling() -> None:
    """A raw edge is told in the same step; uploads are held only after settle_s of down."""
    world = World()
    world.look(single())
    events = world.look(single(up=False, losses=1), after_s=10)

    assert types(events) == ["link.down", "network.down"]
    assert events[1].data["cause"] == ["eth1 lost carrier"]
    assert events[1].severity is Severity.CRITICAL
    assert world.advice.uploads is Uploads.GO

    assert types(world.sleep(1.99)) == []
    assert types(world.sleep(0.02)) == ["advice.changed"]
    assert world.advice.uploads is Uploads.HOLD
    assert world.advice.holds == ("network",)


def test_hold_ends_first_for_training_then_for_uploads() -> None:
    """Training that holds goes on settle_s after the link is back, uploads after resume_s."""
    world = World()
    world.look(single())
    world.look(single(up=False, losses=1))
    world.look(single(losses=1), after_s=30)
    world.sleep(2.01)

    assert world.advice.holds == ()
    assert world.advice.uploads is Uploads.HOLD

    world.sleep(8)

    assert world.advice.uploads is Uploads.GO


def test_a_blink_shorter_than_settling_changes_no_advice() -> None:
    """An outage shorter than settle_s is two events and nothing else."""
    world = World()
    world.look(single())
    first = len(world.events)
    world.look(single(up=False, losses=1))
    world.look(single(losses=1), after_s=1.5)
    world.sleep(100)

    assert types(world.events[first:]) == ["link.down", "network.down", "link.up", "network.ok"]


def test_hidden_bounce_is_seen_by_the_kernels_counters() -> None:
    """Carrier that went and came between two looks is a bounce with the true counts."""
    world = World()
    world.look(single())
    events = world.look(single(losses=2))

    assert types(events) == ["link.bounced"]
    assert events[0].data == {"carrier": True, "ups": 3, "downs": 2, "bounces": 2}


def test_edges_hidden_in_one_visible_edge_are_counted() -> None:
    """A link seen down once that was lost three times says that it bounced twice besides."""
    world = World()
    world.look(single())
    host = single(up=False)
    host = replace(host, links={1: replace(host.links[1], carrier_ups=3, carrier_downs=3)})

    down = world.look(host)[0]

    assert (down.type, down.data["bounces"], down.data["downs"]) == ("link.down", 2, 3)


def test_counters_that_start_again_invent_no_losses() -> None:
    """A driver reload that resets the counters gives no bounce."""
    world = World()
    world.look(single(losses=7))

    assert world.look(single()) == []


def test_outage_length_is_measured_on_the_monotonic_clock() -> None:
    """The end of an outage says how long it lasted, whatever the wall clock did."""
    world = World()
    world.look(single())
    world.look(single(up=False, losses=1), after_s=5)
    world.wall_offset_s = 3600.0
    events = world.look(single(losses=1), after_s=42)

    assert [event.data["previous_s"] for event in events] == [42.0, 42.0]


def test_bond_with_one_member_lost_is_degraded_not_down() -> None:
    """The loss of the active member is a failover; the node is degraded and uploads go on."""
    world = World()
    world.look(bonded())
    events = world.look(bonded(first=False, active=2, losses=(1, 0)))

    assert types(events) == ["link.down", "bond.failover", "bond.degraded", "network.degraded"]
    assert world.state.cause == ("eth1 lost carrier", "bond0: 1 of 2 members")
    assert world.advice.uploads is Uploads.GO

    world.sleep(3.01)

    assert world.alerts == ["bond.degraded"]
    assert "eth2 carries, no spare is left" in world.state.alerts[0].text


def test_one_fault_is_one_alert() -> None:
    """A bond that lost every member is one alert: the network is down, and why."""
    world = World()
    world.look(bonded())
    world.look(bonded(first=False, second=False, active=None, losses=(1, 1)))
    world.sleep(60)

    assert world.alerts == ["network.down"]
    assert "bond0: 0 of 2 members" in world.state.alerts[0].text


def test_bond_without_monitoring_is_never_called_redundant() -> None:
    """A bond with miimon 0 and no ARP monitor alerts and is not redundant."""
    world = World()
    events = world.look(bonded(miimon_ms=0))
    world.sleep(4)

    assert "bond.unmonitored" in types(events)
    assert not world.state.bonds[0].redundant
    assert world.alerts == ["bond.unmonitored"]


def test_member_pulled_out_of_a_bond_is_seen_without_any_link_change() -> None:
    """Membership is watched, not only carrier."""
    world = World()
    world.look(bonded())
    host = bonded()
    freed = replace(host.links[2], master=None, port=None)
    events = world.look(replace(host, links={**host.links, 2: freed}))

    assert types(events) == ["bond.member_removed"]
    assert events[0].data == {"member": "eth2"}
    assert not world.state.bonds[0].redundant


def test_default_route_that_vanished_is_down_with_its_reason() -> None:
    """Link and address fine but no default route left: down, and the text names the route."""
    world = World()
    world.look(single())
    events = world.look(replace(single(), routes=frozenset()))

    assert types(events) == ["route.default_removed", "network.down"]
    assert world.state.cause == ("default route via 10.0.0.1 on eth1 is gone",)


def test_routes_that_vanish_with_their_link_are_explained_by_the_link() -> None:
    """Of a link that was set down, the link is the reason, not the missing route."""
    world = World()
    world.look(single())
    host = single(up=False, losses=1)
    host = replace(host, links={1: replace(host.links[1], admin_up=False)}, routes=frozenset())
    world.look(host)

    assert world.state.cause == ("eth1 is set down",)


def test_no_way_out_ever_seen_is_unknown_not_down() -> None:
    """A host on a fabric without default route holds nothing: nobody said what to judge by."""
    world = World()
    world.look(HostNetwork({1: nic(1)}))
    world.sleep(100)

    assert world.state.network is Network.UNKNOWN
    assert world.advice.uploads is Uploads.GO
    assert world.alerts == []


def test_named_way_out_counts_without_a_default_route() -> None:
    """A configured way out is down when its link loses carrier."""
    way = WayOutSettings(name="storage", link="eth1", target="10.1.0.1")
    world = World(Settings(ways_out=(way,)))
    host = replace(single(), routes=frozenset())
    world.look(host)

    assert world.state.network is Network.OK

    world.look(replace(host, links={1: nic(1, up=False, losses=1)}))

    assert world.state.network is Network.DOWN


def test_dead_rail_degrades_the_node() -> None:
    """A link with role fabric that is lost degrades the node, also when it is gone."""
    settings = Settings(links={"eth2": LinkSettings(role=Role.FABRIC)})
    world = World(settings)
    rail = nic(2)
    host = single()
    world.look(replace(host, links={**host.links, 2: rail}))
    world.look(replace(host, links={**host.links, 2: nic(2, up=False, losses=1)}))

    assert world.state.network is Network.DEGRADED

    world.look(host)

    assert world.state.cause == ("eth2 is gone",)


def test_unused_port_never_alerts() -> None:
    """A port that was down since first sight and is not expected up is information only."""
    world = World()
    host = single()
    world.look(replace(host, links={**host.links, 2: nic(2, up=False)}))
    world.sleep(3600)

    assert world.alerts == []


def test_port_that_was_up_alerts_when_lost() -> None:
    """A link beside the way out that was seen up is an alert of its own when it is lost."""
    world = World()
    host = single()
    world.look(replace(host, links={**host.links, 2: nic(2)}))
    world.look(replace(host, links={**host.links, 2: nic(2, up=False, losses=1)}))
    world.sleep(4)

    assert world.alerts == ["link.down"]
    assert "the way out is eth1" in world.state.alerts[0].text


def test_link_set_down_by_somebody_is_no_fault() -> None:
    """An administrator's decision is an event, not an alert."""
    world = World()
    host = single()
    world.look(replace(host, links={**host.links, 2: nic(2)}))
    gone = nic(2, up=False, losses=1, admin_up=False)
    world.look(replace(host, links={**host.links, 2: gone}))
    world.sleep(100)

    assert world.alerts == []
    assert "link.admin_down" in types(world.events)


def test_way_out_needs_an_address() -> None:
    """Carrier and a route without an address of that family carry nothing."""
    world = World()
    world.look(replace(single(), addresses=frozenset({Address(1, "inet6", "fe80::1", 64)})))

    assert world.state.network is Network.DOWN
    assert world.state.cause == ("eth1 has no IPv4 address",)


def test_second_family_lost_is_degraded() -> None:
    """IPv4 that carries while the IPv6 way out does not is degraded, with the reason."""
    world = World()
    host = single()
    both = replace(host, routes=host.routes | {DefaultRoute("inet6", 1, "fe80::ff")})
    world.look(both)

    assert world.state.network is Network.DEGRADED
    assert world.state.cause == ("eth1 has no IPv6 address",)


def test_routes_of_other_tables_count_only_without_a_main_one() -> None:
    """A default route for a management VRF does not make a dead node look well."""
    world = World()
    host = single(up=False)
    management = {DefaultRoute("inet", 2, "10.9.0.1", table=100)}
    host = replace(
        host,
        links={**host.links, 2: nic(2)},
        addresses=host.addresses | {Address(2, "inet", "10.9.0.2", 24)},
        routes=host.routes | management,
    )
    world.look(host)

    assert world.state.network is Network.DOWN


def test_rename_keeps_the_history() -> None:
    """A renamed link is the same link: its past losses and its age stay."""
    world = World()
    world.look(single())
    since = world.state.histories[1].since
    host = single()
    events = world.look(replace(host, links={1: replace(host.links[1], name="lan0")}), after_s=5)

    assert types(events) == ["link.renamed"]
    assert world.state.histories[1].since == since


def test_resync_is_always_told() -> None:
    """An overrun is an event also when nothing had changed."""
    world = World()
    world.look(single())
    events = world.look(single(), resynced="the kernel dropped messages")

    assert types(events) == ["agent.resynced"]
    assert events[0].data["changes"] == 0


def test_what_a_resync_finds_is_marked() -> None:
    """Events made up after an overrun say so."""
    world = World()
    world.look(single())
    events = world.look(single(up=False, losses=4), resynced="overrun")

    assert types(events)[:2] == ["agent.resynced", "link.down"]
    assert events[1].data["resynced"] is True


def _bridged(*, cable: bool, container: bool = True) -> HostNetwork:
    """Return a host whose way out is br0 over eth1, beside a container's port (not watched)."""
    bridge = nic(9, up=cable or container, name="br0", kind="bridge")
    port = nic(1, up=cable, losses=not cable, master=9)
    return HostNetwork(
        {9: bridge, 1: port},
        frozenset({Address(9, "inet", "10.0.0.2", 24)}),
        frozenset({DefaultRoute("inet", 9, "10.0.0.1")}),
    )


def test_bridge_leads_out_by_its_cable_only() -> None:
    """A bridge that has carrier by a container's port alone carries nothing to the outside."""
    world = World()
    world.look(_bridged(cable=True))
    assert world.state.network is Network.OK

    world.look(_bridged(cable=False))
    world.sleep(4)

    assert world.state.network is Network.DOWN
    assert world.state.cause == ("eth1 lost carrier",)


def test_blind_sensor_makes_the_network_unknown() -> None:
    """While links cannot be seen nothing is called fine or down, and a person is told."""
    world = World()
    world.look(single())
    events = world.take(SensorReading("blind", "no complete answer"))
    world.sleep(4)

    assert types(events)[:2] == ["agent.sensor", "network.unknown"]
    assert world.alerts == ["agent.sensor"]
    assert world.advice.uploads is Uploads.GO

    world.take(SensorReading("ok"))
    world.look(single(), resynced="it was blind")

    assert world.state.network is Network.OK
