"""What uplinks make of the node's state: network, causes, alerts, events and the document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkhold.config import Settings
from linkhold.decide.happening import Happening
from linkhold.decide.readings import UplinksReading
from linkhold.decide.uplinks.sight import sights
from linkhold.model import DefaultRoute, HostNetwork, Network, Uplinks, UplinkView
from linkhold.wire.stored import parse_node_state
from support.uplink_world import RULES, Lines
from support.world import World, bonded, nic, single

SILENT = "no answer from 192.0.2.1"
BOND = UplinkView("bond0", "alive", active=True)
USB = UplinkView("usb0", "alive", metered=True)
DEAD = replace(BOND, verdict="dead", reason=SILENT)


def told(*lines: UplinkView, **more: str) -> World:
    """Return a world with a whole bond that was told of uplinks a minute ago."""
    world = World()
    world.look(bonded())
    world.take(UplinksReading(Uplinks(lines, **more)))
    world.sleep(60)
    return world


def alerts(world: World) -> dict[str, str]:
    """Return the open alerts: type and text."""
    return {alert.type: alert.text for alert in world.state.alerts}


def test_whole_uplinks_change_nothing() -> None:
    """With all uplinks alive the network is what its links make of it."""
    world = told(BOND, USB)

    assert world.state.network is Network.OK
    assert world.alerts == []


def test_traffic_on_the_spare_is_degraded_and_alerted() -> None:
    """A node on its spare says so, and why, in one alert."""
    world = told(replace(DEAD, active=False), replace(USB, active=True))

    assert world.state.network is Network.DEGRADED
    assert world.state.cause == (
        "default traffic goes over usb0 (metered)",
        f"bond0 has {SILENT}",
    )
    assert alerts(world) == {
        "uplink.backup": f"default traffic goes over usb0 (metered): bond0 has {SILENT}"
    }


def test_dead_spare_is_degraded() -> None:
    """A spare that is known dead is told before it is needed."""
    world = told(BOND, replace(USB, verdict="dead", reason="usb0 is gone"))

    assert world.state.network is Network.DEGRADED
    assert alerts(world) == {"uplink.dead": "uplink usb0 is gone; no spare for bond0"}


def test_dead_spare_beside_another_is_told_with_the_one_that_is_left() -> None:
    """`No spare` would be a false alarm where a third uplink answers."""
    world = told(BOND, replace(USB, verdict="dead", reason=SILENT), UplinkView("wwan0", "alive"))

    assert alerts(world) == {"uplink.dead": f"uplink usb0 has {SILENT}; wwan0 is left as a spare"}


@pytest.mark.parametrize(
    ("spare", "rest"), [("alive", "usb0 (metered) answers"), ("dead", "no other uplink answers")]
)
def test_dead_uplink_in_use_says_that_traffic_is_lost(spare: str, rest: str) -> None:
    """`It carries` would read as if all were well."""
    world = told(DEAD, replace(USB, verdict=spare, reason="" if spare == "alive" else SILENT))
    [text] = [a.text for a in world.state.alerts if (a.type, a.subject) == ("uplink.dead", "bond0")]

    assert (
        text == f"uplink bond0 has {SILENT}; default traffic still goes there and is lost; {rest}"
    )


def test_dead_uplink_in_use_is_a_network_that_is_down() -> None:
    """Links that are fine do not help when nobody answers over the uplink in use."""
    world = told(DEAD, replace(USB, verdict="dead", reason=SILENT))

    assert world.state.network is Network.DOWN
    assert world.state.cause == (f"bond0 has {SILENT}", f"usb0 has {SILENT}")
    assert world.advice.uploads.value == "hold"


@pytest.mark.parametrize("verdict", ["unknown", "alive"])
def test_unknown_is_neither_down_nor_degraded(verdict: str) -> None:
    """An uplink that cannot be judged changes no verdict, but a person is told."""
    world = told(
        BOND, replace(USB, verdict=verdict, reason="rp_filter 1 on usb0" * (verdict != "alive"))
    )

    assert world.state.network is Network.OK
    assert ("uplink.unknown" in alerts(world)) is (verdict == "unknown")


def test_wish_lock_and_problem_are_alerted() -> None:
    """What the agent would do, why it stays and what it cannot do are alerts."""
    world = told(DEAD, USB, would="usb0", locked="12 switches within an hour", problem="no route")

    found = alerts(world)
    assert {"uplink.would_switch", "uplink.locked", "uplink.unmanaged"} <= found.keys()
    assert "mode enforce" in found["uplink.would_switch"]


def test_events_of_a_story_are_in_the_catalogue() -> None:
    """Everything that a long story tells passes the check of events."""
    lines, world = Lines(replace(RULES, switches_per_hour=2)), World()
    world.look(single())
    lines.run(30)
    for link, answers in (("bond0", False), ("usb0", False), ("usb0", True), ("bond0", True)):
        lines.lines[link].answers = answers
        lines.run(40)
    lines.refuses = "File exists"
    lines.change("bond0", obstacle="bond0 lost carrier")
    lines.run(4000)
    watching = Lines(replace(RULES, enforce=False))
    watching.run(30)
    watching.change("bond0", obstacle="bond0 lost carrier")
    news = tuple(happening for _, happening in (*lines.news, *watching.news))
    events = world.take(UplinksReading(lines.shown, news))

    assert {event.type for event in events if event.type.startswith("uplink")} == {
        "uplink.alive",
        "uplink.dead",
        "uplink.switched",
        "uplink.switch_failed",
        "uplink.would_switch",
        "uplink.locked",
    }


def test_state_survives_a_restart() -> None:
    """The document gives the same uplinks back, and one without them gives none."""
    world = told(BOND, replace(USB, active=False, rtt_ms=38.5, since_ns=7), locked="x")
    document = world.document()
    assert parse_node_state(document).uplinks == world.state.uplinks

    del document["detail"]["uplinks"]
    assert parse_node_state(document).uplinks == Uplinks()


def test_news_become_events_of_the_node() -> None:
    """A switch is told as the machine told it."""
    world = World()
    world.look(bonded())
    data = {"previous": "bond0", "active": "usb0", "reason": SILENT}
    news = (Happening("uplink.switch_failed", "usb0", data),)
    events = world.take(UplinksReading(Uplinks((BOND, USB)), news))

    assert [(event.type, event.subject) for event in events] == [("uplink.switch_failed", "usb0")]


def test_sight_shows_obstacles_and_the_host_s_own_choice() -> None:
    """Absence, lost carrier and no default route are obstacles; the least metric is natural."""
    host = HostNetwork(
        {1: nic(1, name="bond0"), 2: nic(2, name="usb0"), 3: nic(3, up=False, name="wwan0")},
        frozenset(),
        frozenset(
            {
                DefaultRoute("inet", 1, "10.0.0.1", 300),
                DefaultRoute("inet6", 1, "fe80::1", 300),
                DefaultRoute("inet", 3, "10.9.0.1", 700),
                DefaultRoute("inet", 2, "10.8.0.1", 100, 156),
            }
        ),
    )
    names = ("bond0", "usb0", "wwan0", "eth9")
    rules = replace(RULES, lines=tuple(replace(RULES.lines[0], link=name) for name in names))
    found = sights(rules, host, placed="usb0", strict={"bond0"})

    assert (found.natural, found.placed) == ("bond0", "usb0")
    assert found.lines["bond0"].gateways == ("10.0.0.1", "fe80::1")
    assert found.lines["bond0"].strict
    assert [found.lines[name].obstacle for name in names] == [
        "",
        "usb0 has no default route",
        "wwan0 lost carrier",
        "eth9 is gone",
    ]
    assert Settings().uplinks == ()
