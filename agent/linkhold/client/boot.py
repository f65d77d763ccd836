"""Which boot of this node it is: moments of CLOCK_MONOTONIC of two boots say nothing together."""

from __future__ import annotations

import os
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MOST_BYTES = 64
"""A UUID and the end of its line are 37."""


def boot_id() -> str:
    """Return the kernel's id of this boot (random(4)), empty where it cannot be read.

    It is read anew each time: a moment without a descriptor, and a process that CRIU moves to
    another boot, must not be taken for good. A retried call asks three times, so it is read
    without a file object, which takes three times as long.
    """
    try:
        descriptor = os.open(BOOT_ID, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return os.read(descriptor, MOST_BYTES).decode("ascii").strip()
        finally:
            os.close(descriptor)
    except (OSError, ValueError):
        return ""
