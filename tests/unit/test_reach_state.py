"""What lies beyond, in the state of the node: one fault is one event and one alert."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkhold.decide.readings import MetadataReading, ReachReading
from linkhold.model import HostNetwork, Network, Uploads
from linkhold.model.probes import Cause, CauseKind, Metadata, Probed
from support.world import World, single, types

GATEWAY = Cause(
    CauseKind.PATH_DEAD, "gateway 10.0.0.1 on eth1", "gateway 10.0.0.1 on eth1 does not answer", 1,
    first_hop=True,
)  # fmt: skip
MUTE = replace(GATEWAY, never=True)
STORAGE = Cause(CauseKind.STORAGE_DEAD, "nfs", "storage nfs cannot be reached", 1)
RESOLVER = Cause(CauseKind.DNS_DEAD, "resolver 10.0.0.53", "it does not resolve", 1)
ROUTE = Cause(CauseKind.DEFAULT_ROUTE_LOST, "default route", "the default route is gone", 1)
ALIVE = Probed("gateway 10.0.0.1 on eth1", "gateway", "10.0.0.1", "eth1", "alive", heard=True)


def started() -> World:
    """Return a world whose one link is fine, once its first events are out."""
    world = World()
    world.look(single())
    world.sleep(60)
    return world


def test_a_dead_gateway_is_one_event_and_one_alert() -> None:
    """What lies behind it is information, and no alert of its own."""
    world = started()
    behind = replace(STORAGE, because=GATEWAY.subject)
    news = world.take(ReachReading((GATEWAY, behind)))

    assert [(one.type, one.severity.value) for one in news][:2] == [
        ("path.path_dead", "warning"),
        ("path.storage_dead", "info"),
    ]
    assert world.state.network is Network.DOWN
    world.sleep(10)
    assert world.alerts == ["network.down"]
    news = world.take(ReachReading((), (ALIVE,)))
    assert "path.alive" in types(news)
    assert world.state.network is Network.OK


def test_a_mute_gateway_alerts_and_holds_nothing() -> None:
    """Unknown is neither fine nor down: a person is told, and uploads go on."""
    world = started()
    (event, *_) = world.take(ReachReading((MUTE,)))
    world.sleep(10)

    assert (event.type, event.data["never"]) == ("path.path_dead", True)
    assert (world.state.network, world.advice.uploads) == (Network.UNKNOWN, Uploads.GO)
    assert world.alerts == ["path.path_dead"]


@pytest.mark.parametrize("probed", [False, True])
def test_a_lost_default_route_is_told_once(probed: bool) -> None:  # noqa: FBT001
    """With probes or without: one event, one alert, whatever else died because of it."""
    world = started()
    host = single()
    gone = HostNetwork(host.links, host.addresses, frozenset())
    before = len(world.events)
    world.look(gone)
    if probed:
        world.take(ReachReading((ROUTE, replace(STORAGE, because="default route"))))
    world.sleep(10)
    told = [one.type for one in world.events[before:] if "route" in one.type]

    assert told == ["route.default_removed"]
    assert world.alerts == ["network.down"]
    assert "default route via 10.0.0.1" in world.state.cause[0]
    assert not any("path.default" in one.type for one in world.events)

    world.look(host)
    world.take(ReachReading())
    assert [one.type for one in world.events if one.type.startswith("path.alive")] == []


def test_dns_and_storage_have_causes_of_their_own() -> None:
    """Links are fine: degraded, one alert each, and uploads wait for the storage alone."""
    world = started()
    world.take(ReachReading((RESOLVER,)))
    world.sleep(30)
    assert (world.state.network, world.advice.uploads) == (Network.DEGRADED, Uploads.GO)
    assert world.alerts == ["path.dns_dead"]

    world.take(ReachReading((RESOLVER, STORAGE)))
    world.sleep(30)
    assert (world.state.network, world.advice.uploads) == (Network.DEGRADED, Uploads.HOLD)
    assert sorted(world.alerts) == ["path.dns_dead", "path.storage_dead"]


def test_a_restart_goes_on_with_what_was_known() -> None:
    """The state of the same boot keeps the dead gateway, and so the hold; another boot does not."""
    world = started()
    metadata = Metadata("Amazon EC2", "gone", "no answer", 5, heard=True)
    world.take(ReachReading((GATEWAY,), (replace(ALIVE, verdict="dead", reason="silent"),)))
    world.take(MetadataReading(metadata))
    world.sleep(10)
    again = world.restart()

    assert (again.state.reach, again.state.probes) == (world.state.reach, world.state.probes)
    assert again.state.metadata == metadata
    again.look(single())
    assert (again.state.network, again.advice.uploads) == (Network.DOWN, Uploads.HOLD)

    assert world.restart(boot_id="boot-2").state.reach == ()


def test_a_state_of_an_older_agent_is_read() -> None:
    """One that knew of no probes is no damaged state."""
    world = started()
    document = world.document()
    for name in ("beyond", "probes", "metadata"):
        del document["detail"][name]
    world.document = lambda: document  # type: ignore[method-assign]

    assert world.restart().memory.restored


def test_metadata_that_is_gone_is_an_event_and_an_alert() -> None:
    """Where it had answered before; and not while the network is down, which explains it."""
    world = started()
    world.take(MetadataReading(Metadata("Amazon EC2", "reachable", "", 5, heard=True)))
    news = world.take(MetadataReading(Metadata("Amazon EC2", "gone", "silent", 9, heard=True)))
    world.sleep(10)
    assert [(one.type, one.severity.value) for one in news] == [("metadata.gone", "warning")]
    assert (world.alerts, world.state.network) == (["metadata.gone"], Network.OK)

    world.look(single(up=False), after_s=1)
    world.sleep(60)
    assert world.alerts == ["network.down"]
