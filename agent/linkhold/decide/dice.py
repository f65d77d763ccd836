"""Chance for pure decisions: the dice lie in the memory, so that equal arguments roll alike."""

from __future__ import annotations

SIDES = 1 << 32


def rolled(dice: int, seed: int) -> int:
    """Return the next state of the dice, from 1 below :data:`SIDES` (xorshift32, Marsaglia 2003).

    ``dice`` is the state before, 0 for dice that were never rolled: those start by ``seed``.
    """
    dice = dice or (seed * 2654435761 & 0xFFFFFFFF) or 1
    dice ^= (dice << 13) & 0xFFFFFFFF
    dice ^= dice >> 17
    return dice ^ (dice << 5) & 0xFFFFFFFF
