"""Scenarios whose figures depend on who else runs on the machine."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

ALONE = bool(os.environ.get("LINKHOLD_LAB_FULL"))
"""Whether the lab has the machine for itself, so that figures hold at once."""


def once_more(run: Callable[[], T], good: Callable[[T], bool]) -> T:
    """Return what ``run`` found, or found the second time where the first was not ``good``.

    Beside other tests the guest's one processor is waited for; what goes wrong twice is ours.
    """
    found = run()
    return found if ALONE or good(found) else run()
