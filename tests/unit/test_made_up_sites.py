"""A node that makes up sites for itself leaves room for all others, at the relay and in `top`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.fleet_view import picture as of_top
from linkhold.model import Moment
from linkhold.relay.decide import picture as of_relay
from linkhold.relay.decide.brief import MOST_ALERTS
from linkhold.relay.decide.values import Cleared, Heard, Status
from linkhold.roster import MOST_IN_FULL, MOST_NODES, MOST_SITES, MOST_TOLD, Roster
from unit.test_relay_picture import REPORT, alert

if TYPE_CHECKING:
    from linkhold.relay.decide.values import Birth, Happened, Report

NOW = Moment(10**9, 1_800_000_000.0)
MANY = MOST_SITES + 100


def enter(roster: Roster, name: str, most: int) -> int:
    """Let up to ``most`` nodes of a name enter; return how many found room."""
    for count in range(most):
        if not roster.has_room(name):
            return count
        roster.enter(name)
    return most


class AtRelay:
    """A relay's picture, and what it says in its log."""

    def __init__(self) -> None:
        settings = RelaySettings(brokers=(BrokerSettings("b"),))
        self.picture = of_relay.Picture(settings, NOW)
        self.words: list[str] = []

    def say(self, site: str, node: str, body: Report | Birth | Happened | Status | Cleared) -> None:
        """Let a node say something."""
        told = self.picture.take(Heard("b", (site, node), retained=True, body=body), NOW)
        self.words += filter(None, [told.words])


def test_the_relay_takes_a_name_in_so_many_sites() -> None:
    """Beyond that it is counted, told once and ignored; one that is cleared makes room."""
    at_relay = AtRelay()
    relay, say = at_relay.picture, at_relay.say

    for number in range(MANY):
        say(f"made-up-{number}", "bad", Status(online=True))
    assert len(relay.nodes) == MOST_SITES
    say("lab", "good", Status(online=True))
    assert ("lab", "good") in relay.nodes
    assert relay.counters["nodes_ignored"] == MANY - MOST_SITES
    assert len(at_relay.words) == 1
    assert at_relay.words[0].startswith(f"bad: nodes of this name are followed at {MOST_SITES} ")
    assert "take its certificate back" in at_relay.words[0]

    say("made-up-0", "bad", Cleared())
    say("lab", "bad", Status(online=True))
    assert ("lab", "bad") in relay.nodes


def test_top_takes_a_name_in_so_many_sites() -> None:
    """Beyond that it is left out, and told once; one whose word is cleared makes room."""
    fleet = of_top.Fleet()

    def say(site: str, node: str, word: bytes) -> None:
        topic = f"linkhold/v1/{site}/{node}/status"
        fleet.take(of_top.Heard("b", topic, word, retained=True, at_s=NOW.wall_s))

    for number in range(MANY):
        say(f"made-up-{number}", "bad", b"online")
    say("lab", "good", b"online")
    assert len(fleet.nodes) == MOST_SITES + 1
    assert fleet.left_out == MANY - MOST_SITES
    assert [why.partition(":")[0] for why in fleet.why] == ["bad"]

    say("made-up-0", "bad", b"")
    say("lab", "bad", b"online")
    assert ("lab", "bad") in fleet.nodes


def test_a_thousand_racks_with_the_same_names_are_all_paged_about() -> None:
    """Sites that are racks: of equal names in all of them the relay misses no fault."""
    at_relay = AtRelay()
    for rack in range(1000):
        for name in ("n1", "n2"):
            at_relay.say(f"rack{rack}", name, Status(online=True))
            at_relay.say(f"rack{rack}", name, replace(REPORT, alerts=(alert(),)))

    firing = [dict(page.labels) for page in at_relay.picture.firing]
    of_nodes = {
        (one["site"], one["node"]) for one in firing if one["alertname"] == "NodeNetworkDown"
    }
    assert len(of_nodes) == 2000
    assert at_relay.words == []


def test_many_of_one_name_are_followed_in_short() -> None:
    """Beyond some sites the worst alerts of a state are kept, and the others counted."""
    at_relay = AtRelay()
    alerts = tuple(alert(f"a.b{number}", severity="info") for number in range(63))
    full = replace(
        REPORT,
        alerts=(*alerts, alert("bond.down")),
        links=frozenset(map(str, range(512))),
        dark=frozenset(map(str, range(512))),
        lost=tuple((f"bond{number}", ("x",) * 16) for number in range(32)),
    )
    for number in range(MOST_IN_FULL + 1):
        at_relay.say(f"s{number}", "bad", Status(online=True))
        at_relay.say(f"s{number}", "bad", full)

    first = at_relay.picture.nodes["s0", "bad"].report
    last = at_relay.picture.nodes[f"s{MOST_IN_FULL}", "bad"].report
    assert first == full
    assert last is not None
    assert [one.type for one in last.alerts][:2] == ["bond.down", "a.b0"]
    assert at_relay.picture.counters["alerts_left_out"] == 64 - MOST_ALERTS
    sizes = [len(last.alerts), len(last.links), len(last.dark), len(last.lost)]
    assert sizes == [8, 64, 64, 8]
    assert {len(members) for _, members in last.lost} == {8}


def test_top_keeps_small_states_of_many_of_one_name() -> None:
    """One node that is a thousand does not fill the memory with states of a megabyte."""
    fleet = of_top.Fleet()
    for number in range(MOST_IN_FULL + 1):
        for leaf, payload in (("status", b"online"), ("state", b"{" * (of_top.MOST_OF_MANY + 1))):
            topic = f"linkhold/v1/s{number}/bad/{leaf}"
            fleet.take(of_top.Heard("b", topic, payload, retained=True, at_s=NOW.wall_s))

    assert "65537 bytes" in fleet.nodes[f"s{MOST_IN_FULL}", "bad"].problem
    assert "65537 bytes" not in fleet.nodes["s0", "bad"].problem


def test_one_name_takes_a_twentieth() -> None:
    """A node that makes up sites leaves 19 of 20 places; beside it a thousand racks fit.

    They have the same eighteen names.
    """
    roster = Roster()
    assert enter(roster, "bad", 10**6) == MOST_SITES <= MOST_NODES // 19
    assert sum(enter(roster, f"n{number % 18}", 1) for number in range(18_000)) == 18_000
    assert sum(enter(roster, f"m{number}", 1) for number in range(10**5)) == (
        MOST_NODES - MOST_SITES - 18_000
    )


def test_what_has_no_room_is_told_once_for_each_name() -> None:
    """And of some names only; when nobody finds room any more it is told once, for all."""
    roster = Roster("bad" for _ in range(MOST_SITES))
    assert [bool(roster.refused(f"n{number % 100}")) for number in range(1000)] == (
        [True] * MOST_TOLD + [False] * (1000 - MOST_TOLD)
    )
    full = Roster(str(number) for number in range(MOST_NODES))
    assert "20000 nodes are followed and no more, so a and others are not" in full.refused("a")
    assert full.refused("b") == ""


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
