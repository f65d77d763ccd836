"""The pure parts of agreement: the vector, the cadence, what a rank asks for and remembers."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client import saves
from linkhold.client.agreement import asking, cadence, vector
from linkhold.client.agreement.vector import Agreed, OutOfStep, Reason, Wish
from linkhold.client.agreement.waiting import Waiting
from linkhold.client.decision import Guidance
from linkhold.client.settings import Settings
from linkhold.client.voice import Memo
from linkhold.model import CheckpointRequest, StopRequest, Uploads

S = 10**9
numbers = st.integers(0, vector.MOST - 1)
reasons = st.sampled_from(Reason)
wishes = st.builds(
    Wish,
    hold=reasons,
    checkpoint=numbers,
    checkpoint_reason=reasons,
    local_only=st.booleans(),
    blocked=st.booleans(),
    stop=numbers,
    stop_reason=reasons,
    left_ms=st.none() | numbers,
    save_ms=numbers,
    give_up=st.booleans(),
    leaving=st.booleans(),
    closing=st.booleans(),
    every=st.just(7),
    cost_us=numbers,
    step_us=numbers,
)


def reduce(*made: Wish) -> Agreed:
    """Agree as an all-reduce(MAX) over these ranks does."""
    return vector.decode([max(column) for column in zip(*map(vector.encode, made), strict=True)])


@given(wishes)
def test_one_rank_agrees_with_itself(wish: Wish) -> None:
    """Every field comes out as it went in."""
    agreed = reduce(wish)

    for field in fields(Agreed):
        assert getattr(agreed, field.name) == getattr(wish, field.name), field.name


@given(st.lists(wishes, min_size=1, max_size=8))
def test_any_all_most_and_least(made: list[Wish]) -> None:
    """Requests: any rank; ending: all ranks; save time: the longest; time left: the shortest."""
    agreed = reduce(*made)

    for name in ("local_only", "blocked", "give_up", "closing"):
        assert getattr(agreed, name) == any(getattr(wish, name) for wish in made)
    assert agreed.leaving == all(wish.leaving for wish in made)
    assert agreed.save_ms == max(wish.save_ms for wish in made)
    assert agreed.step_us == max(wish.step_us for wish in made)
    known = [wish.left_ms for wish in made if wish.left_ms is not None]
    assert agreed.left_ms == min(known, default=None)
    costs = [wish.cost_us for wish in made if wish.cost_us]
    assert agreed.cost_us == min(costs, default=0)
    assert agreed.hold == max(wish.hold for wish in made)


@given(st.lists(st.none() | st.integers(-(2**70), 2**70), min_size=1, max_size=8))
def test_ranks_at_different_steps_are_told(steps: list[int | None]) -> None:
    """The lowest and the highest step, None where all are at one; one at its end says nothing."""
    agreed = reduce(*(Wish(step=step) for step in steps))

    known = [step % vector.MOST for step in steps if step is not None]
    assert agreed.apart == ((min(known), max(known)) if len(set(known)) > 1 else None)


@given(st.lists(wishes, min_size=2, max_size=4), st.randoms())
def test_order_of_ranks_does_not_matter(made: list[Wish], dice: Any) -> None:
    """The answer is the same whoever is which rank."""
    shuffled = list(made)
    dice.shuffle(shuffled)

    assert reduce(*made) == reduce(*shuffled)


@given(st.builds(Wish, left_ms=st.integers(0, 2**80), save_ms=st.integers(0, 2**80)))
def test_elements_are_int32(wish: Wish) -> None:
    """Whatever a nonsensical deadline or clock gives fits into the tensor."""
    assert all(-(2**31) <= element < 2**31 for element in vector.encode(wish))


@pytest.mark.parametrize("position", [0, 1])
def test_other_versions_are_refused(position: int) -> None:
    """A rank with another version of the vector is named as what it is."""
    elements = vector.encode(Wish())
    elements[position] += 1

    with pytest.raises(OutOfStep, match="run different versions of linkhold"):
        vector.decode(elements)


def test_ranks_that_count_differently_are_refused() -> None:
    """All work with the same N, or the next agreement would never come."""
    with pytest.raises(OutOfStep, match="one rank agrees every 8 steps, another every 4"):
        reduce(Wish(every=4), Wish(every=8))


@given(st.text())
def test_marks(identity: str) -> None:
    """An id's mark is a number that the vector can carry, and never 0, which is none."""
    assert reduce(Wish(checkpoint=vector.mark(identity))).checkpoint == vector.mark(identity) > 0


@given(st.integers(1, 10_000), st.integers(0, 10**8), st.integers(0, 10**10))
def test_every(every: int, cost_us: int, step_us: int) -> None:
    """N is at least 1, at most doubles, takes at most 2 s, and is no larger than 0.1 % needs."""
    found = cadence.next_every(every, cost_us, step_us)

    assert 1 <= found <= max(1, every * 2)
    if found > 1:
        assert found * step_us <= 2_000_000
        assert 1000 * cost_us > (found - 1) * step_us


def test_steady_training_pays_a_thousandth() -> None:
    """0.5 ms and steps of 100 ms: every 5 steps, reached within four agreements."""
    known, now_ns = cadence.Cadence(), 0
    intervals = []
    for _ in range(6):
        began_ns = now_ns
        known = cadence.begin(known, began_ns)
        now_ns += 500_000
        cost_us = min([*known.costs_us, 500])
        known = cadence.end(known, cost_us, known.step_us, began_ns, now_ns)
        intervals.append(known.every)
        now_ns += known.every * 100_000_000

    assert intervals == [1, 2, 4, 5, 5, 5]


def test_a_pause_is_no_step() -> None:
    """After a hold the next step agrees, and the time of the hold is not taken for a step."""
    known = cadence.end(cadence.Cadence(every=8, steps_us=(100,)), 10, 100, 0, 1000)
    paused = cadence.pause(known)

    assert paused.every == 1
    assert cadence.begin(paused, 500 * S).steps_us == known.steps_us


BATTERY = CheckpointRequest("power-1", "on battery")


def ask(
    memory: asking.Memory, guidance: Guidance, now_s: float = 0.0, **settings: Any
) -> tuple[Wish, asking.Memory]:
    """Return the wish of a rank that never saved."""
    known = saves.Saves(at_ns=0)
    now_ns = int(now_s * S)
    return asking.wish(Settings(**settings), memory, known, guidance, Reason.OTHER, now_ns)


def test_asked_until_agreed_and_never_again() -> None:
    """A request stays in the wish until a checkpoint is agreed, whoever's it was."""
    guidance = Guidance(checkpoint=BATTERY)
    wish, memory = ask(asking.Memory(0), guidance)
    assert (wish.checkpoint, wish.checkpoint_reason) == (vector.mark("power-1"), Reason.BATTERY)
    memory = asking.heard(memory, Agreed(), 0)
    assert ask(memory, guidance)[0].checkpoint

    wish, memory = ask(memory, guidance)
    memory = asking.heard(memory, reduce(replace(wish, checkpoint=vector.MOST - 1)), S)
    assert memory.offers == 1
    assert not ask(memory, guidance)[0].checkpoint


def test_another_ranks_id_is_known() -> None:
    """A rank that hears of the same cause later does not ask for what was saved already."""
    memory = asking.heard(asking.Memory(0), Agreed(checkpoint=vector.mark("power-1")), S)

    assert not ask(memory, Guidance(checkpoint=BATTERY))[0].checkpoint
    assert ask(memory, Guidance(checkpoint=replace(BATTERY, id="power-2")))[0].checkpoint


def test_not_served_where_a_rank_cannot_save() -> None:
    """An agreement that is blocked serves nothing."""
    wish, memory = ask(asking.Memory(0), Guidance(checkpoint=BATTERY))
    memory = asking.heard(memory, replace(reduce(wish), blocked=True), S)

    assert (memory.offers, memory.served) == (0, ())
    held = Guidance(checkpoint=BATTERY, uploads=Uploads.HOLD)
    blocked, _ = ask(memory, held, checkpoint_to="remote")
    assert (blocked.blocked, blocked.checkpoint) == (True, 0)


@given(st.floats(1, 600), st.floats(0, 300), st.integers(2, 6))
def test_interval_on_battery(every_s: float, save_s: float, rounds: int) -> None:
    """Asked for again once the interval, and at least a save's time, has passed."""
    guidance = Guidance(checkpoint=replace(BATTERY, every_s=every_s))
    memory, now_s = asking.Memory(0), 0.0
    for number in range(rounds):
        wish, memory = ask(memory, guidance, now_s)
        assert wish.checkpoint, number
        agreed = reduce(replace(wish, save_ms=int(save_s * 1000)))
        memory = asking.heard(memory, agreed, int(now_s * S))
        pause_s = max(every_s, int(save_s * 1000) / 1000)
        assert not ask(memory, guidance, now_s + pause_s * 0.99)[0].checkpoint
        now_s += pause_s + 0.001


def test_a_schedule_waits_for_the_end_of_a_hold() -> None:
    """Ranks on hold pass a step for what an agent asks for, not because time has passed."""
    known, settings = saves.Saves(at_ns=0), Settings(checkpoint_every_s=60.0)
    for held in (False, True):
        wish, _ = asking.wish(
            settings, asking.Memory(0), known, Guidance(), Reason.NONE, 61 * S, held=held
        )
        assert bool(wish.checkpoint) is not held


def test_a_stop_asks_for_one_checkpoint() -> None:
    """The checkpoint before a stop and the request that came with it are one."""
    guidance = Guidance(
        checkpoint=replace(BATTERY, id="power-low-1"),
        stop=StopRequest("power-low-1", "low", 90 * S),
    )
    wish, memory = ask(asking.Memory(0), guidance, 30.0)
    assert (wish.stop_reason, wish.left_ms) == (Reason.LOW, 60_000)
    memory = asking.heard(memory, reduce(wish), 30 * S)

    assert not ask(memory, guidance, 31.0)[0].checkpoint


@pytest.mark.parametrize(
    ("left_ms", "save_ms", "local_only"),
    [(15_000, 10_000, False), (14_999, 10_000, True), (None, 10_000, False), (0, 0, False)],
)
def test_one_and_a_half_saves_must_fit(
    left_ms: int | None,
    save_ms: int,
    local_only: bool,  # noqa: FBT001
) -> None:
    """With less time than that a save stays local, whatever the agent guessed."""
    agreed = Agreed(stop=1, stop_reason=Reason.SPOT, left_ms=left_ms, save_ms=save_ms)
    guidance = asking.guidance_of(agreed, Guidance(), "spot", 5 * S)

    assert guidance.checkpoint is not None
    assert guidance.checkpoint.local_only is local_only
    assert guidance.stop is not None
    ends_ns = None if left_ms is None else 5 * S + left_ms * 1_000_000
    assert guidance.stop.deadline_mono_ns == ends_ns


@given(wishes)
def test_uploads_are_each_ranks_own(wish: Wish) -> None:
    """What is agreed never opens or closes a gate that depends on the own node's network."""
    for uploads in Uploads:
        own = Guidance(uploads=uploads)
        assert asking.guidance_of(reduce(wish), own, None, 0).uploads is uploads


@pytest.mark.parametrize(
    ("identity", "reason"),
    [
        ("power-low-17", Reason.LOW),
        ("power-17", Reason.BATTERY),
        ("spot-terminate-9", Reason.SPOT),
        ("rebalance-x-9", Reason.REBALANCE),
        ("operator-1", Reason.OTHER),
        (asking.PROGRAM, Reason.PROGRAM),
    ],
)
def test_reasons(identity: str, reason: Reason) -> None:
    """The ids of the agent's requests tell other nodes why, in a word."""
    assert asking.reason_of(identity) is reason
    assert asking.WORDS[reason]


def test_every_reason_has_words() -> None:
    """Whatever is agreed can be said."""
    assert set(asking.WORDS) == set(Reason)


def test_waiting_is_told_once() -> None:
    """A wait beyond 10 s has one line at its beginning and one at its end, a short one none."""
    log: list[str] = []
    now = [0.0]
    waiting = Waiting(Memo(log), lambda: now[0])
    for second in (0, 5, 11, 30):
        now[0] = second
        waiting.go_on(7, None)
    waiting.over()
    waiting.go_on(8, None)
    waiting.over()

    assert log == [
        "waiting at step 7 for other ranks to get there",
        "all ranks are there, after 30.0 s",
    ]


def test_different_steps_are_told_once() -> None:
    """A rank that left out a step makes one line, which says what every rank must do."""
    log: list[str] = []
    waiting = Waiting(Memo(log), lambda: 0.0)
    for apart in (None, (19, 20), (29, 30)):
        waiting.over(apart)

    assert len(log) == 1
    assert log[0].startswith("one rank is at step 19, another at step 20: ")
