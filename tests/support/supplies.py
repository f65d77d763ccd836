"""The kernel's supplies in a folder of a test's own, and a socket in place of its uevents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write(root: Path, name: str, **files: str) -> None:
    """Make one supply."""
    folder = root / name
    folder.mkdir(exist_ok=True)
    for file, text in files.items():
        (folder / file).write_text(text + "\n", encoding="utf-8")


class Poke:
    """A pipe in place of uevents: a byte into ``outer`` is an event."""

    def __init__(self) -> None:
        self.inner, self.outer = os.pipe()

    def fileno(self) -> int:
        """Return what is readable while an event waits."""
        return self.inner

    def changed(self) -> bool:
        """Take events in."""
        return bool(os.read(self.inner, 100))

    def close(self) -> None:
        """Close both ends."""
        os.close(self.inner)
        os.close(self.outer)
