"""Which processes hold which sockets, and which threads they run: read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from linkhold.survey import processes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkhold.survey.files import Reader

THREADS = 1024
_PREFIX = "socket:["


@dataclass(frozen=True, slots=True)
class Owners:
    """The processes of each socket, by its inode, lowest pid first: a fork shares its sockets.

    ``unread`` are processes whose descriptors this user may not see.
    """

    by_inode: Mapping[int, tuple[int, ...]]
    unread: tuple[int, ...] = ()


def owners(reader: Reader, pids: Iterable[int] | None = None) -> Owners:
    """Return who holds the sockets of these processes, or of all; ended ones hold none.

    A process's descriptors may be read by its user with the rights of ptrace(2), and by root.
    """
    found: dict[int, tuple[int, ...]] = {}
    unread = []
    for pid in sorted(processes.pids(reader) if pids is None else set(pids)):
        try:
            for inode in _sockets(f"{reader.root}/proc/{pid}/fd"):
                found[inode] = (*found.get(inode, ()), pid)
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            unread.append(pid)
    return Owners(found, tuple(unread))


def threads(reader: Reader, pid: int) -> frozenset[str]:
    """Return the names of a process's threads, of at most 1024: libraries name theirs."""
    folder = f"/proc/{pid}/task"
    return frozenset(reader.line(f"{folder}/{one}/comm") for one in _some(reader, folder)) - {""}


def _some(reader: Reader, folder: str) -> list[str]:
    try:
        with os.scandir(reader.path(folder)) as entries:
            return [entry.name for entry in islice(entries, THREADS)]
    except OSError:
        return []


def _sockets(folder: str) -> Iterator[int]:
    """Yield the sockets in a folder of descriptors, each once; raises :class:`OSError`."""
    seen = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                # Not by pathlib: ten thousand descriptors are an ordinary process.
                text = os.readlink(entry.path)  # noqa: PTH115
            except FileNotFoundError:
                continue  # closed meanwhile
            if text.startswith(_PREFIX):
                seen.add(int(text[len(_PREFIX) : -1]))
    yield from seen
