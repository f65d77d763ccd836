"""The relay between a real broker and a real Alertmanager: nothing lost, nothing twice."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

from linkhold.wire import rfc3339
from support.broker import Collector
from support.swarm import Swarm

if TYPE_CHECKING:
    from fleet.conftest import OnCall


def test_one_alert_is_one_page_and_its_end_is_told(oncall: OnCall) -> None:
    """An alert of a node's state pages once; when it closes, its end is told once."""
    broker = oncall.broker()
    oncall.relay()
    swarm = oncall.swarm(broker, "r1-a")
    node = swarm.nodes[0]
    node.alert("network.down", "network", text="no way out carries")
    swarm.send(node, "state", node.state(), retain=True)
    oncall.until(lambda: oncall.webhook.told("NodeNetworkDown"), what="a page")

    oncall.wait(7)  # a repost goes out meanwhile
    assert len(oncall.webhook.told("NodeNetworkDown")) == 1
    (alert,) = oncall.webhook.told("NodeNetworkDown")[0].alerts
    assert alert["labels"]["rack"] == "r1"
    assert "Still protects" in alert["annotations"]["description"]
    assert alert["annotations"]["next"] == "ssh r1-a linkhold diagnose"

    node.alerts.clear()
    swarm.send(node, "state", node.state(), retain=True)
    oncall.until(lambda: oncall.webhook.pages(status="resolved"), what="its end")
    assert len(oncall.webhook.pages(status="resolved")) == 1


def test_kills_lose_and_double_nothing(oncall: OnCall) -> None:
    """Relay, Alertmanager and broker are killed in turn.

    Each alert pages once, also those that begin while a part is away.
    """
    broker = oncall.broker("persistence true", "autosave_interval 1", "autosave_on_changes true")
    relay = oncall.relay()
    swarm = oncall.swarm(broker, "n1", "n2", "n3", "n4")
    first, second, third, fourth = swarm.nodes
    first.alert("network.down", "network")
    swarm.send(first, "state", first.state(), retain=True)
    oncall.until(lambda: oncall.webhook.told("NodeNetworkDown"), what="the first page")
    oncall.wait(2)  # Alertmanager writes down whom it told

    relay.kill()
    second.alert("bond.down", "bond0")
    swarm.send(second, "state", second.state(), retain=True)
    oncall.wait(1)
    relay.start()
    oncall.until(lambda: oncall.webhook.told("NodeBondDown"), what="told after the relay's death")
    oncall.wait(2)

    oncall.alertmanager.kill()
    third.alert("power.low", "power")
    swarm.send(third, "state", third.state(), retain=True)
    oncall.wait(2)
    oncall.alertmanager.start()
    oncall.until(lambda: oncall.webhook.told("NodePowerLow"), what="told after Alertmanager's")
    oncall.until(lambda: len(oncall.alertmanager.active()) == 3, what="all three fire again")

    broker.kill()
    oncall.wait(1)
    broker.start()
    fourth.alert("route.default_lost", "eth0")
    swarm.connect(swarm.nodes)
    oncall.until(lambda: oncall.webhook.told("NodeRouteDefaultLost"), what="after the broker's")

    oncall.wait(6)
    pages = [name for page in oncall.webhook.pages() for name in page.names()]
    assert sorted(pages) == [
        "NodeBondDown n2",
        "NodeNetworkDown n1",
        "NodePowerLow n3",
        "NodeRouteDefaultLost n4",
    ]


def test_a_dark_rack_is_one_page(oncall: OnCall) -> None:
    """Six of six nodes of a rack vanish: RackDark pages, no NodeOffline does.

    One node that vanishes elsewhere pages for itself, and one that was stopped on purpose does
    not.
    """
    oncall.alertmanager.wait_for_groups(3)  # as shipped, longer than what is told first waits
    broker = oncall.broker()
    oncall.relay()
    rack = oncall.swarm(broker, *(f"r1-{number}" for number in range(6)))
    others = oncall.swarm(broker, *(f"n{number}" for number in range(14)))
    oncall.wait(1)
    rack.cut(rack.nodes)
    planned = others.nodes[1]
    others.send(planned, "birth", planned.birth("reboot for a kernel"), retain=True)
    others.send(planned, "status", b"offline", retain=True)
    others.cut(others.nodes[:1])
    oncall.until(lambda: oncall.webhook.told("RackDark"), what="the rack's page")
    oncall.until(lambda: oncall.webhook.told("NodeOffline"), what="the lone node's page")
    oncall.wait(4)

    pages = [name for page in oncall.webhook.pages() for name in page.names()]
    assert sorted(set(pages)) == ["NodeOffline n0", "RackDark"]
    assert len(oncall.webhook.told("RackDark")) == 1


def test_a_node_that_was_cut_off_is_one_digest(oncall: OnCall) -> None:
    """A node that comes back tells in one digest from when to when it was cut off and why.

    A hole in the numbers of its events is asked for.
    """
    broker = oncall.broker()
    oncall.relay()
    swarm = oncall.swarm(broker, "n1", "n2", "n3")
    node = swarm.nodes[0]
    swarm.send(node, "event/agent.started", node.event("agent.started", "agent"))
    oncall.wait(1)
    swarm.cut([node])
    oncall.until(lambda: oncall.webhook.told("NodeOffline"), what="its page")
    asked = Collector(broker.port, f"{node.prefix}/cmd/#")
    cause = ["eth0 lost carrier", "eth1 lost carrier"]
    node.event("link.down", "eth0")  # this one is lost on the way
    missed: dict[str, Any] = {
        "fingerprint": "f",
        "alert": "bond.down",
        "text": "bond0 carries nothing",
    }
    late = [
        node.event("network.down", "network", cause=cause),
        node.event("alert.opened", "bond0", **missed),
        node.event("alert.closed", "bond0", **missed),
    ]
    swarm.connect([node])
    for event, type_ in zip(late, ("network.down", "alert.opened", "alert.closed"), strict=True):
        swarm.send(node, f"event/{type_}", event)
    try:
        oncall.until(lambda: oncall.webhook.told("NodeWasIsolated", "tickets"), what="a digest")
        (request,) = [json.loads(message.payload) for message in asked.messages]
    finally:
        asked.close()

    (digest,) = oncall.webhook.told("NodeWasIsolated", "tickets")[0].alerts
    assert "because eth0 lost carrier; eth1 lost carrier" in digest["annotations"]["summary"]
    assert "NodeBondDown bond0" in digest["annotations"]["description"]
    assert (request["from_seq"], request["to_seq"]) == (2, 2)


def test_two_relays_page_once_and_one_is_enough(oncall: OnCall) -> None:
    """Two relays side by side page an alert once.

    When one is killed the other goes on, and what is announced as planned work pages nobody
    until its end.
    """
    broker = oncall.broker()
    relays = [oncall.relay("relay-a"), oncall.relay("relay-b")]
    swarm = oncall.swarm(broker, "n1", "n2", "n3")
    first, second, third = swarm.nodes
    first.alert("network.down", "network")
    swarm.send(first, "state", first.state(), retain=True)
    oncall.until(lambda: oncall.webhook.told("NodeNetworkDown"), what="the first page")
    relays[0].kill()
    second.alert("network.down", "network")
    until = rfc3339(time.time() + 8)
    third.extra["maintenance"] = {"until": until, "why": "new optic", "by": "me", "id": "m1"}
    third.alert("bond.down", "bond0")
    for node in (second, third):
        swarm.send(node, "state", node.state(), retain=True)
    oncall.until(lambda: len(oncall.webhook.told("NodeNetworkDown")) == 2, what="the second")
    assert oncall.webhook.told("NodeBondDown") == []
    oncall.until(lambda: oncall.webhook.told("NodeBondDown"), what="planned work that has ended")

    told = oncall.webhook.told("NodeNetworkDown")
    assert [page.names() for page in told] == [
        ["NodeNetworkDown n1"],
        ["NodeNetworkDown n1", "NodeNetworkDown n2"],
    ]
    assert relays[1].stop() == 0


def test_who_died_with_its_broker_is_missed(oncall: OnCall) -> None:
    """A broker that kept its messages over a restart says online of a node that is gone.

    The relay finds out by a command that nobody is subscribed to; a node that is there is not
    taken for gone.
    """
    broker = oncall.broker()
    swarm = oncall.swarm(broker, "n1", "n2", "n3")
    there, gone = swarm.nodes[:2]
    listener = Collector(broker.port, *(f"{one.prefix}/cmd/replay" for one in swarm.nodes[::2]))
    oncall.relay()
    try:
        oncall.until(lambda: oncall.webhook.told("NodeOffline"), 30, what="the lone node's page")
        oncall.wait(2)
    finally:
        listener.close()
    (page,) = oncall.webhook.told("NodeOffline")
    assert page.names() == [f"NodeOffline {gone.name}"]
    assert there.name not in str(page)


def test_a_node_that_moves_to_another_broker_is_never_offline(oncall: OnCall) -> None:
    """The will of the broker that a node left, and the state it kept, say nothing any more."""
    first, second = oncall.broker(), oncall.broker()
    oncall.relay()
    left = oncall.swarm(first, "n1", "n2", "n3", "n4")
    node = left.nodes[0]
    node.alert("bond.down", "bond0")
    left.send(node, "state", node.state(), retain=True)
    oncall.until(lambda: oncall.webhook.told("NodeBondDown"), what="its page")
    node.alerts.clear()
    left.cut([node])
    left.nodes.remove(node)
    taken = Swarm(second.port, [node])
    taken.connect()
    oncall.swarms.append(taken)
    oncall.until(lambda: oncall.webhook.pages(status="resolved"), what="the end of its alert")
    oncall.wait(4)

    kept = Collector(first.port, f"{node.prefix}/status")
    try:
        oncall.until(lambda: kept.messages, what="what the first broker still says")
    finally:
        kept.close()
    assert kept.messages[0].payload == b"offline"
    assert [page.names() for page in oncall.webhook.pages()] == [["NodeBondDown n1"]]
    assert oncall.alertmanager.active() == []


def test_a_broker_that_drops_hides_nothing(oncall: OnCall) -> None:
    """A broker with small limits drops what it cannot queue, and says so to nobody.

    A relay that starts finds the alerts of all nodes nevertheless, and so does one whose
    Alertmanager was away for longer than the broker could queue.
    """
    small = ("max_inflight_messages 5", "max_queued_messages 20")
    broker = oncall.broker(*small)
    swarm = oncall.swarm(broker, *(f"n{number:02}" for number in range(60)))
    for node in swarm.nodes:
        node.alert("bond.degraded", "bond0", "warning")
        swarm.send(node, "state", node.state(), retain=True)
    oncall.wait(1)
    oncall.relay()
    oncall.until(lambda: len(oncall.alertmanager.active()) == 60, what="the alerts of all")
    oncall.wait(1.5)  # until nothing is asked for any more

    oncall.alertmanager.kill()
    for change in range(5):  # more than the relay takes before Alertmanager does
        for node in swarm.nodes:
            if change in {0, 4}:
                node.alert("network.down", f"network {change}")
            swarm.send(node, "state", node.state(), retain=True)
    oncall.wait(3)
    oncall.alertmanager.start()
    oncall.until(lambda: len(oncall.alertmanager.active()) == 180, what="the alerts meanwhile")
    assert "Outgoing messages are being dropped" in broker.log()


def test_a_cluster_tells_once_whichever_member_dies(oncall: OnCall) -> None:
    """Two relays and two Alertmanagers that know each other: one is enough, and each tells once."""
    oncall.cluster()
    broker = oncall.broker()
    for name in ("relay-a", "relay-b"):
        oncall.relay(name)
    first, second = oncall.swarm(broker, "n1", "n2").nodes
    swarm = oncall.swarms[-1]
    for node, name in ((first, "NodeNetworkDown"), (second, "NodeBondDown")):
        node.alert("network.down" if node is first else "bond.down", "x")
        swarm.send(node, "state", node.state(), retain=True)
        oncall.until(lambda name=name: oncall.webhook.told(name), what=name)  # type: ignore[misc]
        oncall.wait(4)  # longer than the second member waits for the first
        oncall.alertmanager.kill()

    assert sorted(name for page in oncall.webhook.pages() for name in page.names()) == [
        "NodeBondDown n2",
        "NodeNetworkDown n1",
    ]
