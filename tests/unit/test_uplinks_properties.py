"""What holds for uplinks whatever happens to the lines, over hours of simulated time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.decide.uplinks import LineRules, Place, Withdraw, step
from support.uplink_world import RULES, SECOND, TARGETS, Line, Lines

NAMES = ("bond0", "usb0", "wwan0")
FIVE = replace(
    RULES,
    lines=(*RULES.lines, LineRules("wwan0", (*TARGETS, "192.0.2.3"), metered=True)),
    switches_per_hour=5,
    probe_interval_s=5,
    metered_interval_s=20,
)
CHANGES: st.SearchStrategy[tuple[str, dict[str, Any]]] = st.tuples(
    st.sampled_from(NAMES),
    st.one_of(
        st.fixed_dictionaries({"answers": st.booleans()}),
        st.fixed_dictionaries({"obstacle": st.sampled_from(["", "", "no carrier"])}),
        st.fixed_dictionaries({"rtt_ms": st.sampled_from([1.0, 1500.0, 7000.0, 25000.0])}),
        st.fixed_dictionaries({"strict": st.booleans()}),
        st.fixed_dictionaries({"deaf": st.sampled_from([frozenset(), frozenset(TARGETS)])}),
    ),
)
STORIES = st.lists(st.tuples(CHANGES, st.floats(0.0, 300.0)), min_size=1, max_size=25)


class Watched(Lines):
    """Lines of which every switch is judged by the memory that it was decided on."""

    def __post_init__(self) -> None:
        self.faults: list[str] = []
        self.moves_ns: list[int] = []
        super().__post_init__()

    def take(self, reading: Any) -> None:
        """Judge what the machine asks for, then do it."""
        outcome = step(self.rules, self.memory, reading, self.now_ns)
        for action in outcome.actions:
            if isinstance(action, Place):
                line = outcome.memory.lines[action.link]
                if line.verdict != "alive" or line.misses or not line.answered_ns:
                    self.faults.append(f"{action.link} is not proven: {line}")
            if isinstance(action, (Place, Withdraw)):
                after = action.link if isinstance(action, Place) else self.natural
                self.moves_ns += [self.now_ns] * (after != self.carrying)
        super().take(reading)


def told(seed: int, story: list[Any], rules: Any = FIVE) -> Watched:
    """Return the world after a story."""
    lines = {name: Line(number) for number, name in enumerate(NAMES, 1)}
    world = Watched(replace(rules, seed=seed), lines)
    for (link, change), wait_s in story:
        world.change(link, **change)
        world.run(wait_s)
    return world


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1 << 30), STORIES)
def test_only_proven_uplinks_are_put_in_front(seed: int, story: list[Any]) -> None:
    """Routes lead to an uplink only while it is alive and its last round was answered."""
    assert told(seed, story).faults == []


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 1 << 30), STORIES)
def test_switches_are_bounded(seed: int, story: list[Any]) -> None:
    """No hour has more switches than allowed, whatever the lines do."""
    moves = told(seed, story).moves_ns

    for first, sixth in zip(moves, moves[FIVE.switches_per_hour :], strict=False):
        assert sixth - first >= 3600 * SECOND


@settings(max_examples=6, deadline=None)
@given(st.integers(1, 1 << 30), STORIES)
def test_healed_lines_end_on_the_preferred_one(seed: int, story: list[Any]) -> None:
    """Whatever happened, two hours after all lines are whole again the first one carries."""
    world = told(seed, story)
    for name in NAMES:
        whole = {"answers": True, "obstacle": "", "rtt_ms": 1.0, "strict": False}
        world.change(name, **whole, deaf=frozenset())
    world.run(2 * 3600 + 600)

    assert world.carrying == "bond0"
    assert [line.verdict for line in world.shown.lines] == ["alive"] * len(NAMES)
    assert world.shown.locked == ""


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 1 << 30), st.floats(0.0, 20.0))
def test_scattered_loss_switches_nothing(seed: int, percent: float) -> None:
    """A line that loses single rounds, never three in a row, is kept."""
    world = told(seed, [], RULES)
    line = world.lines["bond0"]
    for number in range(200):
        lost = (number * 7919 + seed) % 1000 < percent * 10
        line.answers = not (lost and number % 2)
        world.run(6 if line.answers else 1.0)

    assert world.switches == []
