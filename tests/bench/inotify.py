"""Sees a file replaced in the moment it happens (inotify(7)), without polling."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

IN_MOVED_TO = 0x80
_EVENT = struct.Struct("=iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Replaced:
    """Waits until something is renamed to ``path``; its folder must exist."""

    def __init__(self, path: Path) -> None:
        self._name = path.name.encode()
        self._fd = _LIBC.inotify_init1(os.O_CLOEXEC)
        added = _LIBC.inotify_add_watch(self._fd, str(path.parent).encode(), IN_MOVED_TO)
        if self._fd < 0 or added < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def wait(self) -> int:
        """Wait for the next replacement; return CLOCK_MONOTONIC in ns when it was seen."""
        while True:
            data = os.read(self._fd, 4096)
            seen_ns = time.monotonic_ns()
            if self._name in _names(data):
                return seen_ns

    def wait_until(self, deadline_s: float) -> bool:
        """Wait for a replacement, at most until ``deadline_s`` of time.monotonic()."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        if not poll.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
            return False
        os.read(self._fd, 65536)
        return True

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._fd)


def _names(data: bytes) -> set[bytes]:
    names = set()
    position = 0
    while position < len(data):
        size = _EVENT.unpack_from(data, position)[3]
        position += _EVENT.size
        names.add(data[position : position + size].rstrip(b"\0"))
        position += size
    return names
