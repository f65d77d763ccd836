"""A node that makes up sites for itself leaves room for all others, at the relay and in `top`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.fleet_view import picture as of_top
from linkhold.model import Moment
from linkhold.relay.decide import picture as of_relay
from linkhold.relay.decide.values import Cleared, Heard, Status
from linkhold.roster import MOST_NODES, MOST_SITES, Roster

NOW = Moment(10**9, 1_800_000_000.0)


def test_the_relay_takes_a_name_in_so_many_sites() -> None:
    """Beyond that it is counted and ignored; one whose word is cleared makes room."""
    relay = of_relay.Picture(RelaySettings(brokers=(BrokerSettings("b"),)), NOW)

    def say(site: str, node: str, body: Status | Cleared) -> None:
        relay.take(Heard("b", (site, node), retained=True, body=body), NOW)

    for number in range(500):
        say(f"made-up-{number}", "bad", Status(online=True))
    assert len(relay.nodes) == MOST_SITES
    say("lab", "good", Status(online=True))
    assert ("lab", "good") in relay.nodes
    assert relay.counters["nodes_ignored"] == 500 - MOST_SITES

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
    assert len(fleet.nodes) == MOST_SITES + 1
    assert fleet.left_out == 500 - MOST_SITES

    say("made-up-0", "bad", b"")
    say("lab", "bad", b"online")
    assert ("lab", "bad") in fleet.nodes


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc")), max_size=300))
def test_a_roster_forgets_who_has_left(steps: list[tuple[bool, str]]) -> None:
    """Whoever comes and goes: it knows the names of those who are there, and no other."""
    roster, there = Roster(), list[str]()
    for comes, name in steps:
        if comes and roster.has_room(name):
            roster.enter(name)
            there.append(name)
        elif not comes and name in there:
            roster.leave(name)
            there.remove(name)

        assert roster.has_room(name) is (there.count(name) < MOST_SITES)
    assert set(roster._nodes_of) == set(there)


def test_a_roster_is_full_at_its_bound() -> None:
    """No name finds room beyond it, until one has left."""
    roster = Roster(str(number) for number in range(MOST_NODES))

    assert not roster.has_room("new")
    roster.leave("0")
    assert roster.has_room("new")
