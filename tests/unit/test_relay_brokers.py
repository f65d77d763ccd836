"""What a broker says, keeps and loses, and what the relay makes of it."""

from __future__ import annotations

from dataclasses import replace

from linkhold.relay.decide.values import Status
from unit.test_relay_picture import REPORT, START_S, World, alert


def test_who_goes_dark_with_a_broker_is_one_page() -> None:
    """A rack and the broker in it lose power: what came to no other broker is told once, by rack.

    Nodes that went on to another broker, and planned work, are not in it. It is no NodeOffline:
    the relay alone may have lost that broker.
    """
    world = World()
    for number in range(6):
        world.online(f"r1-{number}")
    world.online("moved")
    world.online("work", replace(REPORT, maintenance_until_s=START_S + 9e3, maintenance_left_s=9e3))
    world.broker("x", up=False)
    world.hear("moved", Status(online=True), broker="y")
    world.run(290)
    assert world.firing() == ["FleetBrokerDown"]
    world.run(20)
    assert world.firing() == ["FleetBrokerDown", "FleetPartUnseen"]
    (told,) = [page for page in world.picture.firing if page.name == "FleetPartUnseen"]
    summary = dict(told.annotations)["summary"]
    assert summary.startswith("6 nodes went out of sight with broker x (6 in rack r1)")

    for number in range(6):
        world.hear(f"r1-{number}", Status(online=True), broker="y")
    world.run(1)
    assert world.firing() == ["FleetBrokerDown"]


def test_what_a_lost_broker_showed_is_doubtful() -> None:
    """An alert of a node that only a broker out of reach can show may be over; others may not."""
    world = World()
    world.online("there", replace(REPORT, alerts=(alert(),)), broker="y")
    world.online("unseen", replace(REPORT, alerts=(alert(),)))
    world.online("gone")
    world.hear("gone", Status(online=False))
    world.run(10)
    assert world.picture.doubtful() == frozenset()

    world.broker("x", up=False)
    named = {dict(labels)["node"] for labels in world.picture.doubtful()}
    assert named == {"unseen", "gone"}


def test_a_lost_broker_is_one_page_and_takes_no_node_with_it() -> None:
    """While the relay sees no broker, alerts stay and nodes are not offline.

    That nobody sees them is told once. A node that does not come back with the broker is
    missed.
    """
    world = World(brokers=("x",))
    for name in ("n1", "n2"):
        world.online(name, replace(REPORT, alerts=(alert(),)))
    world.broker("x", up=False)
    world.run(600)
    named = {dict(labels)["alertname"] for labels in world.picture.doubtful()}
    assert named == {"NodeNetworkDown", "FleetBrokerDown", "FleetUnseen"}  # not the life sign
    down = ["FleetBrokerDown", "FleetUnseen", "NodeNetworkDown n1", "NodeNetworkDown n2"]
    assert world.firing() == down

    world.broker("x")
    world.online("n1", replace(REPORT, order=(1, 2, 1)))
    world.run(301)
    assert world.firing() == ["NodeNetworkDown n2", "NodeOffline n2"]


def test_what_is_found_at_the_start_waits_for_all_brokers() -> None:
    """A broker that a node has left says offline: a relay that starts hears the others first."""
    world = World(up=False)
    world.broker("y")
    world.hear("n", Status(online=False), broker="y", retained=True)
    world.run(40)
    assert "NodeOffline n" not in world.firing()
    world.broker("x")
    world.hear("n", Status(online=True), broker="x", retained=True)
    world.run(100)
    assert world.firing() == []


def test_who_only_a_broker_vouches_for_is_looked_for() -> None:
    """A broker that kept its messages says online of who is long gone: such nodes are looked for.

    Who has said anything since is not.
    """
    world = World(brokers=("x",))
    for name in ("dead", "alive"):
        world.hear(name, Status(online=True), retained=True)
        world.hear(name, REPORT, retained=True)
    world.hear("alive", replace(REPORT, order=(1, 2, 1)))
    world.run(299)
    assert world.checks == []
    world.run(300)
    assert world.checks == [("x", ("lab", "dead"))]


def test_an_old_word_of_a_broker_brings_nobody_back() -> None:
    """A broker that was away says online of a node that went meanwhile: it is looked for at once.

    It stays offline until it is found there, or says something; then it is back once.
    """
    world = World()
    for name in ("gone", "found", "heard"):
        world.online(name)
    world.broker("y", up=False)
    for name in ("gone", "found", "heard"):
        world.hear(name, Status(online=False))
    world.run(10)
    paged = [f"NodeOffline {name}" for name in ("found", "gone", "heard")]
    assert [name for name in world.firing() if name in paged] == paged

    world.broker("y")
    for name in ("gone", "found", "heard"):
        world.hear(name, Status(online=True), broker="y", retained=True)
        world.hear(name, REPORT, broker="y", retained=True)
    world.run(2)
    assert sorted(key[1] for _, key in world.checks) == ["found", "gone", "heard"]
    assert paged == [name for name in world.firing() if name in paged]
    assert "NodeWasIsolated" not in str(world.posted)

    world.hear("found", Status(online=True), broker="y")
    world.hear("gone", Status(online=False), broker="y")
    world.hear("heard", replace(REPORT, order=(1, 2, 1)), broker="y", retained=True)
    world.run(10)
    assert [name for name in world.firing() if name in paged] == ["NodeOffline gone"]
    ends = [page for page in world.posted if page.name == "NodeOffline" and page.ends_s]
    assert len(ends) == 2
