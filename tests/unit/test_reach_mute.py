"""Gateways and resolvers that were never heard, and what an agent remembers of those that were."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide import reach_view
from linkhold.decide.reach import SECOND, Aim, Kind, Rules, Verdict, interrupted, recall, step
from linkhold.model import Network
from linkhold.model.probes import Heard
from support.probed import ALL, DNS_1, DNS_2, GATE, PATH, STORE, ProbedWorld

if TYPE_CHECKING:
    from collections.abc import Iterable

GIVEN_GATE = replace(GATE, given=True)
GIVEN_DNS = replace(DNS_1, given=True)
SECOND_GATE = Aim("gateway 2", Kind.GATEWAY, "gateway", "10.1.0.1", "eth1", given=True)
ASKLESS = Aim("way out ppp0", Kind.GATEWAY, "", "", "ppp0", given=True)


def silent(world: ProbedWorld, *aims: Aim) -> ProbedWorld:
    """Return a world in which these say nothing, a minute later."""
    world.heard.update({aim.name: Heard.SILENT for aim in aims})
    world.run(60)
    return world


def judged(world: ProbedWorld, network: Network = Network.OK) -> Network:
    """Return what the causes make of a network whose links are fine."""
    return reach_view.judge(world.last.causes, network, ())[0]


def test_a_gateway_that_was_never_heard_is_no_network_that_is_down() -> None:
    """Nobody knows whether it works: unknown, with a cause that says so, and one alert."""
    world = silent(ProbedWorld((GIVEN_GATE,)), GIVEN_GATE)
    (cause,) = world.last.causes

    assert world.verdict(GIVEN_GATE) is Verdict.MUTE
    assert (cause.never, cause.partial, cause.first_hop) == (True, False, True)
    assert cause.text.startswith("gateway does not answer, and never has since the start (")
    assert judged(world) is judged(world, Network.DEGRADED) is Network.UNKNOWN
    assert [one.type for one in reach_view.conditions(world.last.causes, Network.UNKNOWN)] == [
        "path.path_dead"
    ]


def test_a_gateway_that_answered_before_is() -> None:
    """Silence of a gateway that was heard once is a death, and one answer more ends the doubt."""
    world = ProbedWorld((GIVEN_GATE,))
    world.run(20)
    silent(world, GIVEN_GATE)
    assert (world.verdict(GIVEN_GATE), judged(world)) == (Verdict.DEAD, Network.DOWN)
    assert ("never", world.last.causes[0].never) == ("never", False)

    late = silent(ProbedWorld((GIVEN_GATE,)), GIVEN_GATE)
    late.heard["gateway"] = Heard.ANSWERS
    late.run(12)
    assert (late.verdict(GIVEN_GATE), late.last.causes, judged(late)) == (
        Verdict.ALIVE,
        (),
        Network.OK,
    )


def test_a_mute_gateway_is_asked_rarely() -> None:
    """What may never answer is not asked every second for minutes."""
    world = silent(ProbedWorld((GIVEN_GATE,)), GIVEN_GATE)
    world.run(100)

    assert world.count(GIVEN_GATE, 60) <= 12


@pytest.mark.parametrize(
    ("other", "heard", "wanted"),
    [
        (SECOND_GATE, Heard.ANSWERS, Network.DEGRADED),  # another way out answers
        (PATH, Heard.ANSWERS, Network.DEGRADED),  # something beyond answers
        (ASKLESS, Heard.SILENT, Network.DEGRADED),  # another way out that nobody can ask about
        (SECOND_GATE, Heard.UNKNOWN, Network.DEGRADED),  # it cannot be asked
        (GIVEN_DNS, Heard.ANSWERS, Network.UNKNOWN),  # a resolver may be on this machine
        (SECOND_GATE, Heard.SILENT, Network.UNKNOWN),
    ],
)
def test_what_shows_a_way_beside_a_mute_gateway(other: Aim, heard: Heard, wanted: Network) -> None:
    """An answer from elsewhere makes it degraded: there is a way; without one it is unknown."""
    world = ProbedWorld((GIVEN_GATE, other))
    world.heard[other.name] = heard

    assert judged(silent(world, GIVEN_GATE)) is wanted


def test_a_dead_gateway_beside_one_that_nobody_can_ask() -> None:
    """A way out that carries and has no gateway may still work: degraded, not down."""
    world = ProbedWorld((GIVEN_GATE, ASKLESS))
    world.run(20)

    assert judged(silent(world, GIVEN_GATE)) is Network.DEGRADED
    assert world.count(ASKLESS, 0) == 0
    assert world.last.due_ns is not None
    only = ProbedWorld((ASKLESS,))
    only.run(20)
    assert (only.last.due_ns, judged(only)) == (None, Network.OK)


def test_a_target_of_the_owner_that_never_answered_is_dead() -> None:
    """The owner says that it must answer: there is no doubt what was meant."""
    world = silent(ProbedWorld((STORE,)), STORE)

    assert world.verdict(STORE) is Verdict.DEAD
    assert "nfs cannot be reached, and never has since the start" in world.last.causes[0].text


def test_a_mute_resolver_waits_for_the_gateway() -> None:
    """Behind a gateway that was not heard yet it is not blamed; behind a mute one it follows."""
    world = ProbedWorld((GIVEN_GATE, GIVEN_DNS))
    world.heard.update({GATE.name: Heard.UNKNOWN, DNS_1.name: Heard.SILENT})
    first = ProbedWorld((GIVEN_GATE, GIVEN_DNS), deaf=(GATE.name,))
    first.heard[DNS_1.name] = Heard.SILENT
    first.run(10)
    assert (first.verdict(GIVEN_DNS), first.last.causes) == (Verdict.MUTE, ())

    silent(world, GIVEN_GATE)
    assert [(one.subject, one.because) for one in world.last.causes] == [
        ("gateway", ""),
        ("resolver 1", "gateway"),
    ]
    world.heard["gateway"] = Heard.ANSWERS
    world.run(20)
    assert [(one.subject, one.because, one.never) for one in world.last.causes] == [
        ("resolver 1", "", True)
    ]
    assert judged(world) is Network.DEGRADED


def test_a_link_that_comes_back_does_not_make_its_gateway_new() -> None:
    """While its link is down a gateway is no aim; its later silence is a death all the same."""
    world = ProbedWorld((GIVEN_GATE,))
    world.run(20)
    world.aims = ()
    world.run(20)
    world.aims = (GIVEN_GATE,)

    assert judged(silent(world, GIVEN_GATE)) is Network.DOWN


def test_an_aim_that_is_gone_is_not_called_alive() -> None:
    """What is asked no longer is unknown; only an answer makes it alive."""
    world = ProbedWorld((GIVEN_GATE, STORE))
    world.run(20)
    dead = silent(world, STORE).last
    world.heard["nfs"] = Heard.ANSWERS
    world.run(30)
    alive = reach_view.compare(dead.causes, world.last.causes, world.last.probed, world.now_ns)
    gone = reach_view.compare(dead.causes, (), (), world.now_ns)

    assert [(one.type, one.subject) for one in alive] == [("path.alive", "nfs")]
    assert [(one.type, one.subject) for one in gone] == [("path.unknown", "nfs")]


def test_a_restart_forgets_nothing() -> None:
    """The memory of before goes on: the dead are dead from the first step, the heard were heard."""
    world = ProbedWorld((GIVEN_GATE, GIVEN_DNS, DNS_2, STORE))
    world.heard[GIVEN_DNS.name] = Heard.SILENT
    world.run(30)
    before = silent(world, GIVEN_GATE).last
    memory = recall(before.probed, before.causes)
    after = step(world.rules, memory, world.aims, (), world.now_ns, default_route=True)

    assert after.causes == before.causes
    assert set(memory.heard) == {"gateway", "resolver 2", "nfs"}
    assert after.ask == world.aims

    world.route = False
    world.run(1)
    lost = recall(world.last.probed, world.last.causes)
    assert (lost.had_route, lost.route_lost_ns) == (True, world.last.causes[0].since_ns)


def test_probes_that_were_ended_are_put_again() -> None:
    """After a new configuration nobody waits for answers that cannot come."""
    world = ProbedWorld((PATH,))
    first = step(Rules(), world.memory, (PATH,), (), world.now_ns, default_route=True)
    assert first.memory.lines["web"].waiting
    later_ns = world.now_ns + 11 * SECOND
    again = step(Rules(), interrupted(first.memory), (PATH,), (), later_ns, default_route=True)

    assert again.ask == (PATH,)


def test_a_doubtful_answer_is_settled_soon() -> None:
    """One answer that makes no sense from what lived is followed by a question after a second."""
    world = ProbedWorld((PATH,))
    world.run(30)
    world.heard["web"] = Heard.UNKNOWN
    world.run(11, until=lambda: world.memory.lines["web"].blind == 1)

    assert world.run(11, until=lambda: world.memory.lines["web"].blind == 2) < 1.1


HEARD = st.sampled_from(list(Heard))
SCRIPT = st.lists(st.tuples(st.floats(0.1, 20), HEARD, HEARD, HEARD, st.booleans()), max_size=8)


@given(SCRIPT)
def test_never_down_without_an_answer_before(
    script: Iterable[tuple[float, Heard, Heard, Heard, bool]],
) -> None:
    """A network is down only for a gateway that was heard; and a mute one was not."""
    world = ProbedWorld((GIVEN_GATE, SECOND_GATE, GIVEN_DNS))
    for seconds, one, two, dns, there in script:
        world.heard.update({GATE.name: one, SECOND_GATE.name: two, DNS_1.name: dns})
        world.aims = (GIVEN_GATE, SECOND_GATE, GIVEN_DNS) if there else (GIVEN_DNS,)
        world.run(seconds)
        heard = set(world.memory.heard)
        if judged(world) is Network.DOWN:
            assert heard & {GATE.name, SECOND_GATE.name}
        for probed in world.last.probed:
            assert (probed.verdict == "mute") <= (probed.name not in heard)
            assert probed.heard == (probed.name in heard)


def test_all_kinds_say_what_is_known_of_them() -> None:
    """Each aim is shown with its verdict, since when, and why it is no better."""
    world = silent(ProbedWorld(ALL), STORE)
    shown = {one.name: one for one in world.last.probed}

    assert {one.verdict for name, one in shown.items() if name != "nfs"} == {"alive"}
    assert (shown["nfs"].verdict, shown["nfs"].kind) == ("dead", "storage")
    assert shown["nfs"].reason == "192.0.2.9:2049: x"
