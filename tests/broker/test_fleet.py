"""Leg B against a real mosquitto: presence, state, events, replay and planned stops."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from linkhold.decide.readings import ParkedReading, ReplayReading
from linkhold.store.outbox import Status, Stored
from linkhold.wire import CONTENT_TYPE
from support.broker import Broker, Collector, wait_until
from support.fleet import PREFIX, Node, seqs
from support.outbox import entries, entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ALL = "linkhold/#"


def test_a_connection_announces_itself_then_sends_state_and_events(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Birth and status, the newest state, then the outbox in order, as CloudEvents."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port, previous=("s0", 41))
    node.keeper.record(entries(1, 50), b"")
    node.state(1)
    node.state(2)
    node.start()
    wait_until(lambda: len(seqs(heard)) >= 50, 10, "50 events")

    topics = [message.topic.removeprefix(f"{PREFIX}/") for message in heard.messages]
    assert topics[:3] == ["birth", "status", "state"]
    assert seqs(heard) == [*range(1, 51)]
    birth = json.loads(heard.on("/birth")[0].payload)
    assert (birth["previous_session"], birth["previous_seq"]) == ("s0", 41)
    assert (birth["next_seq"], birth["planned_stop"]) == (3, None)
    assert [m.payload for m in heard.on("/status")] == [b"online"]
    states = [json.loads(message.payload)["data"]["epoch"] for message in heard.on("/state")]
    assert states == [2]
    event = heard.on("/event/")[0]
    assert event.topic == f"{PREFIX}/event/link.down"
    assert event.content_type == CONTENT_TYPE
    assert event.user == {"schema": "1", "severity": "warning"}
    wait_until(lambda: node.count("delivered") == 50, 5, "all are answered")


def test_status_birth_and_state_are_retained_and_events_are_not(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Who subscribes later rebuilds the picture, and takes no old event for a new one."""
    broker = brokers().start()
    node = nodes(broker.port).start()
    node.state(7)
    node.keeper.record(entries(1, 3), b"")
    wait_until(lambda: node.count("no_subscriber") == 3, 5, "3 events nobody hears")

    late = collect(broker.port, ALL)
    wait_until(lambda: len(late.messages) == 3, 3, "three retained messages")
    time.sleep(0.1)
    assert sorted(m.topic.rsplit("/", 1)[1] for m in late.messages) == ["birth", "state", "status"]
    assert all(message.retained for message in late.messages)


def test_events_that_nobody_heard_are_served_by_replay(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Answer 0x10 does not hold up the others; the relay that missed them asks for them."""
    broker = brokers().start()
    topic = f"{PREFIX}/cmd/replay"
    request = {"request": "gap-1", "session": "s1", "from_seq": 2, "to_seq": 4}
    asker = collect(broker.port, "x")
    old = json.dumps(request | {"request": "old"}).encode()
    asker.publish(topic, old, expiry_s=99, retain=True)
    node = nodes(broker.port).start()
    node.keeper.record(entries(1, 5), b"")
    wait_until(lambda: node.count("no_subscriber") == 5, 5, "5 events nobody hears")
    heard = collect(broker.port, f"{PREFIX}/event/#")
    heard.publish(topic, b"\xff garbage", expiry_s=30)
    heard.publish(topic, json.dumps(request | {"request": "no-expiry"}).encode())
    heard.publish(topic, json.dumps(request).encode(), expiry_s=30)
    since = {"request": "all", "since": "2023-11-14T00:00:00Z", "limit": 2}
    heard.publish(topic, json.dumps(since).encode(), expiry_s=30)
    wait_until(lambda: len(node.reports.of(ReplayReading)) == 2, 5, "both replays are reported")

    wait_until(lambda: len(heard.messages) == 5, 5, "both replays arrived")
    assert seqs(heard) == [2, 3, 4, 1, 2]
    assert [m.user["replay"] for m in heard.messages] == ["gap-1"] * 3 + ["all"] * 2
    first, last = "boot-s1-2", "boot-s1-4"
    assert node.reports.of(ReplayReading)[0] == ReplayReading("gap-1", 3, 0, first, last)
    assert node.count("requests_ignored") == 3


def test_a_planned_stop_is_announced_and_what_waits_is_sent(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Birth says planned, status offline, the last events arrive, and no will is published."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port).start()
    node.wait_for("up")
    node.keeper.record(entries(1, 60), b"")
    began_s = time.monotonic()
    assert node.leg.stop("reboot", 5)
    took_s = time.monotonic() - began_s

    wait_until(lambda: len(seqs(heard)) >= 60, 5, "the last events")
    assert took_s < 2
    assert [m.payload for m in heard.on("/status")] == [b"online", b"offline"]
    assert json.loads(heard.on("/birth")[-1].payload)["planned_stop"] == "reboot"
    assert node.legs()[-1] == ("off", "reboot")
    answered = [row.status for row in _history(node)]
    assert answered == [Status.DELIVERED] * 60


def _history(node: Node) -> list[Stored]:
    rows: list[Stored] = []
    node.keeper.history(0, 1000, (), rows.extend)
    node.keeper.flush(5)
    wait_until(lambda: rows, 5, "the history")
    return rows


def test_a_forbidden_topic_parks_its_events_and_no_others(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
    tmp_path: Path,
) -> None:
    """Refused events wait, told once; after the ACL is mended and reloaded they arrive."""
    acl = tmp_path / "acl"
    acl.write_text(f"topic read {ALL}\ntopic write {PREFIX}/state\ntopic write {PREFIX}/status\n"
                   f"topic write {PREFIX}/birth\ntopic write {PREFIX}/event/link.up\n")  # fmt: skip
    broker = brokers(f"acl_file {acl}").start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port).start()
    up = {"event_type": "link.up"}
    node.keeper.record([entry(1), *entries(2, 3, **up), entry(4), *entries(5, 6, **up)], b"")
    wait_until(lambda: node.count("delivered") == 4, 5, "the allowed ones")
    wait_until(lambda: node.count("parked") >= 3, 5, "one was probed again")

    assert seqs(heard) == [2, 3, 5, 6]
    assert node.reports.of(ParkedReading) == [ParkedReading("boot-s1-1", "Not authorized")]
    acl.write_text(f"topic readwrite {ALL}\n")
    broker.signal(1)
    wait_until(lambda: len(seqs(heard)) >= 6, 5, "the parked ones")
    assert seqs(heard) == [2, 3, 5, 6, 1, 4]


def test_a_state_that_is_refused_is_said(
    brokers: Callable[..., Broker], nodes: Callable[..., Node], tmp_path: Path
) -> None:
    """Without the right to publish its state the leg is up, and says what is wrong."""
    acl = tmp_path / "acl"
    acl.write_text(f"topic read {ALL}\ntopic write {PREFIX}/event/#\n")
    node = nodes(brokers(f"acl_file {acl}").start().port).start()
    node.state(1)

    node.wait_for("up", "refused: Not authorized")


def test_too_large_events_and_states_do_not_end_the_connection(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """What the broker would answer with a disconnect is never sent: parked, and the next goes."""
    broker = brokers("max_packet_size 20000").start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port)
    node.keeper.record([entry(1), entry(2, text="x" * 30_000), entry(3)], b"")
    node.state(1, pad="x" * 30_000)
    node.start()
    wait_until(lambda: seqs(heard) == [1, 3], 5, "the others")

    assert node.reports.of(ParkedReading) == [ParkedReading("boot-s1-2", "Packet too large")]
    node.wait_for("up", "state larger")
    assert node.count("connects") == 1


def test_a_receive_maximum_of_one_is_obeyed(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """A broker that takes one message at a time gets all of them, in order."""
    broker = brokers("max_inflight_messages 1").start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port).start()
    node.keeper.record(entries(1, 40), b"")

    wait_until(lambda: len(seqs(heard)) == 40, 10, "all events")
    assert seqs(heard) == [*range(1, 41)]


def test_a_backlog_is_drained_at_a_bounded_rate(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """At most 200 events a second, while a new state goes at once."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port)
    node.keeper.record(entries(1, 500), b"")
    node.keeper.flush(5)
    began_s = time.monotonic()
    node.start()
    wait_until(lambda: len(seqs(heard)) >= 100, 5, "the first hundred")
    node.state(9)
    wait_until(lambda: heard.on("/state"), 0.5, "the state overtakes the backlog")
    wait_until(lambda: len(seqs(heard)) >= 500, 10, "all")

    assert 2.2 < time.monotonic() - began_s < 4.5
    assert seqs(heard) == [*range(1, 501)]


def test_only_the_newest_state_is_sent(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """A storm of states is a slot, not a queue; the last one arrives, none goes backwards."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port).start()
    node.wait_for("up")
    for epoch in range(1, 1001):
        node.state(epoch)
    wait_until(lambda: _epochs(heard)[-1:] == [1000], 5, "the last state")

    assert len(_epochs(heard)) < 500
    assert _epochs(heard) == sorted(_epochs(heard))


def _epochs(collector: Collector) -> list[int]:
    return [json.loads(message.payload)["data"]["epoch"] for message in collector.on("/state")]


def test_a_link_that_comes_up_tests_an_open_connection(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """The state is sent again: only data on the way finds out that the peer is gone."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port).start()
    node.state(1)
    wait_until(lambda: _epochs(heard) == [1], 5, "the state")
    node.leg.hurry()

    wait_until(lambda: _epochs(heard) == [1, 1], 5, "the state again")
    assert node.count("connects") == 1


def test_without_brokers_the_leg_is_off(nodes: Callable[..., Node]) -> None:
    """No broker configured: no thread, no connection, and it says so."""
    node = nodes().start()

    assert node.legs() == [("off", "no broker configured")]
    assert node.leg.stop("", 1)
