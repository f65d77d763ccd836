"""The three forms of a retry: decorator, loop with a context manager, and both for asyncio."""

from __future__ import annotations

import functools
import inspect
import random
import time
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from linkhold.client.retry import nesting
from linkhold.client.retry.dependency import Dependency, dependency
from linkhold.client.retry.policy import Policy
from linkhold.client.retry.run import Attempt, Nested, Run

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from typing_extensions import Self

P = ParamSpec("P")
R = TypeVar("R")

_USUAL = Policy()
_dice = random.SystemRandom()  # never the global generator: training runs are seeded


class Retry:
    """A policy for calls of one dependency; made by :func:`retry`, may be used any number of times.

    ::

        @retry("s3")                        # a function or a coroutine function
        def push(path): ...

        for attempt in retry("s3", attempts=4):
            with attempt:
                push(path)

        async for attempt in retry("s3"):
            with attempt:
                await push(path)
    """

    def __init__(
        self,
        on: Dependency,
        policy: Policy,
        *,
        sleep: Callable[[float], object] = time.sleep,
        asleep: Callable[[float], Awaitable[object]] | None = None,
        dice: random.Random = _dice,
    ) -> None:
        self.dependency = on
        self.policy = policy
        self._sleep = sleep
        self._asleep = asleep
        self._dice = dice

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function or a coroutine function.

        Raises :class:`TypeError` for a generator function: its body runs after the call; and for
        what cannot be called.
        """
        if not callable(function):
            raise TypeError(
                f"retry: {function!r} cannot be called; write @retry(...) below @classmethod"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"retry: {function.__qualname__} is a generator, whose body runs after the call; "
                "write the loop inside it: for attempt in retry(...): with attempt: ..."
            )
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                return await self.acall(function, *args, **kwargs)

            return cast("Callable[P, R]", awaited)

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            return self.call(function, *args, **kwargs)

        return called

    def call(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``function`` until it succeeds; return what it returns.

        Raises its last error; :class:`BudgetSpent`; :class:`NoAttempt` when none could be made.
        """
        for attempt in self:
            with attempt:
                return function(*args, **kwargs)
        raise AssertionError("unreachable: the loop ends by return or by an error")

    async def acall(
        self, function: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Like :meth:`call`, for a coroutine function."""
        async for attempt in self:
            with attempt:
                return await function(*args, **kwargs)
        raise AssertionError("unreachable: the loop ends by return or by an error")

    def __iter__(self) -> Iterator[Attempt | Nested]:
        """Yield attempts until one succeeds; raises as :meth:`call` does."""
        if nesting.inside():
            yield self._nested()
            return
        run = Run(self.dependency, self.policy, self._dice)
        try:
            self._take_turn(run)
            for manager in run.wheel(functools.partial(self._rest, run)):
                attempt = Attempt(run, manager)
                yield attempt
                attempt.check()
        finally:
            run.close()

    def __aiter__(self) -> AsyncIterator[Attempt | Nested]:
        """Yield attempts until one succeeds; raises as :meth:`call` does."""
        if nesting.inside():
            return _Once(self._nested())
        return _Attempts(Run(self.dependency, self.policy, self._dice), self._sleeper())

    def _nested(self) -> Nested:
        self.dependency.record.count("nested")
        return Nested()

    def _take_turn(self, run: Run) -> None:
        turn = run.turn()
        while (pause_s := turn.pause_s()) > 0:
            self._sleep(pause_s)
        run.ticket = turn.ticket

    def _rest(self, run: Run, pause_s: float) -> None:
        for slice_s in run.slices(pause_s):
            self._sleep(slice_s)
        self._take_turn(run)

    def _sleeper(self) -> Callable[[float], Awaitable[object]]:
        if self._asleep is not None:
            return self._asleep
        import asyncio  # noqa: PLC0415 - whoever comes here has it already; others never need it

        return asyncio.sleep


class _Once:
    """An asynchronous iteration over the one attempt of a nested retry."""

    def __init__(self, attempt: Nested) -> None:
        self._left = [attempt]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt | Nested:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop()


class _Attempts:
    """An asynchronous iteration over the attempts of one call.

    No asynchronous generator: one that is left early costs the event loop a task to close it.
    """

    def __init__(self, run: Run, asleep: Callable[[float], Awaitable[object]]) -> None:
        self._run = run
        self._asleep = asleep
        self._last: Attempt | None = None
        # Not a method of ours: without a circle __del__ comes as soon as the loop is left.
        rest = functools.partial(_rest_awaiting, run, asleep)
        self._wheel = run.wheel(rest, asynchronous=True).__aiter__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Attempt | Nested:
        if self._last is None:
            await _await_turn(self._run, self._asleep)
        else:
            self._last.check()
        self._last = Attempt(self._run, await self._wheel.__anext__())
        return self._last

    def __del__(self) -> None:
        self._run.close()


async def _rest_awaiting(
    run: Run, asleep: Callable[[float], Awaitable[object]], pause_s: float
) -> None:
    await asleep(pause_s)
    await _await_turn(run, asleep)


async def _await_turn(run: Run, asleep: Callable[[float], Awaitable[object]]) -> None:
    turn = run.turn()
    while (pause_s := turn.pause_s()) > 0:
        await asleep(pause_s)
    run.ticket = turn.ticket


def retry(
    name: str,
    *,
    run_dir: str | os.PathLike[str] | None = None,
    attempts: int = _USUAL.attempts,
    time_limit_s: float = _USUAL.time_limit_s,
    first_pause_s: float = _USUAL.first_pause_s,
    longest_pause_s: float = _USUAL.longest_pause_s,
    spread_s: float = _USUAL.spread_s,
) -> Retry:
    """Return a retry of calls of the dependency ``name``; see :class:`Policy` for the values.

    Calls that fail together belong under one name: ``"s3"``, ``"tracker"``. ``run_dir`` is the
    run folder of the agent to listen to, as in ``Hold.connect``.

    Raises :class:`TypeError` or :class:`ValueError` for a value that is wrong.
    """
    policy = Policy(attempts, time_limit_s, first_pause_s, longest_pause_s, spread_s)
    return Retry(dependency(name, run_dir=run_dir), policy)
