"""Each fault by itself: the state, the place and the words that must come out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from linkhold.decide.diagnosis import judged, rows
from linkhold.model.diagnosis import Mark, Missing, Place, State, Sure
from linkhold.model.diagnosis_facts import (
    Card,
    ClockFacts,
    Drop,
    Facts,
    FirewallFacts,
    SessionFacts,
)
from linkhold.model.probes import Answer, Heard
from support.diagnosis import (
    ETH0,
    GATEWAY,
    facts,
    gateway,
    look,
    network,
)
from support.diagnosis_faults import DARK, FAULTS, OFF, SILENT, mtu, target


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_comes_out_with_its_place(name: str) -> None:
    """State, place and sentence of the verdict, with three commands at the most."""
    seen, state, place, words = FAULTS[name]
    verdict = judged(seen).verdict

    assert (verdict.state, verdict.place) == (state, place), verdict.sentence
    assert words in verdict.sentence
    assert 1 <= len(verdict.next) <= 3
    assert not verdict.sentence.endswith(".")


def test_a_healthy_host_is_healthy() -> None:
    """No rule fires, old errors are a note, and the exit code is 0."""
    found = judged(facts())

    assert (found.verdict.state, found.verdict.place) == (State.HEALTHY, Place.NOTHING)
    assert found.verdict.sure is Sure.CERTAIN
    assert found.also == ()
    assert found.verdict.state.exit_code == 0
    assert not [row for row in rows(facts()) if row.mark is Mark.BAD]


def test_a_step_that_saw_nothing_makes_healthy_less_sure() -> None:
    """What is missing is named in the sentence."""
    found = judged(facts(missing=(Missing("firewall", "run as root"),)))

    assert found.verdict.sure is Sure.LIKELY
    assert "not seen: firewall" in found.verdict.sentence


def test_a_gateway_that_resolves_names_is_alive() -> None:
    """Without root its ARP cannot be asked; its answer as resolver says the same."""
    told = Answer("dns", GATEWAY, Heard.ANSWERS, 1.0)
    seen = facts(gateways=(gateway(Heard.UNKNOWN),), dns=(told,))

    assert judged(seen).verdict.state is State.HEALTHY


def test_a_target_that_could_not_be_asked_is_named() -> None:
    """Healthy is then not certain, and the sentence says which one nothing is known of."""
    found = judged(facts(targets=(target(Heard.UNKNOWN),)))

    assert (found.verdict.state, found.verdict.sure) == (State.HEALTHY, Sure.LIKELY)
    assert f"not seen: {target(Heard.UNKNOWN).name}" in found.verdict.sentence


def test_a_host_without_a_way_is_not_told_of_its_resolver() -> None:
    """Without a default route no resolver is reached: the fault is told once, and it is not DNS."""
    lost = Answer("dns", "10.9.0.1", Heard.UNREACHABLE, detail="Network is unreachable")
    for seen in (look(routes=()), look(address="", routes=())):
        found = judged(facts(look=seen, gateways=(), dns=(lost,)))

        assert (found.verdict.state, found.verdict.place) == (State.DOWN, Place.HOST)
        assert Place.DNS not in {other.place for other in found.also}


@pytest.mark.parametrize(
    "seen",
    [
        Facts(),
        facts(gateways=None),
        facts(gateways=(gateway(Heard.UNKNOWN),)),
        facts(gateways=(), targets=(target(Heard.UNKNOWN),)),
    ],
)
def test_unknown_is_never_fine(seen: Facts) -> None:
    """Where no way out was seen to work, the host is not called healthy."""
    verdict = judged(seen).verdict

    assert (verdict.state, verdict.place) == (State.UNKNOWN, Place.UNKNOWN)
    assert verdict.state.exit_code == 3


@pytest.mark.parametrize(
    "seen",
    [
        facts(nics=("eth0", "eth1"), network=network(ETH0, replace(OFF, index=3, name="eth1"))),
        facts(nics=("eth0", "eth1"), network=network(ETH0, replace(DARK, index=3, name="eth1"))),
        facts(mtu=(mtu(Heard.UNREACHABLE, near=False),)),
        facts(cards=(Card("eth0", width=8, width_most=16, slot_width_most=8),)),
        facts(dns=(Answer("dns", "10.0.0.53", Heard.REFUSED, detail="NXDOMAIN for ."),)),
        facts(clock=ClockFacts(synced=False, wall_s=2e9, floor_s=1e9)),
        facts(look=look(routes=()), gateways=(), targets=(target(Heard.ANSWERS),)),
    ],
    ids=["port down", "port free", "router tells MTU", "short slot", "root", "unsynced", "fabric"],
)
def test_what_is_no_fault(seen: Facts) -> None:
    """A free port, a path MTU that routers tell, a slot that can no more: all healthy."""
    found = judged(seen)

    assert found.verdict.state is State.HEALTHY, found.verdict.sentence


def test_drops_on_the_way_in_are_a_guess() -> None:
    """Noise is dropped there all day, so it is told after what it might explain."""
    noise = FirewallFacts((Drop("inet filter input", "input", 12, 90),))
    found = judged(facts(firewall=noise, targets=(target(Heard.SILENT), target(Heard.ANSWERS))))

    assert found.verdict.place is Place.BEYOND
    assert [(one.place, one.sure) for one in found.also] == [(Place.FIREWALL, Sure.GUESS)]
    assert judged(facts(firewall=noise)).verdict.state is State.HEALTHY


def test_what_is_lower_is_told_first_and_the_rest_as_well() -> None:
    """A pulled cable explains the dead resolver; an unprotected session is told besides."""
    found = judged(
        facts(
            network=network(DARK),
            gateways=(SILENT,),
            sessions=SessionFacts(("train",), 1, 1, 1),
        )
    )

    assert found.verdict.place is Place.CABLE
    assert [other.place for other in found.also] == [Place.HOST]
