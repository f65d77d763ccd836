"""At most so many calls at once to one dependency from this node: each holds a locked file.

The kernel frees a slot when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import os
import random
from typing import TYPE_CHECKING

from linkhold.client import fork
from linkhold.client.retry import files

if TYPE_CHECKING:
    from linkhold.client.voice import Voice

_dice = random.SystemRandom()


class Slots:
    """The slots of one dependency; when their files cannot be used, every call passes."""

    def __init__(self, dependency: str, count: int, voice: Voice) -> None:
        self._dependency = dependency
        self._count = count
        self._voice = voice
        self._held: set[int] = set()
        self._told = False
        fork.remember(self)

    def take(self) -> int | None:
        """Return a slot, to be given back by :meth:`leave`; None when all are taken.

        -1 stands for a slot without a file.
        """
        try:
            return self._free_one()
        except OSError as error:
            if not self._told:
                self._told = True
                self._voice.warning(
                    f"calls of {self._dependency} are not limited to {self._count} at once: {error}"
                )
            return -1

    def leave(self, slot: int) -> None:
        """Give a slot back."""
        if slot in self._held:
            self._held.discard(slot)
            os.close(slot)

    def after_fork(self) -> None:
        """Close the child's copies: a lock ends when all copies of its descriptor are closed."""
        held, self._held = self._held, set()
        for slot in held:
            with contextlib.suppress(OSError):
                os.close(slot)

    def _free_one(self) -> int | None:
        for number in _dice.sample(range(self._count), self._count):
            descriptor = files.open_shared(files.path_of(self._dependency, f"slot{number}"))
            if files.try_lock(descriptor):
                self._held.add(descriptor)
                return descriptor
            os.close(descriptor)
        return None
