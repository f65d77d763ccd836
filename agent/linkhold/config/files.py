"""Reading small files that a person named: whatever the path is, it neither hangs nor floods."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MAX_BYTES = 1 << 20


class UnreadableError(Exception):
    """The file cannot be read; the text says why. ``missing``: there is no such file."""

    def __init__(self, reason: str, *, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


def read_small(path: Path) -> bytes:
    """Return the content of the regular file ``path``, at most 1 MiB.

    Raises:
        UnreadableError: it is missing, no regular file, too large or not readable.
    """
    try:
        _refuse_special(path.stat())
        # Between stat and open the path may have become a FIFO, where a plain open would wait.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 -- a descriptor, no path
            _refuse_special(os.fstat(descriptor))
            content = file.read(MAX_BYTES + 1) or b""  # None: it would wait, as /proc/kmsg
    except ValueError:
        raise UnreadableError("is no file name: it holds a NUL byte") from None
    except OSError as error:
        missing = error.errno == errno.ENOENT
        reason = "does not exist" if missing else f"cannot be read: {error.strerror}"
        raise UnreadableError(reason, missing=missing) from None
    if len(content) > MAX_BYTES:
        raise UnreadableError(f"is larger than {MAX_BYTES} bytes")
    return content


def _refuse_special(status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableError("is a directory")
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError("is no regular file")
