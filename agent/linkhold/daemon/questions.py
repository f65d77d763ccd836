"""Answers for the control socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from typing import TYPE_CHECKING, Any

from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkhold.control import Peer
    from linkhold.store.keeper import Keeper
    from linkhold.store.outbox import Stored

HISTORY_LIMIT = 10_000
HISTORY_WAIT_S = 4.0


class Questions:
    """What ``linkhold status`` and ``linkhold events`` ask."""

    def __init__(self, keeper: Keeper, document: Callable[[], bytes]) -> None:
        self._keeper = keeper
        self._document = document

    def handlers(
        self,
    ) -> dict[str, Callable[[Mapping[str, Any], Peer], Awaitable[dict[str, Any]]]]:
        """Return the requests by name."""
        return {"state": self._state, "events": self._events}

    async def _state(self, _request: Mapping[str, Any], _peer: Peer) -> dict[str, Any]:
        return {"state": json.loads(self._document())}

    async def _events(self, request: Mapping[str, Any], _peer: Peer) -> dict[str, Any]:
        """Return the newest events of the last ``since_s`` seconds, at most ``limit``."""
        since_s = _number(request, "since_s", 86400.0, 10 * 366 * 86400.0)
        limit = int(_number(request, "limit", 1000.0, float(HISTORY_LIMIT)))
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
            rows = await asyncio.wait_for(found, HISTORY_WAIT_S)
        except asyncio.TimeoutError:
            raise LinkholdError("the disk with the history does not answer") from None
        return {"events": [json.loads(row.entry.payload) for row in rows]}


def _number(request: Mapping[str, Any], name: str, default: float, most: float) -> float:
    value = request.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise LinkholdError(f"{name}: {value!r} is no number above 0 and up to {most:g}")
    return float(value)
