"""Retries inside retries multiply: 3 layers of 4 attempts are 64. Only the outermost one retries.

Whoever is inside an attempt is told by a context variable, which tasks and ``asyncio.to_thread``
inherit and plain threads do not. The mark ends with its attempt and with its process, so that a
task or a child that outlives the attempt retries by itself.
"""

from __future__ import annotations

import os
from contextvars import ContextVar


class Mark:
    """That an attempt is under way."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._over = False
        self._outer = _current.get()
        _current.set(self)

    @property
    def holds(self) -> bool:
        """Whether its attempt still goes on, in this process."""
        return not self._over and self._pid == os.getpid()

    def end(self) -> None:
        """End it. An attempt may end in another context than it began in (a generator's)."""
        self._over = True
        if _current.get() is self:
            _current.set(self._outer)


_current: ContextVar[Mark | None] = ContextVar("linkhold_retry", default=None)


def inside() -> bool:
    """Tell whether this code runs inside an attempt of a retry."""
    mark = _current.get()
    return mark is not None and mark.holds
