"""Reading back the files that linkhold keeps, whatever lies in their place.

Standard library only: the guard and `linkhold setup` need it.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 16 << 20
"""Ten thousand covered sockets are 600 KB, a change of the network with all its files 100 KB."""


def read_kept(path: Path, most_bytes: int = MOST_BYTES) -> bytes:
    """Return the content of a regular file; it neither waits nor takes more memory than that.

    Raises OSError, and ValueError for a file that is larger: it is not ours, or damaged.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, no path
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "is no regular file", str(path))
        if found.st_size > most_bytes:
            raise ValueError(f"larger than {most_bytes} bytes")
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"larger than {most_bytes} bytes")
    return content
