"""What a process costs, from /proc: CPU time, memory, wake-ups."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path


def cpu_ms(pid: int) -> float:
    """Return the CPU time of a process so far, threads that ended included.

    The clock is clock_getcpuclockid(3) of the process: nanoseconds, where /proc counts in ticks.
    """
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e6


def wakeups(pid: int) -> int:
    """Return how often the threads that live now went to sleep and were woken."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            total += _fields(task / "status").get("voluntary_ctxt_switches", 0)
    return total


@dataclass(frozen=True)
class Memory:
    """Kilobytes; ``own`` is what would be free again if the process ended."""

    pss: int
    rss: int
    own: int


def memory(pid: int) -> Memory:
    """Return the memory of a process."""
    fields = _fields(Path(f"/proc/{pid}/smaps_rollup"))
    own = fields["Private_Clean"] + fields["Private_Dirty"]
    return Memory(fields["Pss"], fields["Rss"], own)


def threads(pid: int) -> int:
    """Return the number of threads."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def descriptors(pid: int) -> int:
    """Return the number of open descriptors."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def children(pid: int) -> list[int]:
    """Return the process ids of the children."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(word) for one in lists for word in one.read_text().split()]


def name_of(pid: int) -> str:
    """Return the name of the program that a process runs."""
    return Path(f"/proc/{pid}/comm").read_text().strip()


def _fields(path: Path) -> dict[str, int]:
    """Return the numbers of a file with lines ``Name: number ...``."""
    found = {}
    for line in path.read_text().splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdecimal():
            found[name] = int(words[0])
    return found
