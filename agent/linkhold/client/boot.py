"""Which boot of this node it is: moments of CLOCK_MONOTONIC of two boots say nothing together."""

from __future__ import annotations

from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Return the kernel's id of this boot (random(4)), empty where it cannot be read.

    It is read anew each time: a moment without a descriptor, and a process that CRIU moves to
    another boot, must not be taken for good.
    """
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
