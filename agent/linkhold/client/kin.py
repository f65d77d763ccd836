"""Whether a hold of one job means this process: by itself, or by a process above it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.model.holds import Key, OperatorHold

PROC = Path("/proc")
DEEP = 64
"""Of a chain of parents; a pid that is used again meanwhile could close a circle."""

_known: tuple[int, frozenset[Key]] = (0, frozenset())


def means_us(hold: OperatorHold) -> bool:
    """Tell whether ``hold`` is of this process's job. Reads /proc at its first call."""
    global _known  # noqa: PLW0603 - one process is one family; a fork makes another
    if _known[0] != os.getpid():
        _known = os.getpid(), family()
    return not _known[1].isdisjoint(hold.processes)


def family(pid: int | None = None, proc: Path = PROC) -> frozenset[Key]:
    """Return this process (or ``pid``) and those above it: pid here, and field 22 of stat."""
    found: set[Key] = set()
    pid = os.getpid() if pid is None else pid
    while pid and len(found) < DEEP:
        read = _stat(proc / str(pid) / "stat")
        if read is None or (pid, read[1]) in found:
            break
        found.add((pid, read[1]))
        pid = read[0]
    return frozenset(found)


def _stat(path: Path) -> tuple[int, int] | None:
    """Return parent and start of a process; None when it may not be seen (proc(5))."""
    try:
        fields = path.read_bytes().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
