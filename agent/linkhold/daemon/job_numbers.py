"""Takes from training processes what they count, for the agent's metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from linkhold.decide.job_numbers import Jobs
from linkhold.wire.numbers import NUMBERS_CMD, parse_numbers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from linkhold.door import Peer
    from linkhold.model.numbers import JobNumbers


class ToldNumbers:
    """Answers the request ``numbers`` of the control socket. Belongs to the loop."""

    def __init__(self) -> None:
        self._jobs = Jobs()

    def handlers(self) -> dict[str, Callable[[Mapping[str, Any], Peer], Awaitable[bytes]]]:
        """Return the requests by name."""
        return {NUMBERS_CMD: self._take}

    def sums(self) -> tuple[JobNumbers, ...]:
        """Return the numbers of each job that was heard of."""
        return self._jobs.sums(time.monotonic_ns())

    async def _take(self, request: Mapping[str, Any], peer: Peer) -> bytes:
        label, process, numbers = parse_numbers(request)
        self._jobs.tell(peer.uid, label, process, numbers, time.monotonic_ns())
        return b'"counted":true'
