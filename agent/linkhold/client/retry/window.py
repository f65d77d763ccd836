"""The sliding window of a budget, and how it is written down. Pure.

The file is a line that names it, then a CRC-32 and the moments of the retries as 64-bit
nanoseconds of CLOCK_MONOTONIC, which all processes of one boot share. A moment of another boot
lies in the future or is older than the window, and falls out; in the rare case that it does not,
it costs one retry.
"""

from __future__ import annotations

import sys
from array import array

from linkhold.client.retry.sealed import Damaged, seal, unseal

MAGIC = b"linkhold retries 1\n"
_MOMENT_BYTES = 8


def spend(
    moments: tuple[int, ...], now_ns: int, window_s: float, budget: int
) -> tuple[tuple[int, ...], bool]:
    """Return the moments to keep, and whether one more retry is allowed."""
    since_ns = now_ns - int(window_s * 1e9)
    kept = tuple(moment for moment in moments if since_ns < moment <= now_ns)
    return ((*kept, now_ns), True) if len(kept) < budget else (kept, False)


def pack(moments: tuple[int, ...]) -> bytes:
    """Return the moments as bytes."""
    numbers = array("q", moments)
    if sys.byteorder == "big":
        numbers.byteswap()
    return seal(MAGIC, numbers.tobytes())


def unpack(content: bytes) -> tuple[int, ...]:
    """Return the moments in ``content``, none for an empty file; raises :class:`Damaged`."""
    if not content:
        return ()
    body = unseal(MAGIC, content)
    if len(body) % _MOMENT_BYTES:
        raise Damaged("it has another length")
    numbers = array("q")
    numbers.frombytes(body)
    if sys.byteorder == "big":
        numbers.byteswap()
    return tuple(numbers)
