"""Calls that may block, kept off the event loop.

Daemon threads, not an executor: a call that never returns must not keep the agent from ending.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def in_thread(call: Callable[[], T]) -> T:
    """Run ``call`` in a thread of its own and return or raise what it does."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def body() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as caught:  # noqa: BLE001 - handed to whoever awaits
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            return  # the loop has ended; nobody waits any more

    threading.Thread(target=body, daemon=True, name="linkhold-call").start()
    return await future
