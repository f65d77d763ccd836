"""What holds for probing whatever it is shown."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.decide.probing import (
    Activate,
    Answer,
    Counters,
    Memory,
    Moved,
    Pulse,
    Rules,
    SendProbe,
    Sights,
    step,
)
from linkhold.decide.probing.evidence import WINDOW, Record, needed
from support.probing import MS, SECOND, BondNode, sight

NAMES = ("eth0", "eth1", "eth2")
delays = st.one_of(st.integers(0, 100 * MS), st.integers(0, 5 * SECOND))
sights = st.builds(
    lambda count, active, lost, preferred, limit: sight(
        count,
        active=active if active < f"eth{count}" else "",
        preferred=preferred,
        moves_per_minute=limit,
        members=tuple(
            type(member)(member.name, member.index, up, up, member.mac, member.standby_mac)
            for member, up in zip(sight(count).members, lost, strict=False)
        ),
    ),
    st.integers(1, 3),
    st.sampled_from(["", *NAMES]),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.sampled_from(["", *NAMES]),
    st.just(3),
)
readings = st.one_of(
    sights.map(lambda bond: Sights((bond,))),
    st.builds(
        lambda name, received, sent: Pulse({"bond0": Counters(name, received, sent)}),
        st.sampled_from(NAMES),
        st.integers(0, 1000),
        st.integers(0, 1000),
    ),
    st.just(Pulse()),
    st.builds(
        Answer,
        st.just("bond0"),
        st.sampled_from(NAMES),
        st.sampled_from(["10.0.0.1", "10.0.0.9"]),
        st.just("02:00:00:00:00:01"),
        st.booleans(),
    ),
    st.builds(Moved, st.just("bond0"), st.sampled_from(NAMES), st.sampled_from(["", "no"])),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(delays, readings), max_size=120), st.booleans())
def test_any_readings_keep_the_rules(story: list[tuple[int, object]], enforce: bool) -> None:  # noqa: FBT001
    """Never more moves than the limit a minute, none in observe, never to a member without link.

    What is remembered is bounded, a wake is never in the past, and the step never fails.
    """
    memory, now_ns, moves = Memory(), 1000 * SECOND, []
    bond = sight(2)
    story = [(0, Sights((bond,))), *story]
    for delay_ns, reading in story:
        now_ns += delay_ns
        if isinstance(reading, Sights):
            bond = reading.bonds[0]
        done = step(Rules(enforce, 7), memory, reading, now_ns)  # type: ignore[arg-type]
        assert done == step(Rules(enforce, 7), memory, reading, now_ns)  # type: ignore[arg-type]
        memory = done.memory
        for at_ns in (done.wake_ns, done.look_ns):
            assert at_ns is None or at_ns >= now_ns - SECOND
        for action in done.actions:
            member = bond.member(action.member)
            assert member is not None
            assert member.carrier
            if isinstance(action, Activate):
                assert enforce
                assert member.good
                if action.reason != "carrier":
                    moves.append(now_ns)
            elif isinstance(action, SendProbe):
                assert action.standby == (action.member != bond.active)
                assert action.source_mac == (member.standby_mac if action.standby else member.mac)
        remembered = memory.bonds["bond0"]
        assert len(remembered.moves) <= 3
        assert len(remembered.trials) <= 4
        assert len(remembered.macs) <= 1
        assert set(remembered.members) == {member.name for member in bond.members}
    for at_ns in moves:
        assert sum(at_ns <= other < at_ns + 60 * SECOND for other in moves) <= 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.3, 1.0]), st.floats(0.1, 8)), min_size=1, max_size=8
    ),
    st.sampled_from([0, 5, 200]),
    st.integers(1, 1 << 30),
)
def test_a_standby_that_answers_nothing_is_never_moved_to(
    story: list[tuple[float, float]], rate: int, seed: int
) -> None:
    """Whatever the active path does, a standby that does not answer now gets nothing."""
    node = BondNode(
        rules=Rules(enforce=True, seed=seed), random=random.Random(seed), tx=rate, rx=rate
    )
    node.run(20)
    node.paths["eth1"] = 1.0
    node.run(0.2)
    for loss, seconds in story:
        node.paths["eth0"] = loss
        node.run(seconds)

    assert node.moves == []


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), st.floats(0.05, 20)), max_size=8),
    st.sampled_from([0, 5, 200]),
    st.integers(1, 1 << 30),
)
def test_a_target_dead_for_both_never_moves_the_bond(
    story: list[tuple[bool, float]], rate: int, seed: int
) -> None:
    """However often the gateway goes and comes, and whatever is sent, the bond stays."""
    node = BondNode(rules=Rules(enforce=True, seed=seed), tx=rate)
    node.run(10)
    for alive, seconds in story:
        node.gateway = lambda _now_ns, alive=alive: alive  # type: ignore[misc]
        node.rx = rate if alive else 0
        node.run(seconds)

    assert node.moves == []


@given(st.lists(st.tuples(st.sampled_from(["sent", "missed", "answered"]), st.integers(0, 9))))
def test_records_stay_bounded_and_sane(story: list[tuple[str, int]]) -> None:
    """A record's loss is a probability and its bits fit its window, whatever happens to it."""
    record, now_ns = Record(), 1000 * SECOND
    for what, seconds in story:
        now_ns += seconds * SECOND
        record = record.missed() if what == "missed" else getattr(record, what)(now_ns)
        assert 0 < record.loss < 1
        assert record.count <= WINDOW
        assert record.pending <= WINDOW
        assert record.outcomes.bit_length() <= WINDOW
        assert needed(record.loss, 1e-5) >= 3
