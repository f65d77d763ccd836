"""The budget of retries of one dependency, shared by the processes of this user on the node.

A retry never fails because of the file: when it cannot be used, this process counts alone for a
while and says so once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from linkhold.client.retry import window
from linkhold.client.retry.keep import Kind, Shared

if TYPE_CHECKING:
    from linkhold.client.voice import Voice

MOMENTS: Kind[tuple[int, ...]] = Kind("retry budget", "budget", 1 << 20, window.pack, window.unpack)


class Budget:
    """At most ``retries`` in ``window_s`` seconds. Raises nothing."""

    def __init__(self, dependency: str, retries: int, window_s: float, voice: Voice) -> None:
        self._retries = retries
        self._window_s = window_s
        self._keep = Shared(dependency, MOMENTS, voice)

    def spend(self) -> bool:
        """Pay for one retry; return whether there was something left to pay with."""
        return self._keep.change(
            lambda moments: window.spend(
                moments, time.monotonic_ns(), self._window_s, self._retries
            )
        )

    def after_fork(self) -> None:
        """Get a lock of the child's own."""
        self._keep.after_fork()
