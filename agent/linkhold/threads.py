"""Calls that may block, kept off the event loop.

Daemon threads, not an executor: a call that never returns must not keep the agent from ending.
"""

from __future__ import annotations

import asyncio
import queue
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


def bounded(call: Callable[[], T], timeout_s: float) -> T:
    """Run ``call`` in a thread and return or raise what it does, or TimeoutError.

    A call that hangs then goes on by itself: a disk that does not answer cannot be interrupted.
    """
    results: queue.SimpleQueue[tuple[list[T], BaseException | None]] = queue.SimpleQueue()

    def body() -> None:
        try:
            results.put(([call()], None))
        except Exception as error:  # noqa: BLE001 - handed to the caller
            results.put(([], error))

    threading.Thread(target=body, daemon=True, name="linkhold-call").start()
    try:
        found, error = results.get(timeout=timeout_s)
    except queue.Empty:
        raise TimeoutError from None
    if error is not None:
        raise error
    return found[0]
