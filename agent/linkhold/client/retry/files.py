"""The small files that processes of one user on one node share: budgets, breakers and slots.

Each is opened, locked (flock) and closed anew, so that nothing is held over a fork or a crash.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER_VARIABLE = "LINKHOLD_RETRY_DIR"
PATIENCE_S = 0.25
"""Locks are held for microseconds; who waits longer waits for a frozen process."""
LOOK_S = 0.002
SHOWN = 40


def folder() -> Path:
    """Return the folder of the shared files: nothing is created.

    ``LINKHOLD_RETRY_DIR`` if set, else ``linkhold-retry`` in ``$XDG_RUNTIME_DIR``, without one
    ``linkhold-retry-<uid>`` in the folder for temporary files.
    """
    named = os.environ.get(FOLDER_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute() and runtime.is_dir():
        return runtime / "linkhold-retry"
    return Path(tempfile.gettempdir()) / f"linkhold-retry-{os.geteuid()}"


def path_of(dependency: str, kind: str) -> Path:
    """Return the file of a dependency; its name stays readable and cannot leave the folder."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", dependency)[:SHOWN].lstrip(".")
    mark = hashlib.sha256(dependency.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return folder() / f"{plain}-{mark}.{kind}"


def open_shared(path: Path) -> int:
    """Open a shared file, creating it and its folder; the caller closes the descriptor.

    Raises :class:`OSError`, also for a folder or a link that somebody else made in our place.
    """
    paths.claim_dir(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    return os.open(path, flags, 0o600)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the lock of a shared file; yield its descriptor.

    Raises :class:`OSError`, :class:`TimeoutError` among them when a frozen process holds it.
    """
    descriptor = open_shared(path)
    try:
        _lock(descriptor, path)
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that was forked meanwhile has a copy
        os.close(descriptor)


def rewrite(descriptor: int, content: bytes) -> None:
    """Replace the content of a file whose lock is held; raises :class:`OSError`."""
    written = os.pwrite(descriptor, content, 0)
    if written < len(content):
        os.ftruncate(descriptor, 0)
        raise OSError(f"only {written} of {len(content)} bytes were written")
    os.ftruncate(descriptor, len(content))


def try_lock(descriptor: int) -> bool:
    """Take the lock if it is free; flock(2) belongs to this opening of the file."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lock(descriptor: int, path: Path) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not try_lock(descriptor):
        if time.monotonic() > end_s:
            raise TimeoutError(f"{path}: another process holds the lock for {PATIENCE_S} s")
        time.sleep(LOOK_S)
