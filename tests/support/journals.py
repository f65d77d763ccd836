"""Documents of the journal of changes, whole enough to be read."""

from __future__ import annotations

import os
import time
from typing import Any

from linkhold.actuators.journal import boot_id


def change(**more: Any) -> dict[str, Any]:
    """Return an unfinished change of bond0 with nothing in it; ``more`` replaces."""
    return {
        "id": "1",
        "bond": "bond0",
        "action": "apply",
        "state": "applying",
        "boot_id": boot_id(),
        "phase": 0,
        "deadline_mono_ns": time.monotonic_ns() + 30_400_000_000,
        "pid": os.getpid(),
        "started": 1,
        "phases": [],
        "undo": [],
        "checks": {"answers": [], "pings": [], "bonds": {}, "members": {}},
        "record": {},
        "confirm_after_s": 1.0,
        "guard_s": 30.0,
        **more,
    }


def last(**more: Any) -> dict[str, Any]:
    """Return how the last change, one of bond0, ended; ``more`` replaces."""
    whole = {"id": "1", "bond": "bond0", "action": "apply", "ended": "committed", "at": 1.0}
    return {**whole, "reason": "", "problems": [], **more}
