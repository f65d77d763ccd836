"""The budget of retries of one dependency, shared by the processes of this user on the node.

A retry never fails because of the file: when it cannot be used, this process counts alone for a
while and says so once.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from linkhold.client.retry import files, window
from linkhold.client.retry.sealed import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.voice import Voice

MOST_BYTES = 1 << 20
ALONE_S = 10.0
"""So long the file is left alone after it could not be used."""


class Budget:
    """At most ``retries`` in ``window_s`` seconds.

    Raises nothing. ``now_ns`` must be CLOCK_MONOTONIC: processes compare it.
    """

    def __init__(
        self,
        dependency: str,
        retries: int,
        window_s: float,
        voice: Voice,
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._dependency = dependency
        self._retries = retries
        self._window_s = window_s
        self._voice = voice
        self._now_ns = now_ns
        self._alone: tuple[int, ...] = ()
        self._alone_until_ns = 0
        self._told = False
        self._lock = threading.Lock()

    def spend(self) -> bool:
        """Pay for one retry; return whether there was something left to pay with."""
        with self._lock:  # threads wait here, not for each other's flock
            if self._now_ns() < self._alone_until_ns:
                return self._spend_alone()
            try:
                return self._spend_shared()
            except OSError as error:
                trouble = str(error)
                self._alone_until_ns = self._now_ns() + int(ALONE_S * 1e9)
                allowed = self._spend_alone()
        self._tell(f"is counted by each process for itself: {trouble}")
        return allowed

    def after_fork(self) -> None:
        """Get a lock of the child's own."""
        self._lock = threading.Lock()

    def _spend_alone(self) -> bool:
        allowed, self._alone = window.spend(
            self._alone, self._now_ns(), self._window_s, self._retries
        )
        return allowed

    def _spend_shared(self) -> bool:
        path = files.path_of(self._dependency, "budget")
        with files.locked(path) as descriptor:
            try:
                before = window.unpack(os.pread(descriptor, MOST_BYTES, 0))
            except Damaged as damage:
                self._tell(f"starts anew: {path}: {damage}")
                before = ()
            now_ns = self._now_ns()
            allowed, after = window.spend(before, now_ns, self._window_s, self._retries)
            if allowed:
                files.rewrite(descriptor, window.pack(after))
                self._alone = after  # should the file fail next, what was spent stays spent
            return allowed

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            self._voice.warning(f"the retry budget of {self._dependency} {what}")
