"""A lock file: who holds it owns what it stands for, until it lets go or dies.

It is an flock(2), which belongs to the open file and would live on in forked children: a child
closes its copy first thing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from linkhold.client import fork

if TYPE_CHECKING:
    from pathlib import Path

FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
MOST_BYTES = 256


class Claim:
    """One lock file, held."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor

    @classmethod
    def take(cls, path: Path) -> Claim | None:
        """Hold ``path``, made if need be; None while somebody else does. Never waits.

        Raises :class:`OSError` where no lock file can be made.
        """
        with fork.no_fork():
            claim = cls(path, os.open(path, FLAGS, 0o600))
            fork.remember(claim)
        try:
            fcntl.flock(claim.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if claim.named():
                return claim
        except BlockingIOError:
            pass
        except OSError:
            claim.release()
            raise
        claim.release()
        return None

    @property
    def number(self) -> int:
        """The descriptor; -1 once it was let go."""
        return -1 if self._descriptor is None else self._descriptor

    def named(self) -> bool:
        """Tell whether the path still means the file that is held."""
        try:
            there = self.path.stat(follow_symlinks=False)
        except OSError:
            return False
        held = os.fstat(self.number)
        return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)

    def read(self) -> bytes:
        """Return the content; raises :class:`OSError`."""
        return os.pread(self.number, MOST_BYTES, 0)

    def write(self, content: bytes) -> None:
        """Replace the content; raises :class:`OSError`. A crash in between leaves a part of it."""
        os.ftruncate(self.number, 0)
        os.pwrite(self.number, content, 0)

    def release(self, *, unlink: bool = False) -> None:
        """Let go; with ``unlink`` the file goes first, so that nobody takes it in between."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        if unlink:
            with contextlib.suppress(OSError):
                self.path.unlink()
        os.close(descriptor)

    def after_fork(self) -> None:
        """Close the child's copy; the parent's lock stays."""
        self.release()

    def __del__(self) -> None:
        self.release()
