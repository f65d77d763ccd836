"""Values from other people's JSON, read leniently. Pure."""

from __future__ import annotations

import math


def number(value: object) -> float | None:
    """Return a finite number, also one written as text; None for all else, also booleans."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None
