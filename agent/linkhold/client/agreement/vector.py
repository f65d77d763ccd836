"""The vector that ranks reduce: a wish as int32 numbers, the maximum of all as an answer. Pure.

Each element is one request; the maximum is "any rank asks". What needs the minimum of all ranks
(seconds left, cost, "every rank ends") travels negated: min(x) = -max(-x).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = 2
"""Grows with every change of what an element means."""
LENGTH = 20
MOST = 2**31 - 1
"""Largest int32; as a time it means "none"."""


class OutOfStep(LinkholdError):
    """The ranks do not run the same thing: other versions, or other numbers of ``step()``."""


class Reason(IntEnum):
    """Why a rank asks; of several the largest is told."""

    NONE = 0
    OTHER = 1
    PROGRAM = 2
    SCHEDULE = 3
    RETRY = 4
    NETWORK = 5
    BATTERY = 6
    REBALANCE = 7
    MAINTENANCE = 8
    SHUTDOWN = 9
    SPOT = 10
    LOW = 11


@dataclass(frozen=True, slots=True)
class Agreed:
    """The answer, the same on every rank: each field is over all ranks.

    ``checkpoint`` and ``stop`` are what :func:`mark` makes of an id, 0 for none. ``blocked``: a
    rank can save nowhere now. ``left_ms`` is the time until the first machine goes, ``save_ms``
    what a save takes where it takes longest. ``leaving``: every rank is in ``exit()`` or
    ``close()``; ``closing``: at least one takes part for the last time. ``cost_us`` and ``step_us``
    were measured (0: not yet). ``apart`` are the lowest and the highest number of a step where
    ranks are not at the same one.
    """

    hold: Reason = Reason.NONE
    checkpoint: int = 0
    checkpoint_reason: Reason = Reason.NONE
    local_only: bool = False
    blocked: bool = False
    stop: int = 0
    stop_reason: Reason = Reason.NONE
    left_ms: int | None = None
    save_ms: int = 0
    give_up: bool = False
    leaving: bool = False
    closing: bool = False
    cost_us: int = 0
    step_us: int = 0
    apart: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Wish(Agreed):
    """What one rank brings to an agreement: the same of itself.

    ``every`` is the number of steps between agreements that it works with, ``step`` the number of
    the one that it is at, None where that says nothing: it is at its end.
    """

    every: int = 1
    step: int | None = None


def mark(identity: str) -> int:
    """Return an id as a number that is not 0, the same on every rank."""
    return zlib.crc32(identity.encode()) % (MOST - 1) + 1


def encode(wish: Wish) -> list[int]:
    """Return the elements that this rank brings."""
    elements = [
        VERSION,
        -VERSION,
        int(wish.hold),
        _clamp(wish.checkpoint),
        int(wish.checkpoint_reason),
        int(wish.local_only),
        int(wish.blocked),
        _clamp(wish.stop),
        int(wish.stop_reason),
        -(MOST if wish.left_ms is None else _clamp(wish.left_ms)),
        _clamp(wish.save_ms),
        int(wish.give_up),
        -int(wish.leaving),
        int(wish.closing),
        _clamp(wish.every),
        -_clamp(wish.every),
        -(_clamp(wish.cost_us) or MOST),
        _clamp(wish.step_us),
        0 if wish.step is None else wish.step % MOST,
        -MOST if wish.step is None else -(wish.step % MOST),
    ]
    return elements + [0] * (LENGTH - len(elements))


def decode(elements: Sequence[int]) -> Agreed:
    """Return what the maxima over all ranks mean.

    Raises :class:`OutOfStep` when the ranks do not speak the same version, or count their steps
    to the next agreement differently.
    """
    if len(elements) != LENGTH or elements[0] != VERSION or elements[1] != -VERSION:
        raise OutOfStep(
            "the ranks of this job run different versions of linkhold "
            f"(this one speaks version {VERSION}): install the same one everywhere"
        )
    if elements[14] != -elements[15]:
        raise OutOfStep(
            f"one rank agrees every {elements[14]} steps, another every {-elements[15]}: "
            "every rank must call hold.step() for each step"
        )
    left_ms, cost_us = -elements[9], -elements[16]
    return Agreed(
        hold=_reason(elements[2]),
        checkpoint=elements[3],
        checkpoint_reason=_reason(elements[4]),
        local_only=elements[5] > 0,
        blocked=elements[6] > 0,
        stop=elements[7],
        stop_reason=_reason(elements[8]),
        left_ms=None if left_ms == MOST else left_ms,
        save_ms=elements[10],
        give_up=elements[11] > 0,
        leaving=elements[12] < 0,
        closing=elements[13] > 0,
        cost_us=0 if cost_us == MOST else cost_us,
        step_us=elements[17],
        apart=(-elements[19], elements[18]) if -elements[19] < elements[18] else None,
    )


def _clamp(value: int) -> int:
    """Bring a number that is not negative into the range that no marker uses."""
    return max(0, min(value, MOST - 1))


def _reason(code: int) -> Reason:
    return Reason(code) if code in Reason._value2member_map_ else Reason.OTHER
