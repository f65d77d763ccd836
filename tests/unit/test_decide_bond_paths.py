"""What the core makes of the probes' reports: state, causes, events, alerts, flapping."""

from __future__ import annotations

from dataclasses import replace

from linkhold.config.settings import Settings, WayOutSettings
from linkhold.decide.readings import BondMoveReading, BondPathsReading
from linkhold.model import (
    Address,
    BondPaths,
    DefaultRoute,
    HostNetwork,
    Link,
    MemberPath,
    Network,
    Severity,
)
from support.world import World, bonded, nic, types

ALIVE = (MemberPath("eth1", "alive"), MemberPath("eth2", "alive"))
NO_ANSWER = "no answer from 10.0.0.1"


def report(*members: MemberPath, **fields: object) -> BondPathsReading:
    """Return a report about bond0."""
    return BondPathsReading((BondPaths("bond0", members, **fields),))  # type: ignore[arg-type]


def probed() -> World:
    """Return a world with a bond whose members' paths are known alive."""
    world = World()
    world.look(bonded())
    assert types(world.take(report(*ALIVE))) == []
    assert world.state.network is Network.OK
    return world


def dead(name: str, *, active: bool, reason: str = NO_ANSWER) -> MemberPath:
    """Return a dead path."""
    return MemberPath(name, "dead", reason, died_active=active)


def test_dead_standby_degrades_and_alerts() -> None:
    """A standby known dead is an event, a cause, an alert, and no redundancy."""
    world = probed()
    reason = f"{NO_ANSWER} through it"
    events = world.take(report(ALIVE[0], dead("eth2", active=False, reason=reason)))

    assert types(events) == ["bond.standby_dead", "network.degraded"]
    assert events[0].data == {"member": "eth2", "reason": reason}
    assert world.state.cause == (f"eth2: {reason}",)
    assert not world.state.bonds[0].redundant
    world.sleep(4)
    assert world.alerts == ["bond.standby_dead"]
    assert "eth1 fails too" in world.state.alerts[0].text

    assert types(world.take(report(*ALIVE))) == ["bond.standby_alive", "network.ok"]
    assert world.state.bonds[0].redundant


def test_dead_path_of_the_active_member_takes_the_network_down() -> None:
    """While nothing is moved a dead active path carries nothing, and the cause says why."""
    world = probed()
    events = world.take(report(dead("eth1", active=True), ALIVE[1], would="eth2"))

    assert types(events) == ["bond.path_dead", "network.down"]
    assert events[0].data == {"member": "eth1", "reason": NO_ANSWER, "would": "eth2"}
    assert events[1].severity is Severity.CRITICAL
    assert world.state.cause[0] == f"eth1: {NO_ANSWER}"
    world.sleep(4)
    assert world.alerts == ["network.down"]


def test_dead_path_beside_another_way_out_says_what_is_lost() -> None:
    """`It carries` would read as if all were well; the member that answers is named."""
    world = World(Settings(ways_out=(WayOutSettings("storage", "eth3", "10.3.0.9"),)))
    base = bonded()
    host = HostNetwork(
        {**base.links, 3: nic(3)},
        base.addresses | {Address(3, "inet", "10.3.0.2", 24)},
        base.routes,
    )
    world.look(host)
    world.take(report(dead("eth1", active=True), ALIVE[1], would="eth2"))
    world.sleep(5)
    texts = {alert.type: alert.text for alert in world.state.alerts}

    assert texts["bond.path_dead"] == (
        f"eth1: {NO_ANSWER}; what goes over bond0 is lost; eth2 answers"
    )


def test_member_that_died_and_was_left_is_a_dead_standby() -> None:
    """After the move the network is degraded; the event still says that the active path died."""
    world = probed()
    world.look(bonded(active=2))
    events = world.take(BondMoveReading("bond0", "eth1", "eth2", "path_dead"))
    events += world.take(report(dead("eth1", active=True), ALIVE[1]))

    assert types(events) == ["bond.moved", "bond.path_dead", "network.degraded"]
    assert events[0].data == {"previous": "eth1", "active": "eth2", "reason": "path_dead"}
    assert types(world.take(report(*ALIVE))) == ["bond.path_alive", "network.ok"]


def test_silent_target_takes_the_network_down_once() -> None:
    """A gateway that answers through no member is one event, and the network is down."""
    world = probed()
    silent = report(*(MemberPath(m.name) for m in ALIVE), silent="10.0.0.1 does not answer")
    assert types(world.take(silent)) == ["bond.target_silent", "network.down"]
    assert types(world.take(silent)) == []
    assert world.state.cause == ("bond0: 10.0.0.1 does not answer",)
    assert world.state.bonds[0].redundant
    assert types(world.take(report(*ALIVE))) == ["bond.target_answers", "network.ok"]


def test_obstacle_reaches_a_way_out_over_a_vlan_on_the_bond() -> None:
    """A way out over bond0.5 does not carry when nothing comes back through bond0."""
    base = bonded()
    vlan = Link(11, "bond0.5", kind="vlan", admin_up=True, carrier=True, parent=9, vlan_id=5)
    host = HostNetwork(
        {**base.links, 11: vlan},
        frozenset({Address(11, "inet", "10.0.5.2", 24)}),
        frozenset({DefaultRoute("inet", 11, "10.0.5.1")}),
    )
    world = World()
    world.look(host)
    world.take(report(*ALIVE))
    world.take(report(*ALIVE, silent="10.0.5.1 does not answer"))

    assert world.state.network is Network.DOWN


def test_lock_is_told_and_alerts() -> None:
    """A bond that was moved too often says so, once each way."""
    world = probed()
    assert types(world.take(report(*ALIVE, locked=True))) == ["bond.locked"]
    world.sleep(4)
    assert world.alerts == ["bond.locked"]
    assert types(world.take(report(*ALIVE))) == ["bond.unlocked"]


def test_refused_move_is_an_event_with_the_kernels_words() -> None:
    """What the kernel said against a move is kept."""
    world = probed()
    [event] = world.take(BondMoveReading("bond0", "eth1", "eth2", "carrier", "No such device"))

    assert event.type == "bond.move_failed"
    assert event.data["error"] == "No such device"


def test_flapping_primary_is_one_event_and_one_alert_with_advice() -> None:
    """Six failovers are one bond.flapping; the alert names the cable and primary_reselect.

    The cable is that of the member which fails now, not of the one that did most in its lifetime.
    """
    world = probed()
    always = {"primary": 1, "primary_reselect": 0}
    for number in range(6):
        host = bonded(active=2 - number % 2, losses=(number, 0))
        bond = host.links[9]
        assert bond.bond is not None
        bond = replace(bond, bond=replace(bond.bond, **always))
        old = host.links[2]
        assert old.port is not None
        old = replace(old, port=replace(old.port, link_failures=50))
        world.look(replace(host, links={**host.links, 2: old, 9: bond}), after_s=5)
    told = types(world.events)

    assert told.count("bond.failover") == 6
    assert told.count("bond.flapping") == 1
    [alert] = [alert for alert in world.state.alerts if alert.type == "bond.flapping"]
    assert "switch port of eth1;" in alert.text
    assert "set it to failure" in alert.text
    world.sleep(61)
    assert types(world.events).count("bond.steady") == 1
    assert not world.state.bonds[0].flapping


def test_flapping_without_a_lost_link_names_no_cable() -> None:
    """Where no member lost its link the cause is behind a switch, or somebody who moves it."""
    world = probed()
    for number in range(6):
        world.look(bonded(active=2 - number % 2), after_s=5)
    [alert] = [alert for alert in world.state.alerts if alert.type == "bond.flapping"]

    assert "no member lost its link meanwhile" in alert.text


def test_paths_are_shown_in_the_state_document() -> None:
    """The document carries verdict and reason of each member."""
    world = probed()
    world.take(report(ALIVE[0], dead("eth2", active=False)))
    shown = world.document()["detail"]["bonds"]["bond0"]

    assert shown["members"]["eth1"]["path"] == "alive"
    assert shown["members"]["eth2"]["path"] == "dead"
    assert shown["members"]["eth2"]["path_reason"] == NO_ANSWER
    assert shown["locked"] is False


def test_restart_knows_no_paths_until_it_has_asked() -> None:
    """After a restart paths are unknown, and an open alert closes only after its time."""
    world = probed()
    world.take(report(ALIVE[0], dead("eth2", active=False)))
    world.sleep(4)
    again = world.restart()
    again.look(bonded())

    assert {member.path for member in again.state.bonds[0].members} == {"unknown"}
    assert again.alerts == ["bond.standby_dead"]
    assert Settings() == again.settings
