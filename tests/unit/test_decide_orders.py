"""What a command of linkhold does to a bond is information; what it does not explain is a fault."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkhold.decide.readings import BondKeepsReading, OrderReading
from linkhold.model import BondKeep, Drift, Severity
from support.world import World, bonded, types

GONE = Drift("gone", "bond0", "there", "gone", "bond0 is gone")


def ordered(action: str) -> World:
    """Return a world with a bond on which a command of linkhold is at work."""
    world = World()
    world.look(bonded())
    assert types(world.take(OrderReading("bond0", action))) == []
    return world


def test_moves_of_an_ordered_test_are_information_and_no_flapping() -> None:
    """However often somebody tests: the event names the command, and nothing flaps."""
    world = ordered("test")
    for number in range(8):
        [event] = world.look(bonded(active=2 - number % 2), after_s=1)
        told = (event.type, event.severity, event.data["ordered"])
        assert told == ("bond.failover", Severity.INFO, "test")
    world.sleep(5)

    assert (world.alerts, world.state.bonds[0].flapping) == ([], False)


def test_the_same_moves_without_an_order_are_flapping() -> None:
    """An order that has ended excuses nothing."""
    world = ordered("test")
    world.take(OrderReading("bond0", ""))
    for number in range(8):
        world.look(bonded(active=2 - number % 2), after_s=1)
    world.sleep(5)

    assert world.alerts == ["bond.flapping"]


@pytest.mark.parametrize("action", ["remove", "apply"])
def test_a_bond_that_a_command_takes_away_is_no_alert(action: str) -> None:
    """A spare that is lost meanwhile is none either; after the command it counts."""
    world = ordered(action)
    world.look(bonded(second=False), after_s=1)
    world.take(BondKeepsReading((BondKeep("bond0", applied=True, drift=(GONE,)),)))
    world.sleep(10)
    assert world.alerts == []

    world.take(OrderReading("bond0", ""))
    world.sleep(5)
    assert world.alerts == ["bond.degraded", "bond.drift"]


def test_an_outage_is_told_whoever_did_it() -> None:
    """A command that cuts the node off is as bad as a cable."""
    world = ordered("apply")
    events = world.look(bonded(first=False, second=False))
    world.sleep(5)

    assert ("bond.down", Severity.CRITICAL) in [(e.type, e.severity) for e in events]
    assert world.alerts == ["network.down"]


def test_a_bond_that_is_taken_away_by_order_is_information() -> None:
    """The interface that is gone is told, with the command that took it."""
    world = ordered("remove")
    host = bonded()
    rest = {index: replace(host.links[index], master=None, port=None) for index in (1, 2)}
    events = world.look(replace(host, links=rest))
    gone = [event for event in events if event.type == "link.removed"]

    assert [(e.severity, e.data["ordered"]) for e in gone] == [(Severity.INFO, "remove")]


def drifting(*kinds: str) -> BondKeepsReading:
    """Return what the keeping of bond0 tells while its options differ so."""
    found = tuple(
        Drift("option", k, "1", "2", f"{k} of bond0 is 2, wanted 1", "why") for k in kinds
    )
    return BondKeepsReading((BondKeep("bond0", applied=True, drift=found),))


def test_an_alert_for_many_faults_is_as_old_as_the_oldest_that_is_there() -> None:
    """A fault that is over leaves no beginning behind for one that came later."""
    world = World()
    world.look(bonded())
    world.take(drifting("miimon"))
    began_ns = world.now_ns
    world.sleep(100)
    world.take(drifting("miimon", "primary"))
    assert world.state.alerts[0].since.mono_ns == began_ns
    assert world.state.alerts[0].text == (
        "bond0: miimon of bond0 is 2, wanted 1; primary of bond0 is 2, wanted 1 (why)"
    )

    world.sleep(100)
    world.take(drifting("primary"))
    assert world.state.alerts[0].since.mono_ns == began_ns + 100 * 10**9

    world.take(drifting())
    world.sleep(5)  # over, and not closed yet
    world.take(drifting("updelay"))
    [alert] = world.state.alerts
    assert (alert.subject, alert.since.mono_ns) == ("bond0", world.now_ns)
    assert "updelay" in alert.text


def test_a_restart_keeps_the_beginning_of_an_alert() -> None:
    """What was stored says no more than since when the alert is open."""
    world = World()
    world.look(bonded())
    world.take(drifting("miimon"))
    world.sleep(100)
    again = world.restart()
    again.look(bonded())
    again.take(drifting("miimon"))

    assert again.state.alerts[0].since.mono_ns == world.state.alerts[0].since.mono_ns
