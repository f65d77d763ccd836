"""Pauses between polls, on a grid: what is asked together costs one wake-up.

A machine that sleeps pays for each wake-up more than for what is done in it. The grid begins at a
random moment in each process, so that a rack that was powered on at once does not ask at once.
"""

from __future__ import annotations

import asyncio
import math
import random
import time

GRID_S = 0.5
_PHASE_S = random.uniform(0, GRID_S)  # noqa: S311 -- no secret


def until(seconds: float, now_s: float, phase_s: float) -> float:
    """Return how long to sleep at ``now_s``: to the last point of the grid within ``seconds``.

    A pause that is not longer than the grid is kept as it is.
    """
    if seconds <= GRID_S:
        return seconds
    points = math.floor((now_s + seconds - phase_s) / GRID_S + 1e-6)
    return max(0.0, points * GRID_S + phase_s - now_s)


def next_in_s(seconds: float) -> float:
    """Return how long to sleep: ``seconds`` at the most, and at least that less half a second."""
    return until(seconds, time.monotonic(), _PHASE_S)


async def pause(seconds: float) -> None:
    """Sleep so long."""
    await asyncio.sleep(next_in_s(seconds))
