"""The arithmetic of the bench ``interruptions``: its schedule, its intervals, its patience."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.interruptions import LONG_S, SHORT_S, schedule, wilson
from bench.interruptions_place import Kind
from bench.interruptions_run import RTO_MAX_S, recovered_s


@given(seed=st.integers(0, 1 << 32), half=st.integers(1, 15))
def test_the_schedule_is_fair(seed: int, half: int) -> None:
    """It depends on the seed alone; lengths are spread over their spans, kinds come by halves."""
    found = schedule(2 * half, seed)

    assert found == schedule(2 * half, seed)
    for place, (least_s, most_s) in enumerate((SHORT_S, LONG_S)):
        lengths_s = sorted(faults[place].length_s for faults in found)
        ratio = (most_s / least_s) ** (1 / (2 * half))
        for part, length_s in enumerate(lengths_s):
            low_s = least_s * ratio**part
            assert low_s - 0.06 <= length_s <= low_s * ratio + 0.06
        assert [faults[place].kind for faults in found].count(Kind.CABLE) == half


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [(0, 20, 0.0, 0.161), (20, 20, 0.839, 1.0), (10, 20, 0.299, 0.701), (2, 20, 0.028, 0.301)],
)
def test_wilson(hits: int, of: int, low: float, high: float) -> None:
    """Wilson's interval as textbooks have it: none of 20 still means up to 16 %."""
    assert wilson(hits, of) == pytest.approx((low, high), abs=0.001)


@given(st.floats(0.2, 200))
def test_every_connection_is_waited_for(outage_s: float) -> None:
    """A silent TCP connection tries again within as long again, or within the longest pause."""
    assert outage_s < recovered_s(outage_s) <= 1.1 * (2 * outage_s + 0.2 + RTO_MAX_S)
    assert recovered_s(outage_s) <= 1.1 * (outage_s + RTO_MAX_S)
