"""Waits with an end: what becomes of them when they are cancelled or late."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from linkhold.deadlines import within

if TYPE_CHECKING:
    from collections.abc import Coroutine


def run(body: Coroutine[object, object, None]) -> None:
    """Run it in a loop of its own, with an end."""
    asyncio.run(asyncio.wait_for(body, 5))


def test_a_cancellation_is_never_lost() -> None:
    """Not even in the moment in which the work ends; a loop that waits would go on for ever."""

    async def body() -> None:
        work: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(within(work, 60))
        await asyncio.sleep(0)
        work.set_result(1)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    run(body())


def test_late_work_is_cancelled_and_waited_for() -> None:
    """What it holds is given back before the caller goes on."""
    given_back = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            given_back.append(True)

    async def body() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await within(work(), 0.01)

    run(body())
    assert given_back == [True]


def test_the_outcome_passes() -> None:
    """A result and an error alike."""

    async def fail() -> None:
        raise OSError("broken")

    async def body() -> None:
        assert await within(asyncio.sleep(0, "done"), None) == "done"
        with pytest.raises(OSError, match="broken"):
            await within(fail(), 5)

    run(body())
