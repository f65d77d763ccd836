"""The numbers of a run, and its last line."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client import Hold
from linkhold.client.retry import dependency
from linkhold.client.summary import attempts_in, line
from linkhold.model.numbers import Numbers


@pytest.mark.parametrize(
    ("seconds", "attempts"),
    [(0.0, 1), (0.4, 1), (0.5, 2), (1.5, 3), (3.5, 4), (1e9, 20)],
)
def test_attempts_at_mean_pauses(seconds: float, attempts: int) -> None:
    """One at once, then after 0.5, 1, 2, 4 ... s, and never more than are allowed."""
    assert attempts_in(seconds, 1.0, 60.0, 20) == attempts


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0.1, 5), st.floats(5, 100))
def test_more_time_never_means_fewer_attempts(
    one: float, other: float, first: float, longest: float
) -> None:
    """The count grows with time, and is bounded."""
    shorter, longer = sorted((one, other))

    assert attempts_in(shorter, first, longest, 20) <= attempts_in(longer, first, longest, 20) <= 20


def test_a_run_in_numbers() -> None:
    """Holds, uploads that waited, and attempts they would have made, in simulated time."""
    hold = Hold.fake(network="down", training="hold", uploads="hold", cause="eth0 lost carrier")
    first = hold.upload("a", lambda _: None)
    hold.upload("b", lambda _: 1 / 0)

    def on_wait() -> None:
        if hold.held_s >= 3.5:
            hold.set(network="ok", training="go", uploads="go")

    hold.on_wait = on_wait
    hold.step(1)

    found = hold.numbers
    assert first.done
    assert (found.holds, found.held_s) == (1, pytest.approx(3.5, abs=0.3))
    assert (found.uploads, found.uploads_kept_back, found.uploads_failed) == (1, 2, 1)
    assert found.attempts_avoided == 8
    hold.close()
    assert hold.log[-1] == (
        "this run: training held 3.5 s in 1 hold; 2 uploads kept back while nothing could go; "
        "1 upload failed for good; 8 attempts avoided that could not have worked"
    )


def test_an_upload_kept_back_twice_counts_once() -> None:
    """Two outages, one upload; the attempts of both are counted."""
    hold = Hold.fake(uploads="hold")
    hold.upload("a", lambda _: None)
    hold.advance(0.5)
    hold.set(uploads="newest", agent=True)

    assert hold.numbers.uploads_kept_back == 1
    assert hold.numbers.attempts_avoided == 2
    assert hold.numbers.uploads == 1


def test_calls_that_waited_are_counted() -> None:
    """What linkhold.client.retry held back and tried again counts from the Hold's beginning on."""
    hold = Hold.fake()
    record = dependency("summary-test").record
    record.count("held_calls", 2)
    record.count("held_s", 3.0)
    record.count("retries", 4)

    assert hold.numbers.retries == 4
    assert hold.numbers.attempts_avoided == 2 * 3
    assert Hold.fake().numbers == Numbers()


def test_a_quiet_run_ends_without_a_line() -> None:
    """Nothing happened, nothing is said."""
    hold = Hold.fake()
    hold.step(1)
    hold.close()

    assert line(Numbers()) == ""
    assert not [text for text in hold.log if "this run" in text]


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"data_retries": 1}, "1 read of data tried again"),
        ({"data_rebuilds": 2}, "data workers replaced 2 times"),
        ({"retries": 3}, "3 further attempts after a failed one"),
        ({"uploads": 5}, ""),
    ],
)
def test_only_what_happened_is_said(fields: dict[str, Any], text: str) -> None:
    """Each number has its words; uploads that went well need none."""
    assert line(Numbers(**fields)) == (f"this run: {text}" if text else "")
