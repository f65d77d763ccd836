"""Which boot of this node it is: moments of CLOCK_MONOTONIC of two boots say nothing together."""

from __future__ import annotations

import functools
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@functools.cache
def boot_id() -> str:
    """Return the kernel's id of this boot (random(4)), empty where it cannot be read."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
