"""What counts as growth, and what does not."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soak.growth import LIMITS, MEMORY, Look, Verdict, judge, settled, slope_per_hour, table

if TYPE_CHECKING:
    from collections.abc import Callable

SPAN_S = 1800


def judged(name: str, value: Callable[[float], float]) -> Verdict:
    """Return the verdict about a figure over half an hour, looked at each ten seconds."""
    (found,) = judge("x", [Look(at, {name: value(at)}) for at in range(0, SPAN_S, 10)])
    return found


@pytest.mark.parametrize("name", sorted(LIMITS))
def test_nothing_grows_where_nothing_changes(name: str) -> None:
    """A flat line is no growth, whatever it is."""
    assert judged(name, lambda _: 100).ok


def test_what_grew_in_the_warm_up_is_no_growth() -> None:
    """Caches fill in the first third."""
    found = judged("PSS", lambda at: 30_000 + 20 * min(at, SPAN_S / 3))

    assert found.ok
    assert found.rise == 0


def test_a_leak_of_memory_is_found_among_peaks() -> None:
    """20 MB an hour are told though each tenth look is a peak of 20 MB, and by what slope."""
    dice = random.Random(1)
    leak = judged("PSS", lambda at: 30_000 + at * 20_480 / 3600 + 20_000 * (dice.random() < 0.1))

    assert not leak.ok
    assert leak.slope_per_hour == pytest.approx(20_480, rel=0.2)


def test_peaks_alone_are_no_leak() -> None:
    """Memory that comes and goes has no slope."""
    dice = random.Random(2)

    assert judged("PSS", lambda _: 30_000 + 10_000 * dice.random()).ok


def test_a_kept_descriptor_is_found_and_a_passing_one_is_not() -> None:
    """The floor counts: one that stays lifts it."""
    assert judged("descriptors", lambda at: 30 + 8 * (at % 70 < 20)).ok
    kept = judged("descriptors", lambda at: 30 + 8 * (at % 70 < 20) + (at > SPAN_S * 0.6))
    assert (kept.ok, kept.rise) == (False, 1)


@given(st.integers(SPAN_S // 30, SPAN_S // 10 - 1))
def test_a_moment_between_two_lives_is_no_floor(when: int) -> None:
    """A thread that one look misses because it is just made anew is no thread more later."""
    assert judged("threads", lambda at: 4 - (at == 10 * when)).ok


@given(st.integers(SPAN_S // 3, SPAN_S * 2 // 3))
def test_a_connection_that_is_away_for_a_while_is_no_floor(since_s: int) -> None:
    """Brokers that die several times in one part of the run are no descriptor more in another."""
    away_s = SPAN_S / 3 * 0.2
    assert judged("descriptors", lambda at: 33 - (0 <= at - since_s < away_s)).ok


def test_a_database_has_a_bound() -> None:
    """It may come to its bound, also late, and never beyond."""
    assert judged("database", lambda at: min(8192, 4 * at)).ok
    assert not judged("database", lambda at: 8193 if at == 10 else 0).ok


def test_too_few_looks_are_no_verdict() -> None:
    """A run that was too short says so, in place of a good word."""
    with pytest.raises(ValueError, match="3 looks are too few"):
        settled([(0, 1), (1, 1), (2, 1)])


@given(
    st.lists(st.floats(0, 1e6), min_size=4, max_size=40),
    st.floats(-1e4, 1e4),
    st.floats(0, 1e6),
)
def test_slopes_add(values: list[float], per_hour: float, offset: float) -> None:
    """A constant changes no slope, and a line added to the figures adds its own."""
    points = [(10.0 * number, value) for number, value in enumerate(values)]
    slope = slope_per_hour(points)
    moved = [(at, value + offset + at * per_hour / 3600) for at, value in points]

    assert slope_per_hour(moved) == pytest.approx(slope + per_hour, rel=1e-6, abs=1e-3)


def test_the_table_names_what_grew() -> None:
    """Each figure is a line; the one that grew says so."""
    looks = [Look(at, {"PSS": 1000.0 * at, "threads": 5.0}) for at in range(0, SPAN_S, 10)]
    lines = table(judge("agent", looks)).splitlines()

    assert lines[1].split()[:3] == ["agent:", "PSS,", "kB"]
    assert [line.split()[-1] for line in lines[1:]] == ["GROWS", "ok"]
    assert f"{MEMORY.per_hour:g} kB/h" in lines[1]
