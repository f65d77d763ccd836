"""Answers for the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

from linkhold.deadlines import within
from linkhold.model import LinkholdError
from linkhold.wire import dumps

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkhold.decide.node import Context
    from linkhold.door import Peer
    from linkhold.store.keeper import Keeper
    from linkhold.store.outbox import Stored

HISTORY_LIMIT = 10_000
HISTORY_BYTES = 2_000_000
"""An answer holds no more, since everybody may ask and it waits in memory to be read."""
HISTORY_WAIT_S = 4.0


class Questions:
    """What ``linkhold status``, ``events`` and ``restore`` ask."""

    def __init__(
        self, keeper: Keeper, document: Callable[[], bytes], context: Callable[[], Context]
    ) -> None:
        self._keeper = keeper
        self._document = document
        self._context = context

    def handlers(
        self,
    ) -> dict[str, Callable[[Mapping[str, Any], Peer], Awaitable[bytes]]]:
        """Return the requests by name."""
        return {"state": self._state, "events": self._events, "mode": self._tell_mode}

    async def _state(self, _request: Mapping[str, Any], _peer: Peer) -> bytes:
        return b'"state":' + self._document()

    async def _tell_mode(self, _request: Mapping[str, Any], _peer: Peer) -> bytes:
        return b'"mode":' + dumps(self._context().settings.mode.value)

    async def _events(self, request: Mapping[str, Any], _peer: Peer) -> bytes:
        """Answer with the newest events of the last ``since_s`` seconds, at most ``limit``.

        ``left_out`` says that there are more. Events go out as they are stored, as bytes.
        """
        since_s = _number(request, "since_s", 86400.0, 10 * 366 * 86400.0)
        limit = int(_number(request, "limit", 1000.0, float(HISTORY_LIMIT)))
        rows = await self._history(since_s, limit + 1)
        payloads, size = [], 0
        for row in reversed(rows[-limit:]):
            size += len(row.entry.payload)
            if size > HISTORY_BYTES:
                break
            payloads.append(row.entry.payload)
        left_out = dumps(len(payloads) < len(rows))
        return b'"left_out":' + left_out + b',"events":[' + b",".join(payloads[::-1]) + b"]"

    async def _history(self, since_s: float, limit: int) -> list[Stored]:
        loop = asyncio.get_running_loop()
        found: asyncio.Future[list[Stored]] = loop.create_future()

        def settle(rows: list[Stored]) -> None:
            if not found.done():
                found.set_result(rows)

        def reply(rows: list[Stored]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, rows)

        if not self._keeper.history(time.time() - since_s, limit, (), reply):
            raise LinkholdError("too many questions at once; try again")
        try:
            return await within(found, HISTORY_WAIT_S)
        except asyncio.TimeoutError:
            raise LinkholdError("the disk with the history does not answer") from None


def _number(request: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise LinkholdError(f"{name}: {value!r} is no number above 0 and up to {most:g}")
    return float(value)
