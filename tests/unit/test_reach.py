"""What probes say over time: who is dead, who is asked when, and what explains what."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.config.paths import DnsSettings, PathSettings, PathTarget
from linkhold.decide.reach import (
    SECOND,
    Aim,
    Heed,
    Kind,
    Line,
    Memory,
    Rules,
    Verdict,
    step,
)
from linkhold.decide.reach_aims import aims, rules
from linkhold.model import WayOut
from linkhold.model.probes import Answer, CauseKind, Heard
from support.probed import ALL, DNS_1, DNS_2, GATE, PATH, STORE, ProbedWorld

if TYPE_CHECKING:
    from collections.abc import Callable


def test_all_is_well_and_asked_rarely() -> None:
    """While all answer nobody is dead, and each is asked about every 10 s."""
    world = ProbedWorld()
    world.run(100)

    assert {world.verdict(aim) for aim in ALL} == {Verdict.ALIVE}
    assert world.causes() == []
    assert all(10 <= world.count(aim, 0) <= 12 for aim in ALL)


def test_one_miss_is_no_death_and_is_settled_soon() -> None:
    """A lost answer changes nothing; the next question comes after a second, not after ten."""
    world = ProbedWorld()
    world.run(30)
    world.heard["web"] = Heard.SILENT
    world.run(11, until=lambda: world.memory.lines["web"].misses == 1)
    world.heard["web"] = Heard.ANSWERS
    wait_s = world.run(11, until=lambda: world.memory.lines["web"].misses == 0)

    assert world.verdict(PATH) is Verdict.ALIVE
    assert wait_s < 1.1


@pytest.mark.parametrize(
    ("aim", "kind"),
    [
        (GATE, CauseKind.PATH_DEAD),
        (PATH, CauseKind.PATH_DEAD),
        (DNS_1, CauseKind.DNS_DEAD),
        (STORE, CauseKind.STORAGE_DEAD),
    ],
)
def test_death_is_found_and_ends(aim: Aim, kind: CauseKind) -> None:
    """Three misses in a row are a death of its own kind, within 13 s; two answers end it."""
    world = ProbedWorld((aim,))
    world.run(30)
    world.heard[aim.name] = Heard.SILENT
    took_s = world.run(60, until=lambda: bool(world.causes()))

    assert world.causes() == [(kind, aim.name, "", False)]
    assert took_s < 13
    assert world.last.causes[0].text.isprintable()

    world.heard[aim.name] = Heard.ANSWERS
    assert world.run(60, until=lambda: not world.causes()) < 12
    assert world.memory.lines[aim.name].good == 2


def test_gateways_are_asked_fast_in_trouble_and_not_for_ever() -> None:
    """With anything dead the gateway is asked every second, for five minutes; the dead is not."""
    world = ProbedWorld()
    world.run(30)
    world.heard["nfs"] = Heard.SILENT
    world.run(60, until=lambda: bool(world.causes()))
    at_s = (world.now_ns - world.start_ns) / SECOND
    world.run(100)

    assert 90 <= world.count(GATE, at_s) <= 115
    assert world.count(STORE, at_s) <= 12

    world.run(300)
    later_s = (world.now_ns - world.start_ns) / SECOND
    world.run(100)
    assert world.count(GATE, later_s) <= 12


@pytest.mark.parametrize(
    ("heard", "after"), [(Heard.SILENT, Verdict.DEAD), (Heard.UNKNOWN, Verdict.UNKNOWN)]
)
def test_verdict_changes_with_the_last_of_so_many(heard: Heard, after: Verdict) -> None:
    """It takes exactly ``down_after`` bad answers in a row, whatever the kind."""
    world = ProbedWorld((PATH,), Rules(down_after=4))
    world.run(30)
    world.heard["web"] = heard
    line: Callable[[], Line] = lambda: world.memory.lines["web"]  # noqa: E731
    world.run(60, until=lambda: line().misses + line().blind == 3)
    assert world.verdict(PATH) is Verdict.ALIVE
    world.run(60, until=lambda: line().misses == 4 or world.verdict(PATH) is not Verdict.ALIVE)

    assert world.verdict(PATH) is after


def test_late_answer_counts_no_more() -> None:
    """An answer that nobody waits for, or of an aim that is gone, changes nothing."""
    late = (
        Heed("web", Answer("tcp", "x", Heard.SILENT)),
        Heed("nfs", Answer("tcp", "x", Heard.SILENT)),
    )
    world = ProbedWorld((PATH,))
    world.run(25)
    again = step(world.rules, world.memory, world.aims, late, world.now_ns, default_route=True)

    assert again.memory == world.memory


def test_unknown_is_no_death_and_no_life() -> None:
    """What cannot be asked is never dead; what lived becomes unknown; what died stays dead."""
    world = ProbedWorld((PATH, STORE))
    world.heard["web"] = Heard.UNKNOWN
    world.run(60)
    assert (world.verdict(PATH), world.verdict(STORE)) == (Verdict.UNKNOWN, Verdict.ALIVE)
    assert world.causes() == []

    world.heard["nfs"] = Heard.UNKNOWN
    world.run(60)
    assert world.verdict(STORE) is Verdict.UNKNOWN
    assert world.memory.lines["nfs"].reason == "x"

    world.heard.update(web=Heard.UNREACHABLE, nfs=Heard.ANSWERS)
    world.run(60)
    world.heard["web"] = Heard.UNKNOWN
    world.run(60)
    assert (world.verdict(PATH), world.verdict(STORE)) == (Verdict.DEAD, Verdict.ALIVE)


def test_who_refuses_shows_the_way_but_is_no_storage() -> None:
    """A refusal proves the path; storage and a name that must resolve need the thing itself."""
    named = replace(DNS_1, query="a.example", strict=True)
    world = ProbedWorld((PATH, named, DNS_2, STORE))
    world.heard = dict.fromkeys(world.heard, Heard.REFUSED)
    world.run(60)

    assert world.verdict(PATH) is world.verdict(DNS_2) is Verdict.ALIVE
    assert world.causes() == [
        (CauseKind.DNS_DEAD, "resolver 1", "", True),
        (CauseKind.STORAGE_DEAD, "nfs", "", False),
    ]


def test_one_dead_gateway_explains_the_rest() -> None:
    """What lies behind the only gateway is dead because of it: one root, the rest follows."""
    world = ProbedWorld()
    world.run(30)
    world.heard = dict.fromkeys(world.heard, Heard.SILENT)
    world.run(60)

    assert [one.subject for one in world.last.causes if not one.because] == ["gateway"]
    assert {one.because for one in world.last.causes[1:]} == {"gateway"}
    assert len(world.last.causes) == len(ALL)


def test_other_gateway_alive_explains_nothing() -> None:
    """With a second gateway alive the first one's death is partial, and no excuse."""
    second = Aim("gateway 2", Kind.GATEWAY, "gateway", "10.1.0.1", "eth1")
    pinned = replace(PATH, name="pinned", link="eth0")
    world = ProbedWorld((GATE, second, PATH, pinned))
    world.heard.update(gateway=Heard.SILENT, web=Heard.SILENT, pinned=Heard.SILENT)
    world.run(60)

    assert world.causes() == [
        (CauseKind.PATH_DEAD, "gateway", "", True),
        (CauseKind.PATH_DEAD, "web", "", False),
        (CauseKind.PATH_DEAD, "pinned", "gateway", False),
    ]


def test_lost_route_is_a_cause_only_where_one_was() -> None:
    """A host that never had a default route has lost none; one that had tells it at once."""
    world = ProbedWorld((PATH,))
    world.route = False
    world.run(20)
    assert world.causes() == []

    world.route = True
    world.run(20)
    world.route, world.heard["web"] = False, Heard.UNREACHABLE
    world.run(0.001)
    assert world.causes() == [(CauseKind.DEFAULT_ROUTE_LOST, "default route", "", False)]
    world.run(30)
    assert world.causes()[1] == (CauseKind.PATH_DEAD, "web", "default route", False)

    world.route = None
    world.run(5)
    assert world.causes()[0][0] is CauseKind.DEFAULT_ROUTE_LOST
    world.route, world.heard["web"] = True, Heard.ANSWERS
    world.run(30)
    assert world.causes() == []


def test_lost_probe_is_asked_again() -> None:
    """An answer that never comes blocks its aim for a bounded time, and counts as unknown."""
    memory, now_ns = Memory(), 10**12
    rules_ = Rules()
    first = step(rules_, memory, (PATH,), (), now_ns, default_route=True)
    assert first.ask == (PATH,)
    assert first.due_ns is not None

    waiting = step(rules_, first.memory, (PATH,), (), first.due_ns - 1, default_route=True)
    again = step(rules_, waiting.memory, (PATH,), (), first.due_ns, default_route=True)
    assert (waiting.ask, again.ask) == ((), (PATH,))
    assert again.memory.lines["web"].reason == "a probe was lost"
    assert first.due_ns - now_ns == 16 * SECOND


def test_fleet_does_not_ask_in_step() -> None:
    """Nodes with other seeds drift apart, though all began in the same instant."""
    times = set()
    for seed in range(1, 21):
        world = ProbedWorld((GATE,), Rules(seed=seed))
        world.run(60)
        times.add(max(at for at, _ in world.asked))

    assert len(times) == 20


HEARD = st.sampled_from(list(Heard))


@given(st.lists(st.tuples(st.floats(0.1, 20), HEARD, HEARD, st.booleans()), max_size=20))
def test_rules_that_always_hold(script: list[tuple[float, Heard, Heard, bool]]) -> None:
    """Causes stand for exactly the dead; a death needs three misses; equal input, equal outcome."""
    world = ProbedWorld((GATE, STORE))
    for seconds, gate, store, route in script:
        world.heard.update(gateway=gate, nfs=store)
        world.route = route
        world.run(seconds)
        dead = {aim.name for aim in world.aims if world.verdict(aim) is Verdict.DEAD}
        told = {one.subject for one in world.last.causes} - {"default route"}
        assert told == dead
        again = step(world.rules, world.memory, world.aims, (), world.now_ns, default_route=route)
        assert again == step(
            world.rules, world.memory, world.aims, (), world.now_ns, default_route=route
        )
    if not any(
        store in (Heard.SILENT, Heard.UNREACHABLE, Heard.REFUSED) for _, _, store, _ in script
    ):
        assert world.memory.lines.get("nfs") is None or world.verdict(STORE) is not Verdict.DEAD


def test_aims_are_what_the_host_has_and_the_owner_wants() -> None:
    """Gateways of links that carry, each resolver for each name, and every target.

    Uplinks have probes of their own; a way without a gateway stands for itself.
    """
    settings = PathSettings(
        targets=(
            PathTarget("a", ping="h"),
            PathTarget("b", tcp="h:1", link="eth1"),
            PathTarget("c", http="http://h/", storage=True),
        ),
        dns=DnsSettings(("a.example",)),
        interval_ok=20,
        down_after=5,
    )
    ways = (
        WayOut("default inet", "inet", 2, "eth0", "10.0.0.1"),
        WayOut("default inet6", "inet6", 4, "ppp0", ""),
        WayOut("other", "inet", 3, "eth1", "10.1.0.1", "eth1 lost carrier"),
        WayOut("default inet", "inet", 5, "wwan0", "10.2.0.1"),
    )
    got = aims(settings, ways, ("10.0.0.2",), {"wwan0"})

    assert [(aim.name, aim.how, aim.target, aim.link, aim.strict) for aim in got] == [
        ("gateway 10.0.0.1 on eth0", "gateway", "10.0.0.1", "eth0", False),
        ("way out ppp0", "", "", "ppp0", False),
        ("resolver 10.0.0.2 for a.example", "dns", "10.0.0.2", "", True),
        ("a", "icmp", "h", "", False),
        ("b", "tcp", "h:1", "eth1", False),
        ("c", "http", "http://h/", "", True),
    ]
    (plain,) = aims(PathSettings(), (), ("10.0.0.2",))
    assert (plain.query, plain.given) == (".", True)
    assert aims(PathSettings(dns=DnsSettings(watch=False)), (), ("10.0.0.2",)) == ()
    assert (rules(settings, 7).ok_s, rules(settings, 7).down_after) == (20, 5)
