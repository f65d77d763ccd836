"""The relay at work, with a sink and receipts of the test: who is told and what is acknowledged."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.model import Moment, Unavailable
from linkhold.relay import positions
from linkhold.relay.decide import gaps
from linkhold.relay.decide.values import BrokerSeen, Heard, Status
from linkhold.relay.feed import Delivery
from linkhold.relay.run import Relay
from unit.test_relay_picture import REPORT, alert, event

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from linkhold.relay.decide.values import Labels, Page

KEY = ("lab", "n")


class FakeSink:
    """Keeps what it is sent; ``away`` takes nothing; ``held`` is what it says that it holds."""

    def __init__(self) -> None:
        self.counters: Counter[str] = Counter()
        self.away = False
        self.held: frozenset[Labels] | None = None
        self.got: list[Page] = []

    def post(self, pages: Sequence[Page], now: Moment, ends_s: float) -> None:
        """Take alerts."""
        if self.away:
            raise Unavailable("away")
        assert now.wall_s > ends_s
        self.got += pages

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
    tracks, until_s = positions.load(tmp_path)
    assert tracks == {KEY: (gaps.Track("s1", 2),)}
    assert until_s > 1e9

    (tmp_path / positions.NAME).write_bytes(b'{"schema": 1, "nodes": {"x": 4}}')
    assert positions.load(tmp_path) == ({}, 0.0)
