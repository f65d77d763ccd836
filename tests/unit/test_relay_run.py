"""The relay at work, with a sink and receipts of the test: who is told and what is acknowledged."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.config.brokers import BrokerSettings
from linkhold.config.metrics import MetricsSettings
from linkhold.config.relay import RelaySettings
from linkhold.model import Moment, Unavailable
from linkhold.mqtt import CODE_NO_SUBSCRIBER
from linkhold.relay import positions
from linkhold.relay.decide import gaps
from linkhold.relay.decide.values import BrokerSeen, Heard, Known, Status
from linkhold.relay.feed import Delivery
from linkhold.relay.roll_call import RollCall
from linkhold.relay.run import Relay
from linkhold.roster import MOST_SITES
from unit.test_relay_picture import REPORT, alert, event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from linkhold.relay.decide.values import Key, Labels, Page

KEY = ("lab", "n")


class FakeSink:
    """Keeps what it is sent; ``away`` takes nothing; ``held`` is what it says that it holds."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.away = False
        self.refusal = ""
        self.held: frozenset[Labels] | None = None
        self.whole = False
        self.got: list[Page] = []

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        """Take alerts."""
        if self.away:
            raise Unavailable("away")
        assert now.wall_s > ends_s
        self.got += pages

    def repost(self, pages: Sequence[Page], now: Moment, ends_s: float, *, whole: bool) -> None:
        """Take alerts once more."""
        self.whole = whole
        self.post(pages, now, ends_s)

    def still_firing(self) -> frozenset[Labels] | None:
        """Return what it holds."""
        return self.held

    def close(self) -> None:
        """Nothing to close."""

    def names(self) -> list[str]:
        """Return the names of what came since the last call."""
        names, self.got = [page.name for page in self.got], []
        return names


class FakeReceipt:
    """Counts how often it was given."""

    def __init__(self) -> None:
        self.given = 0

    def give(self) -> None:
        """Acknowledge."""
        self.given += 1


@pytest.fixture
def sink() -> FakeSink:
    """A sink that takes everything."""
    return FakeSink()


@pytest.fixture
def relay(tmp_path: Path, sink: FakeSink) -> Iterator[Relay]:
    """A relay that is not connected to anything."""
    settings = RelaySettings(brokers=(BrokerSettings("x"),), state_dir=str(tmp_path))
    made = Relay(settings, sink)
    yield made
    for feed in made._feeds.values():
        feed.stop(1.0)


def deliver(relay: Relay, body: object, receipt: FakeReceipt | None = None) -> None:
    """Hand a message of the node over as a feed does."""
    heard = Heard("x:1883", KEY, retained=False, body=body)  # type: ignore[arg-type]
    relay._deliver(Delivery(heard, receipt))  # type: ignore[arg-type]


def test_acknowledged_is_what_the_sink_took(relay: Relay, sink: FakeSink) -> None:
    """While Alertmanager is away no message is acknowledged; then each is, once."""
    receipt = FakeReceipt()
    sink.away = True
    deliver(relay, replace(REPORT, alerts=(alert(),)), receipt)
    for _ in range(3):
        relay._post()
    assert receipt.given == 0

    sink.away = False
    relay._post()
    relay._post()
    assert (receipt.given, sink.names()) == (1, ["NodeNetworkDown"])


def test_an_alert_that_ended_while_the_sink_was_away_is_told(relay: Relay, sink: FakeSink) -> None:
    """It would arrive when it is over, of which Alertmanager tells nobody: a digest follows."""
    sink.away = True
    deliver(relay, Status(online=True))
    deliver(relay, replace(REPORT, alerts=(alert(),)))
    relay._post()
    deliver(relay, replace(REPORT, order=(1, 2, 1)))
    sink.away = False
    relay._post()
    assert sink.names() == ["NodeNetworkDown"]

    later = Moment(relay._picture.nodes[KEY].unseen_since.mono_ns + 6 * 10**9, 2e9)  # type: ignore[union-attr]
    relay._do(relay._picture.tick(later))
    relay._post()
    (digest,) = [page for page in sink.got if page.name == "NodeHadAlerts"]
    assert "NodeNetworkDown network" in dict(digest.annotations)["description"]


def test_a_blind_relay_brings_nothing_back(relay: Relay, sink: FakeSink) -> None:
    """Without a broker it keeps alive only what Alertmanager holds, and tells that it is blind."""
    deliver(relay, replace(REPORT, alerts=(alert(), alert("bond.down", "bond0"))))
    relay._do(relay._picture.tick(Moment(10**15, 2e9)))
    relay._post()
    sink.names()
    ended = [page for page in relay._picture.firing if page.name == "NodeBondDown"]
    sink.held = frozenset(page.labels for page in relay._picture.firing if page not in ended)
    relay._repost()
    blind = ["FleetBrokerDown", "FleetUnseen", "LinkholdRelayAlive"]
    assert sorted(sink.names()) == [*blind, "NodeNetworkDown"]

    relay._do(relay._picture.take(BrokerSeen("x:1883", up=True), Moment(10**15 + 1, 2e9)))
    sink.names()
    relay._repost()
    assert sorted(sink.names()) == ["LinkholdRelayAlive", "NodeBondDown", "NodeNetworkDown"]


def test_a_sink_that_forgot_everything_is_told_everything(relay: Relay, sink: FakeSink) -> None:
    """Alertmanager began anew when it does not hold the relay's life sign either."""
    deliver(relay, replace(REPORT, alerts=(alert(),)))
    relay._do(relay._picture.tick(Moment(10**15, 2e9)))
    relay._post()
    sink.names()
    sink.held = frozenset()
    relay._repost()
    assert "NodeNetworkDown" in sink.names()
    assert not sink.whole  # a broker is not there: what it would show is unknown


def test_what_was_dropped_is_asked_for_when_alerts_are_taken_again(
    relay: Relay, sink: FakeSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While alerts wait a broker queues, and drops what is too much: it is asked once more."""
    asked: list[str] = []
    for feed in relay._feeds.values():
        monkeypatch.setattr(feed, "refresh", lambda: asked.append("all"))
    sink.away = True
    deliver(relay, replace(REPORT, alerts=(alert(),)))
    for _ in range(2):
        relay._post()
    relay._post_at = 0.0
    sink.away = False
    relay._step()
    assert asked == ["all"]
    relay._step()
    assert asked == ["all"]


def test_absent_is_who_hears_no_command_where_others_do() -> None:
    """An answer that nobody is subscribed says nothing until one node, on any broker, was there.

    Who has said something meanwhile is not absent.
    """
    heard = threading.Event()
    first, second = RollCall(heard), RollCall(heard)
    for mid, name in enumerate(("gone", "back")):
        first.asked(mid, ("lab", name))
        first.answered(mid, CODE_NO_SUBSCRIBER)
    first.answered(7, 0)  # of another publication
    assert first.absent() == []

    first.spoke(("lab", "back"))
    second.asked(1, None)
    second.answered(1, 0)
    second.asked(2, ("lab", "there"))
    second.answered(2, 0)
    assert (second.present(), second.present()) == ([("lab", "there")], [])
    assert first.absent() == [("lab", "gone")]
    assert first.absent() == second.absent() == []


def test_commands_are_tried_on_nodes_that_are_there(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a broker's word on a node counts, a node that is there for sure is asked."""
    (feed,) = relay._feeds.values()
    sent: list[tuple[Key, bool]] = []
    monkeypatch.setattr(feed, "check", lambda key, learn=False: sent.append((key, learn)))
    deliver(relay, Status(online=True))
    claimed = ("lab", "claimed")
    told = Heard("x:1883", claimed, retained=True, body=Status(online=True))
    relay._deliver(Delivery(told))
    relay._checks = [("x:1883", claimed)]
    relay._check()
    assert sent == [(KEY, True), (claimed, False)]


def test_a_metrics_file_that_cannot_be_written_is_said_once(
    tmp_path: Path, sink: FakeSink, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why metrics are missing, and when they are back; not every five seconds."""
    folder = tmp_path / "metrics"
    metrics = MetricsSettings(textfile=str(folder / "relay.prom"))
    settings = RelaySettings(
        brokers=(BrokerSettings("x"),), state_dir=str(tmp_path), metrics=metrics
    )
    relay = Relay(settings, sink)
    for _ in range(3):
        relay._show()
    folder.mkdir()
    relay._show()
    for feed in relay._feeds.values():
        feed.stop(1.0)

    told = [record.getMessage() for record in caplog.records]
    assert told == [f"{folder}/relay.prom: No such file or directory", "metrics are shown again"]


def test_a_name_without_room_is_logged_once(relay: Relay, caplog: pytest.LogCaptureFixture) -> None:
    """The log says that nodes of a name are not followed, and what to do; a counter the rest."""
    for number in range(MOST_SITES + 3):
        heard = Heard("x:1883", (f"s{number}", "n1"), retained=True, body=Status(online=True))
        relay._deliver(Delivery(heard))

    told = [one.getMessage() for one in caplog.records]
    assert len([one for one in told if "give nodes names of their own" in one]) == 1
    assert relay._picture.counters["nodes_ignored"] == 3


def test_what_is_damaged_is_counted_and_acknowledged(relay: Relay) -> None:
    """A message that is none must not come again for ever."""
    receipt = FakeReceipt()
    relay._deliver(Delivery(None, receipt, "no JSON"))  # type: ignore[arg-type]
    relay._post()
    assert (receipt.given, relay._counters["messages_damaged"]) == (1, 1)


def test_the_position_outlives_the_relay(relay: Relay, tmp_path: Path) -> None:
    """The next relay knows how far the events of each node were known, without the holes."""
    for number in (1, 2, 5):
        deliver(relay, event(number, "link.up", 0))
    relay._save()
    known = positions.load(tmp_path)
    assert known.tracks == {KEY: (gaps.Track("s1", 2),)}
    assert known.dealt_until_s > 1e9

    (tmp_path / positions.NAME).write_bytes(b'{"schema": 1, "nodes": {"x": 4}}')
    assert positions.load(tmp_path) == Known()
