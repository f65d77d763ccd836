"""The state file: always whole, readable by everyone, replaced in one step."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from linkhold.model import StoreError

if TYPE_CHECKING:
    from pathlib import Path

MODE = 0o644


class StateFile:
    """Writes ``path`` by writing a file beside it and renaming that over it (rename(2)).

    The run directory is a tmpfs, so there is no fsync: the file is about the running boot.
    """

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._new = f"{path}.new"

    def write(self, document: bytes) -> None:
        """Replace the file; raises :class:`StoreError` and leaves the old one when it cannot."""
        try:
            fd = os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, MODE)
            try:
                os.fchmod(fd, MODE)  # whatever the umask says
                written = os.write(fd, document)
            finally:
                os.close(fd)
            if written != len(document):
                raise StoreError(f"{self._path}: no space left")
            os.replace(self._new, self._path)  # noqa: PTH105 - Path costs 20 us on the event path
        except OSError as error:
            raise StoreError(f"{self._path}: {error.strerror}") from error
