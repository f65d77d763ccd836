"""Places and stand-ins for the time of one call."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = Path("/dev/shm")


@contextlib.contextmanager
def stand_in(owner: Any, name: str, value: object) -> Iterator[None]:
    """Put ``value`` in the place of an attribute for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Give an empty folder, in memory where there is such a file system."""
    found = tempfile.mkdtemp(prefix="linkhold-fuzz-", dir=MEMORY if MEMORY.is_dir() else None)
    try:
        yield Path(found)
    finally:
        shutil.rmtree(found, ignore_errors=True)
