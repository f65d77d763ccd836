"""Which programs run here: read from /proc, without starting any, and only those of this host.

A process of a container shows up in /proc as well; it is told apart by its namespaces
(/proc/PID/ns, proc(5)). Where those may not be read, the process counts as the host's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.survey.files import Reader

PROCESSES = 32768
COMM_BYTES = 15  # TASK_COMM_LEN without the NUL: "NetworkManager" fits, "systemd-networkd" does not


@dataclass(frozen=True, slots=True)
class Process:
    """A running process: ``comm`` is the kernel's short name, cut at 15 bytes."""

    pid: int
    comm: str
    words: tuple[str, ...]


def pids(reader: Reader) -> Iterator[int]:
    """Yield the processes in /proc, at most 32768; says so in ``problems`` when there are more."""
    try:
        entries = reader.path("/proc").iterdir()
        count = 0
        for entry in entries:
            if not entry.name.isdigit():
                continue
            count += 1
            if count > PROCESSES:
                reader.problems.append(f"/proc: more than {PROCESSES} processes")
                return
            yield int(entry.name)
    except OSError as error:
        reader.problems.append(f"/proc: {error.strerror}")


def elsewhere(reader: Reader, pid: int, kind: str) -> bool:
    """Whether a process is known to live in another namespace of this kind (net, pid, mnt)."""
    ours = reader.link(f"/proc/self/ns/{kind}")
    its = reader.link(f"/proc/{pid}/ns/{kind}")
    return bool(ours and its) and ours != its


def running(reader: Reader, wanted: frozenset[str]) -> tuple[Process, ...]:
    """Return this host's processes whose name is one of ``wanted`` (cut at 15 bytes)."""
    if not reader.exists("/proc/1/comm"):
        reader.problems.append("/proc: processes of others are hidden (hidepid)")
    short = {name[:COMM_BYTES] for name in wanted}
    found = []
    for pid in pids(reader):
        comm = reader.line(f"/proc/{pid}/comm")
        if comm in short and not elsewhere(reader, pid, "net"):
            found.append(Process(pid, comm, words(reader, pid)))
    return tuple(found)


def words(reader: Reader, pid: int) -> tuple[str, ...]:
    """Return the command line of a process, at most 4 KiB of it."""
    data = reader.raw(f"/proc/{pid}/cmdline", 4096) or b""
    return tuple(data.decode("utf-8", "backslashreplace").rstrip("\0").split("\0"))
