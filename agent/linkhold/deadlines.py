"""Waits of the event loop that have an end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable

T = TypeVar("T")


async def within(work: Awaitable[T], timeout_s: float | None) -> T:
    """Return or raise what ``work`` does; raises asyncio.TimeoutError after ``timeout_s``.

    None waits for ever. As asyncio.wait_for is since Python 3.12: before, that returns as if
    nothing were when the task is cancelled in the moment in which ``work`` ends (CPython issue
    86296). The cancellation is lost then, and who waits for the end of the task waits for ever.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    finally:
        if task.cancel():
            await asyncio.wait({task})  # what it holds is given back before we go on
    if task.cancelled():
        raise asyncio.TimeoutError
    return task.result()
