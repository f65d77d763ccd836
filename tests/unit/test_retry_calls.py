"""Retries in their three forms, on a simulated clock."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import urllib.error
from typing import TYPE_CHECKING

import pytest

from linkhold.client.retry import Policy, Retry, counters, files, retry
from linkhold.client.retry import dependency as shared_dependency
from linkhold.client.retry.policy import Limits
from linkhold.model import LinkholdError
from support.retry_forms import Flaky, busy, every_form
from support.retrying import START_S, RetryWorld, reset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def world() -> RetryWorld:
    """Return a world without agent, whose breaker does not get in the way."""
    return RetryWorld(failures=100)


@every_form
def test_it_is_tried_until_it_works(world: RetryWorld, form: Callable[[Retry, Flaky], str]) -> None:
    """Two failures cost two pauses; the answer of the third attempt comes back."""
    function = Flaky(2)

    assert form(world.retry(), function) == "done"
    assert function.calls == 3
    assert world.dependency.counters["attempts"] == 3
    assert world.dependency.counters["retries"] == 2


@every_form
def test_attempts_are_limited(world: RetryWorld, form: Callable[[Retry, Flaky], str]) -> None:
    """After the last attempt its own error comes out."""
    function = Flaky(100)
    with pytest.raises(ConnectionResetError):
        form(world.retry(attempts=4), function)

    assert function.calls == 4
    assert world.dependency.counters["given_up"] == 1


@every_form
def test_time_is_limited(world: RetryWorld, form: Callable[[Retry, Flaky], str]) -> None:
    """No pause is begun that would end after the time limit."""
    with pytest.raises(ConnectionResetError):
        form(world.retry(attempts=1000, time_limit_s=60), Flaky(1000))

    assert world.now_s - START_S <= 60


@every_form
def test_other_errors_come_out_at_once(
    world: RetryWorld, form: Callable[[Retry, Flaky], str]
) -> None:
    """A mistake is raised from the first attempt, unchanged and without a pause."""
    function = Flaky(1, lambda: KeyError("a mistake"))
    with pytest.raises(KeyError, match="a mistake"):
        form(world.retry(), function)

    assert (function.calls, world.sleeps) == (1, [])


@every_form
def test_an_interrupt_comes_out_at_once(
    world: RetryWorld,
    form: Callable[[Retry, Flaky], str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C is never swallowed, and frees what the attempt held."""
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    world.dependency.limit(calls_at_once=1)
    with pytest.raises(KeyboardInterrupt):
        form(world.retry(), Flaky(1, KeyboardInterrupt))

    assert form(world.retry(), Flaky(0)) == "done"


def test_pauses_have_full_jitter(world: RetryWorld) -> None:
    """The n-th pause is uniform from 0 to its exponential bound: means lie near the half."""
    pauses: list[list[float]] = [[] for _ in range(6)]
    again = world.retry(attempts=7, first_pause_s=1.0, longest_pause_s=8.0, time_limit_s=1e6)
    for _ in range(300):
        ends: list[float] = []
        for attempt in again:
            ends.append(world.now_s)
            with attempt:
                if attempt.number < 7:
                    raise reset()
        for pause, (one, other) in zip(pauses, itertools.pairwise(ends), strict=True):
            pause.append(other - one)

    for found, widest_s in zip(pauses, (1, 2, 4, 8, 8, 8), strict=True):
        assert 0 <= min(found) < widest_s * 0.1
        assert widest_s * 0.9 < max(found) <= widest_s
        assert 0.4 < sum(found) / len(found) / widest_s < 0.6


def test_the_global_dice_are_left_alone() -> None:
    """Retries neither use nor change the random state of the training run."""
    random.seed(1)
    before = random.getstate()
    again = Retry(RetryWorld().dependency, Policy(), sleep=lambda _: None)
    again.call(Flaky(2))

    assert random.getstate() == before


def test_retry_after_is_honoured(world: RetryWorld) -> None:
    """The next attempt is not before the time asked for, nor with all others right at it."""
    world.retry().call(Flaky(1, lambda: busy("20")))

    assert 20 < world.now_s - START_S <= 21


def test_a_retry_after_beyond_the_limit_ends_it(world: RetryWorld) -> None:
    """When the other side asks for more time than there is, its error comes out at once."""
    function = Flaky(1, lambda: busy("3600"))
    with pytest.raises(urllib.error.HTTPError):
        world.retry(time_limit_s=300).call(function)

    assert (function.calls, world.sleeps) == (1, [])


def test_no_sleep_is_long(world: RetryWorld) -> None:
    """Pauses come in slices, so that watchdogs see the thread live."""
    with contextlib.suppress(ConnectionResetError):
        world.retry(attempts=8).call(Flaky(100))

    assert max(world.sleeps) <= 0.25


def test_a_loop_without_with_is_told(world: RetryWorld) -> None:
    """Who forgets `with attempt:` gets a sentence instead of an endless loop."""
    with pytest.raises(LinkholdError, match="with attempt:"):
        for _ in world.retry():
            pass

    async def loop() -> None:
        async for _ in world.retry():
            pass

    with pytest.raises(LinkholdError, match="with attempt:"):
        asyncio.run(loop())


def test_a_loop_left_early_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaving the loop before the attempt gives slot and probe back."""
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    world = RetryWorld(calls_at_once=1)
    for _ in world.retry():
        break

    async def loop() -> None:
        async for _ in world.retry():
            break

    asyncio.run(loop())

    assert world.retry(time_limit_s=5).call(Flaky(0)) == "done"


def test_a_cancelled_task_frees_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cancelling a call inside an attempt gives slot and permit back and is not retried."""
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    world = RetryWorld(calls_at_once=1)

    async def main() -> None:
        task = asyncio.create_task(world.retry().acall(asyncio.sleep, 60))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())

    assert world.dependency.counters["attempts"] == 1
    assert world.retry(time_limit_s=5).call(Flaky(0)) == "done"


def test_a_generator_function_is_refused(world: RetryWorld) -> None:
    """Its body would run after the retry: the error says what to write instead."""
    with pytest.raises(TypeError, match="write the loop inside it"):

        @world.retry()
        def lines() -> Iterator[int]:
            yield 1


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"attempts": 0}, "attempts: 0 is not 1 to"),
        ({"attempts": 2.5}, "attempts: 2.5 is no whole number"),
        ({"attempts": True}, "attempts: True is no whole number"),
        ({"time_limit_s": 0}, "time_limit_s: 0 is not more than 0"),
        ({"time_limit_s": float("inf")}, "time_limit_s: inf is not more than 0"),
        ({"first_pause_s": -1}, "first_pause_s: -1 is not 0 or more"),
        ({"spread_s": "5"}, "spread_s: '5' is no number of seconds"),
    ],
)
def test_wrong_policies_are_told(wrong: dict[str, object], text: str) -> None:
    """Each wrong value is named with what is allowed."""
    with pytest.raises((TypeError, ValueError), match=text):
        retry("s3", **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"budget": -1}, "budget: -1 is not 0 to"),
        ({"calls_at_once": 0}, "calls_at_once: 0 is not 1 to"),
        ({"stop_on": "network"}, "stop_on: 'network' is no tuple; allowed in it: network, uploads"),
        ({"stop_on": ("power",)}, "stop_on: 'power' is not one of network, uploads"),
    ],
)
def test_wrong_limits_are_told(wrong: dict[str, object], text: str) -> None:
    """Each wrong value is named with what is allowed."""
    with pytest.raises((TypeError, ValueError), match=text):
        RetryWorld().dependency.limit(**wrong)


@pytest.mark.parametrize("name", ["", "x" * 201, "two\nlines"])
def test_wrong_names_are_told(name: str) -> None:
    """A name stands in log lines and file names."""
    with pytest.raises(ValueError, match="printable"):
        retry(name)


def test_calls_of_one_name_share_a_dependency() -> None:
    """Budget, breaker and counters belong to the name."""
    name = "test_calls_of_one_name"
    shared_dependency(name).limit(budget=7)

    assert retry(name).dependency is retry(name).dependency
    assert retry(name).dependency.parts.limits == Limits(budget=7)
    assert counters()[name]["calls"] == 0
