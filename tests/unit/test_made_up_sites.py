"""A node that makes up sites for itself leaves room for all others, at the relay and in `top`."""

from __future__ import annotations

from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.fleet_view import picture as of_top
from linkhold.model import Moment
from linkhold.relay.decide import picture as of_relay
from linkhold.relay.decide.values import Cleared, Heard, Status

NOW = Moment(10**9, 1_800_000_000.0)


def test_the_relay_takes_a_name_in_so_many_sites() -> None:
    """Beyond that it is counted and ignored; one whose word is cleared makes room."""
    relay = of_relay.Picture(RelaySettings(brokers=(BrokerSettings("b"),)), NOW)

    def say(site: str, node: str, body: Status | Cleared) -> None:
        relay.take(Heard("b", (site, node), retained=True, body=body), NOW)

    for number in range(500):
        say(f"made-up-{number}", "bad", Status(online=True))
    assert len(relay.nodes) == of_relay.MOST_SITES
    say("lab", "good", Status(online=True))
    assert ("lab", "good") in relay.nodes
    assert relay.counters["nodes_ignored"] == 500 - of_relay.MOST_SITES

    say("made-up-0", "bad", Cleared())
    say("lab", "bad", Status(online=True))
    assert ("lab", "bad") in relay.nodes


def test_top_takes_a_name_in_so_many_sites() -> None:
    """Beyond that it is left out; one whose word is cleared makes room."""
    fleet = of_top.Fleet()

    def say(site: str, node: str, word: bytes) -> None:
        topic = f"linkhold/v1/{site}/{node}/status"
        fleet.take(of_top.Heard("b", topic, word, retained=True, at_s=NOW.wall_s))

    for number in range(500):
        say(f"made-up-{number}", "bad", b"online")
    say("lab", "good", b"online")
    assert len(fleet.nodes) == of_top.MOST_SITES + 1
    assert fleet.left_out == 500 - of_top.MOST_SITES

    say("made-up-0", "bad", b"")
    say("lab", "bad", b"online")
    assert ("lab", "bad") in fleet.nodes
