"""What somebody can do about a change that is neither committed nor undone: in words.

One place, so that no command sends people to another one which sends them back. Standard library
only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from linkhold.actuators.journal import FAILED, WAITING

if TYPE_CHECKING:
    from linkhold.actuators.journal import Document

LATE_S = -10.0
"""A guard undoes a change within a second of its deadline; so late there is none."""
ROLL_BACK = "linkhold bond rollback"


def to_do(found: Document, *, left: bool) -> str:
    """Return how an unfinished change ends, and by which command.

    ``left``: nobody is at work on it any more (:meth:`linkhold.actuators.journal.Journal.is_left`).
    """
    if left:
        return f"nobody is at work on it any more; end it with: {ROLL_BACK}"
    if found["state"] == WAITING:
        left_s = undone_in_s(found)
        end = f"end it with: linkhold bond confirm, or {ROLL_BACK}"
        if left_s < LATE_S:
            return f"its guard is gone, so that nothing undoes it by itself; {end}"
        return f"undone in {max(left_s, 0):.0f} s unless confirmed; {end}"
    if found["state"] == FAILED:
        return f"undoing it failed; try again with: {ROLL_BACK}"
    return f"process {found.get('pid', '?')} is at work; wait until it has ended"


def undone_in_s(found: Document) -> float:
    """Return after how many seconds its guard undoes a change that waits."""
    return float((found["deadline_mono_ns"] - time.monotonic_ns()) / 1e9)


def in_words(found: Document, *, left: bool) -> str:
    """Return which change is not finished and what to do about it."""
    what = "waits for confirmation" if found["state"] == WAITING else f"is {found['state']}"
    doing = to_do(found, left=left)
    return f"a change of {found['bond']} ({found['action']}) {what}: {doing}"
