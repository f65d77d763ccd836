"""Retries inside retries, and over a fork: only the outermost one retries."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest

from linkhold.client.retry import Policy, Retry, files
from support.retry_forms import Flaky, every_form
from support.retrying import RetryWorld

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


@pytest.fixture
def world() -> RetryWorld:
    """Return a world without agent, whose breaker does not get in the way."""
    return RetryWorld(failures=100)


@every_form
def test_only_the_outermost_retries(world: RetryWorld, form: Callable[[Retry, Flaky], str]) -> None:
    """Three layers of four attempts make four calls, not 64, in every mix of forms."""
    function = Flaky(100)
    inner = world.another("inner", failures=100)

    def middle() -> str:
        return world.retry(inner, attempts=4).call(
            lambda: world.retry(inner, attempts=4).call(function)
        )

    with pytest.raises(ConnectionResetError):
        form(world.retry(attempts=4), Flaky2(middle))

    assert function.calls == 4
    assert inner.counters["nested"] == 8
    assert inner.counters["attempts"] == 0


class Flaky2(Flaky):
    """Calls something else."""

    def __init__(self, call: Callable[[], str]) -> None:
        super().__init__(0)
        self._call = call

    def __call__(self, answer: str = "done") -> str:
        del answer
        return self._call()


def test_nesting_is_seen_across_tasks_and_threads_of_asyncio(world: RetryWorld) -> None:
    """A task or asyncio.to_thread() inside an attempt is inside it, in a loop nested too."""
    counts: list[float] = []

    async def inner() -> None:
        async for attempt in world.retry():
            with attempt:
                counts.append(world.dependency.counters["nested"])

    async def main() -> None:
        async for attempt in world.retry():
            with attempt:
                await asyncio.create_task(inner())
                await asyncio.to_thread(world.retry().call, Flaky(0))

    asyncio.run(main())

    assert world.dependency.counters["nested"] == 2
    assert world.dependency.counters["attempts"] == 1


def test_a_task_that_outlives_the_attempt_retries_by_itself(world: RetryWorld) -> None:
    """The mark of an attempt ends with it, also for what it started."""
    function = Flaky(2)

    async def later() -> None:
        await asyncio.sleep(0.01)
        await world.retry().acall(_awaiting(function))

    async def main() -> None:
        async for attempt in world.retry():
            with attempt:
                task = asyncio.create_task(later())
        await task

    asyncio.run(main())

    assert function.calls == 3


def _awaiting(function: Flaky) -> Callable[[], Awaitable[str]]:
    async def call() -> str:
        await asyncio.sleep(0)
        return function()

    return call


def test_a_plain_thread_inside_an_attempt_retries_by_itself(world: RetryWorld) -> None:
    """Plain threads start without context, as docs/retry.md says."""
    function = Flaky(2)

    def call() -> None:
        context = contextvars.Context()  # a plain thread's, free-threaded Python apart
        thread = threading.Thread(target=context.run, args=(world.retry().call, function))
        thread.start()
        thread.join()

    world.retry().call(call)

    assert function.calls == 3


def test_a_child_forked_inside_an_attempt_retries_by_itself(world: RetryWorld) -> None:
    """Workers that are forked inside an attempt live on after it: they are not nested."""

    def call() -> int:
        child = os.fork()
        if child == 0:
            function = Flaky(2)
            with contextlib.suppress(BaseException):
                world.retry().call(function)
            counted = world.dependency.counters
            os._exit(0 if (function.calls, counted["attempts"]) == (3, 3) else 1)
        return os.waitpid(child, 0)[1]

    assert world.retry().call(call) == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # it is what is tested
def test_a_child_of_a_busy_process_is_never_stuck(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Children forked while other threads retry, whatever locks those hold, make their calls."""
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    busy = RetryWorld(failures=1000, budget=10_000, calls_at_once=8)
    again = Retry(busy.dependency, Policy(first_pause_s=0.0), sleep=lambda _: None)
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            again.call(Flaky(2))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        codes = [_child_calls(again) for _ in range(25)]
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert codes == [0] * 25


def _child_calls(again: Retry) -> int:
    """Fork, let the child make a call, return its exit code; a stuck one is killed by SIGALRM."""
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(10)
        code = 1
        with contextlib.suppress(BaseException):
            code = 0 if again.call(Flaky(2)) == "done" else 2
        os._exit(code)
    return os.waitpid(child, 0)[1]
