"""Which brokers are meant, and in which order the retained messages of a fleet are asked for."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from linkhold.fleet_view.brokers import find_brokers, parse_url, place_of
from linkhold.fleet_view.inbox import Inbox
from linkhold.fleet_view.line import BrokerNews
from linkhold.fleet_view.phases import BATCH, QUIET_S, Phases
from linkhold.fleet_view.picture import Heard
from linkhold.model import LinkholdError
from linkhold.roster import MOST_NODES, MOST_SITES

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("url", "place", "tls", "user"),
    [
        ("mqtt://b", "b:1883", False, ""),
        ("mqtts://b", "b:8883", True, ""),
        ("mqtts://anna@b:1", "b:1", True, "anna"),
        ("mqtt://[::1]:9", "[::1]:9", False, ""),
    ],
)
def test_urls_of_brokers(url: str, place: str, tls: bool, user: str) -> None:  # noqa: FBT001
    """Scheme, host, port and user are all that a URL can name."""
    broker = parse_url(url)

    assert (place, tls, user) == (place_of(broker), broker.tls is not None, broker.username)


@pytest.mark.parametrize(
    "url", ["b", "http://b", "mqtt://", "mqtt://b:x", "mqtt://b:99999", "mqtt://b/topic"]
)
def test_what_is_no_broker_is_said(url: str) -> None:
    """A wrong URL is named, with what is allowed."""
    with pytest.raises(LinkholdError, match="allowed: mqtt://host"):
        parse_url(url)


def test_a_password_in_a_command_is_refused_and_not_repeated() -> None:
    """Everybody sees the arguments of a process; the message does not show it once more."""
    with pytest.raises(LinkholdError, match="password_file") as caught:
        parse_url("mqtt://anna:geheim@b")

    assert "geheim" not in str(caught.value)


def test_brokers_of_a_relay_or_an_agent(tmp_path: Path) -> None:
    """Either configuration will do, and one that names no broker is said to."""
    relay, agent, empty = (tmp_path / name for name in ("relay.yaml", "agent.yaml", "empty.yaml"))
    relay.write_text("brokers: [{host: r1}, {host: r2}]\n")
    agent.write_text("mqtt: {fleet: [{host: a1, port: 7}]}\n")
    empty.write_text("")

    assert [place_of(one) for one in find_brokers([], relay)] == ["r1:1883", "r2:1883"]
    assert [place_of(one) for one in find_brokers([], agent)] == ["a1:7"]
    with pytest.raises(LinkholdError, match="names no broker; allowed: --broker"):
        find_brokers([], empty)


def test_a_broker_named_twice_is_listened_to_once() -> None:
    """Two URLs of one place are one broker."""
    assert len(find_brokers(["mqtt://b", "mqtt://b:1883"], None)) == 1


def drain(phases: Phases, nodes: int, most: int) -> tuple[set[str], list[tuple[str, ...]]]:
    """Play a broker that sends at most ``most`` retained messages of QoS 1 for a subscription."""
    now_s = 0.0
    got: set[str] = set()
    wishes: list[tuple[str, ...]] = []
    for _ in range(100):
        wish = phases.next(now_s)
        if phases.complete:
            return got, wishes
        if wish is not None:
            wishes.append(wish.topics)
            phases.subscribed(now_s)
            sent = 0
            for topic in wish.topics:
                leaf = topic.rpartition("/")[2]
                topics = [topic]
                if "+" in topic:
                    topics = [f"linkhold/v1/s/n{number}/{leaf}" for number in range(nodes)]
                for one in topics:
                    if wish.qos == 0 or sent < most:
                        sent += 1
                        phases.heard(one, now_s)
                        got.add(one)
        now_s += phases.wait_s(now_s)
    raise AssertionError("it never ends")


@pytest.mark.parametrize("nodes", [0, 1, 1000, 2500])
def test_every_state_comes_though_the_broker_drops(nodes: int) -> None:
    """A broker that drops all but 1,020 messages is asked again, by name, for the states left."""
    got, wishes = drain(Phases(0.0), nodes, 1020)

    assert nodes == sum(topic.endswith("/state") for topic in got)
    assert all(len(topics) <= BATCH for topics in wishes)


def test_made_up_sites_hide_nobody() -> None:
    """After the presence of a node that made up sites all others are asked for by name."""
    phases, now_s = Phases(0.0), 0.0
    assert phases.next(now_s) is not None
    phases.subscribed(now_s)
    for number in range(MOST_NODES):
        phases.heard(f"linkhold/v1/made-up-{number}/bad/status", now_s)
    real = {f"linkhold/v1/s/n{number}" for number in range(50)}
    for prefix in real:
        phases.heard(f"{prefix}/status", now_s)

    named: list[str] = []
    while not phases.complete:
        now_s += phases.wait_s(now_s)
        wish = phases.next(now_s)
        phases.subscribed(now_s)
        named += (topic for topic in wish.topics if "+" not in topic) if wish else ()
    assert {f"{prefix}/state" for prefix in real} <= set(named)
    assert len(named) == len(phases._known.nodes) == MOST_SITES + len(real)


def test_a_phase_waits_until_the_broker_is_quiet() -> None:
    """What is still coming is not disturbed by the next subscription."""
    phases = Phases(0.0)
    assert phases.next(0.0) is not None
    assert phases.next(5.0) is None  # not answered

    phases.subscribed(5.0)
    phases.heard("linkhold/v1/s/n/status", 5.0 + QUIET_S / 2)

    assert phases.next(5.0 + QUIET_S) is None
    assert phases.next(5.0 + 2 * QUIET_S) is not None


def test_a_flood_leaves_one_message_for_each_topic() -> None:
    """However slowly messages are taken, memory holds the newest of each topic only."""
    read, write = socket.socketpair()
    with read, write:
        inbox = _inbox(write)
        for number in range(10_000):
            topic = f"linkhold/v1/s/n{number % 3}/state"
            inbox.put(Heard("b", topic, str(number).encode(), retained=False, at_s=0.0))
        taken = inbox.take()

        assert [heard.payload for heard in taken.heard] == [b"9999", b"9997", b"9998"]
        assert inbox.take().heard == ()


def test_what_a_lost_broker_said_of_presence_is_dropped() -> None:
    """A status that waits to be taken does not outlive the connection that brought it."""
    read, write = socket.socketpair()
    with read, write:
        inbox = _inbox(write)
        inbox.put(Heard("b", "linkhold/v1/s/n/status", b"online", retained=False, at_s=0.0))
        inbox.tell(BrokerNews("b", up=False, reason="gone"))
        inbox.tell(BrokerNews("b", up=True))
        taken = inbox.take()

        assert (frozenset({"b"}), ()) == (taken.lost, taken.heard)
        assert taken.news[0].up


def _inbox(wake: socket.socket) -> Inbox:
    wake.setblocking(False)
    return Inbox(wake)
