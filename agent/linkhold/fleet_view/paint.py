"""Lines -> what must be written to the terminal, given what stands there: pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

CLEAR = "\x1b[H\x1b[2J"
"""Cursor to the first cell, then erase everything (ECMA-48 CUP and ED)."""
CLEAR_LINE = "\x1b[K"


def changes(before: Sequence[str] | None, after: Sequence[str]) -> str:
    """Return what turns the screen ``before`` into ``after``: only lines that differ.

    Without ``before`` the screen is cleared first. Lines end with their styles off.
    """
    parts = [CLEAR] if before is None else []
    known = before or ()
    for row, line in enumerate(after):
        old = known[row] if row < len(known) else ""
        if line != old:
            parts.append(f"\x1b[{row + 1};1H{line}{CLEAR_LINE if old else ''}")
    parts += [
        f"\x1b[{row + 1};1H{CLEAR_LINE}" for row in range(len(after), len(known)) if known[row]
    ]
    return "".join(parts)
