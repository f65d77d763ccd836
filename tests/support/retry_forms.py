"""The forms of a retry, and functions to call by them."""

from __future__ import annotations

import asyncio
import inspect
import urllib.error
from email.message import Message
from typing import TYPE_CHECKING

import pytest

from support.retrying import reset

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.retry import Retry


class Flaky:
    """Fails until it was called often enough."""

    def __init__(self, failures: int, error: Callable[[], BaseException] = reset) -> None:
        self.calls = 0
        self._failures = failures
        self._error = error

    def __call__(self, answer: str = "done") -> str:
        self.calls += 1
        if self.calls <= self._failures:
            raise self._error()
        return answer


def by_call(again: Retry, function: Flaky) -> str:
    """Call it plainly."""
    return again.call(function)


def by_decorator(again: Retry, function: Flaky) -> str:
    """Call it decorated."""

    @again
    def decorated(answer: str) -> str:
        return function(answer)

    return decorated("done")


def by_loop(again: Retry, function: Flaky) -> str:
    """Call it in a loop."""
    answer = ""
    for attempt in again:
        with attempt:
            answer = function()
    return answer


def by_coroutine(again: Retry, function: Flaky) -> str:
    """Call it as a decorated coroutine function."""

    @again
    async def decorated(answer: str) -> str:
        await asyncio.sleep(0)
        return function(answer)

    return asyncio.run(_run(decorated))


async def _run(decorated: Callable[[str], object]) -> str:
    found = decorated("done")
    assert inspect.isawaitable(found)
    return str(await found)


def by_async_loop(again: Retry, function: Flaky) -> str:
    """Call it in an asynchronous loop."""

    async def loop() -> str:
        answer = ""
        async for attempt in again:
            with attempt:
                answer = function()
        return answer

    return asyncio.run(loop())


FORMS = (by_call, by_decorator, by_loop, by_coroutine, by_async_loop)
every_form = pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)


def busy(after_s: str) -> urllib.error.HTTPError:
    """Return a 503 that asks to come later."""
    headers = Message()
    headers["Retry-After"] = after_s
    return urllib.error.HTTPError("http://x/", 503, "busy", headers, None)
