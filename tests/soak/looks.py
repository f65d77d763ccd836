"""What a running part of the service has: memory, descriptors, threads, children, files."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from bench import processes
from soak.growth import Look

if TYPE_CHECKING:
    from pathlib import Path

BLOCK_BYTES = 512
"""Of st_blocks in stat(2), whatever the file system's own is."""


def look(at_s: float, pid: int, *folders: Path) -> Look | None:
    """Return the figures of a process and of the folders that are its own; None if it is gone."""
    try:
        memory = processes.memory(pid)
        figures = {
            "PSS": float(memory.pss),
            "own memory": float(memory.own),
            "descriptors": float(processes.descriptors(pid)),
            "threads": float(processes.threads(pid)),
            "children": float(len(processes.children(pid))),
        }
    except (OSError, KeyError):  # it ended between two files of /proc
        return None
    if folders:
        figures["files"] = float(files_in(*folders))
        if database := _database_kb(*folders):
            figures["database"] = database
    return Look(at_s, figures)


def files_in(*folders: Path) -> int:
    """Return the number of files in folders and all below them; 0 where there is no folder."""
    return sum(path.is_file() for folder in folders for path in folder.rglob("*"))


def _database_kb(*folders: Path) -> float:
    size = 0
    for folder in folders:
        for path in folder.glob("*.db*"):
            with suppress(OSError):
                size += path.stat().st_blocks * BLOCK_BYTES
    return size / 1024
