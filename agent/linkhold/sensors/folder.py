"""Sees that files of a folder are replaced or removed, in the moment it happens (inotify(7))."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

IN_MOVED_TO, IN_DELETE, IN_DELETE_SELF, IN_IGNORED = 0x80, 0x200, 0x400, 0x8000
IN_ONLYDIR = 0x0100_0000
BUFFER_BYTES = 16 << 10
_EVENT = struct.Struct("=iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class FolderWatch:
    """Watches one folder. Register :meth:`fileno` for reading; reading never touches the disk."""

    def __init__(self, folder: Path) -> None:
        """Begin to watch. Raises OSError where the folder is not there. May block: a disk."""
        self._fd: int = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        mask = IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_ONLYDIR
        if _LIBC.inotify_add_watch(self._fd, os.fsencode(folder), mask) < 0:
            code = ctypes.get_errno()
            self.close()
            raise OSError(code, os.strerror(code), str(folder))

    def __del__(self) -> None:
        """Close what a thread opened when nobody waited for it any more."""
        self.close()

    def fileno(self) -> int:
        """Return a descriptor that is readable when something changed."""
        return self._fd

    def read(self) -> bool:
        """Take the changes in; False when the folder is gone, so that nothing comes any more."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = os.read(self._fd, BUFFER_BYTES)
        position, there = 0, True
        while position < len(data):
            _, mask, _, name_bytes = _EVENT.unpack_from(data, position)
            position += _EVENT.size + name_bytes
            there = there and not mask & IN_IGNORED
        return there

    def close(self) -> None:
        """Watch no more; a second call does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
