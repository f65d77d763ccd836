"""The training processes of a node, in whatever network namespace, grouped to jobs.

A process gives itself away by its command, by the environment it started with (proc(5), readable
to its own user and to root), by a GPU that it has open, or by having loaded PyTorch.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING

from linkhold.decide.training import Found, evidence, grouped, kept
from linkhold.decide.training.grouping import above
from linkhold.decide.training.marks import MARKERS, devices, is_tester, launcher, program
from linkhold.model.jobs import Training, TrainingProcess
from linkhold.survey.namespaces import inode_of
from linkhold.survey.processes import pids

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.survey.files import Reader

ENVIRON_BYTES = 2 << 20
COMMAND_BYTES = 16 << 10
"""Of a command; users choose it, and thousands of processes may have one of megabytes."""
MOST_WORDS, MOST_WORD = 32, 256
"""Of the command of a process that does not train: enough to tell what it runs."""
MOST_TRAINING = 2048
"""Processes of training that are looked at; a node with eight GPUs has some hundred."""
MAPS_BYTES = 4 << 20
DESCRIPTORS = 1024
PF_KTHREAD = 0x00200000
"""include/linux/sched.h: kernel threads have no memory, command or environment."""
TORCH_BYTES = 64 << 20
"""A process with PyTorch loaded holds more than that; others need no look at their maps."""
_TORCH = (b"/libtorch_cpu.so", b"/libtorch_python.so", b"/libtorch.so")
_GPU_NODES = ("nvidia", "kfd", "davinci")


def find(reader: Reader) -> Training:
    """Return the training processes now. Blocking: 0.1 s with 2,000 processes."""
    return Finder().find(reader)


@dataclass(frozen=True, slots=True)
class _Stat:
    """The fields of /proc/PID/stat that are used; ``started`` in clock ticks since boot."""

    pid: int
    comm: str
    parent: int
    started: int
    kernel: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class _Read:
    """What was read of one process; ``hidden``: its environment may not be read."""

    words: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    why: tuple[str, ...] = ()
    hidden: bool = False


class Finder:
    """Finds training again and again; what it has read of a process it does not read again.

    A process is known by pid, start and name: exec(2) changes no more than the name.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, str], _Read] = {}

    def find(self, reader: Reader) -> Training:
        """Return the training processes now."""
        before = len(reader.problems)
        own = os.getpid()
        stats = [stat for pid in pids(reader) if (stat := _stat(reader, pid)) and not stat.kernel]
        parents = {stat.pid: stat.parent for stat in stats}
        gpus = any(name.startswith(_GPU_NODES) for name in reader.names("/dev"))
        known: dict[tuple[int, int, str], _Read] = {}
        found: list[Found] = []
        for stat in stats:
            key = (stat.pid, stat.started, stat.comm)
            read = self._known.get(key) or _read(reader, stat.pid)
            if not read.why and (shown := _shown(reader, stat, read, gpus=gpus)):
                read = replace(read, why=shown)
            known[key] = read
            starts = launcher(read.words) if read.words else ""
            if not (read.why or starts):
                known[key] = replace(read, words=_beginning(read.words))
            elif len(found) >= MOST_TRAINING:
                reader.problems.append(f"/proc: more than {MOST_TRAINING} processes train")
                break
            elif stat.pid != own:
                process = _process(reader, stat, read, is_launcher=bool(starts))
                found.append(Found(process, above(parents, stat.pid)))
        self._known = known
        unread = sum(read.hidden for read in known.values())
        return Training(grouped(found), unread, tuple(reader.problems[before:]))


def open_files(reader: Reader, pid: int) -> Iterator[str]:
    """Yield the paths that a process has open, of at most 1024; none where they are hidden."""
    try:
        with os.scandir(f"{reader.root}/proc/{pid}/fd") as entries:
            for entry in islice(entries, DESCRIPTORS):
                try:
                    yield os.readlink(entry.path)  # noqa: PTH115 - thousands of them
                except OSError:
                    continue
    except OSError:
        return


def _stat(reader: Reader, pid: int) -> _Stat | None:
    """Return what /proc/PID/stat says; None for a process that has ended, a zombie too."""
    data = _bytes(reader, pid, "stat", 4096) or b""
    start, end = data.find(b"("), data.rfind(b")")
    fields = data[end + 2 :].split()
    if start < 0 or len(fields) < 22 or fields[0] in {b"Z", b"X"}:  # noqa: PLR2004 - proc(5)
        return None
    if not all(fields[number].isdigit() for number in (1, 6, 19, 21)):
        return None
    return _Stat(
        pid,
        data[start + 1 : end].decode("utf-8", "backslashreplace"),
        parent=int(fields[1]),
        started=int(fields[19]),
        kernel=bool(int(fields[6]) & PF_KTHREAD),
        bytes=int(fields[21]) * _PAGE,
    )


def _read(reader: Reader, pid: int) -> _Read:
    command = (_bytes(reader, pid, "cmdline", COMMAND_BYTES) or b"").rstrip(b"\0")
    words = tuple(command.decode("utf-8", "backslashreplace").split("\0")) if command else ()
    try:
        data = _raw(reader, pid, "environ", ENVIRON_BYTES)
    except (FileNotFoundError, ProcessLookupError):
        return _Read()
    except OSError:
        return _Read(words, {}, evidence(words, {}), hidden=True)
    starts = words and launcher(words)
    env = kept(_variables(data)) if starts or any(mark in data for mark in MARKERS) else {}
    return _Read(words, env, evidence(words, env))


def _beginning(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(word[:MOST_WORD] for word in words[:MOST_WORDS])


def _shown(reader: Reader, stat: _Stat, read: _Read, *, gpus: bool) -> tuple[str, ...]:
    """Return what shows only by and by: a GPU that was opened, PyTorch that was loaded."""
    if gpus and not read.hidden:
        opened = devices(open_files(reader, stat.pid), stat.comm)
        if opened:
            return (f"has {', '.join(opened)} open",)
    if stat.bytes < TORCH_BYTES or not program(read.words).python or is_tester(read.words):
        return ()
    maps = _bytes(reader, stat.pid, "maps", MAPS_BYTES) or b""
    return ("has PyTorch loaded",) if any(name in maps for name in _TORCH) else ()


def _process(reader: Reader, stat: _Stat, read: _Read, *, is_launcher: bool) -> TrainingProcess:
    env = read.env
    if not env and not read.hidden:  # given away by devices or libraries: its settings matter too
        env = kept(_variables(_bytes(reader, stat.pid, "environ", ENVIRON_BYTES) or b""))
    return TrainingProcess(
        stat.pid,
        stat.started,
        _uid(reader, stat.pid),
        stat.comm,
        read.words,
        env,
        inode_of(reader, stat.pid),
        is_launcher=is_launcher,
        why=read.why,
    )


def _uid(reader: Reader, pid: int) -> int:
    """Return the real user; the owner of /proc/PID is root where a process is not dumpable."""
    for line in (_bytes(reader, pid, "status", 4096) or b"").splitlines():
        words = line.split()
        if words[:1] == [b"Uid:"] and words[1:] and words[1].isdigit():
            return int(words[1])
    return 0


def _variables(data: bytes) -> Iterator[tuple[str, str]]:
    for entry in data.split(b"\0"):
        key, equals, value = entry.decode("utf-8", "backslashreplace").partition("=")
        if equals:
            yield key, value


def _bytes(reader: Reader, pid: int, name: str, limit: int) -> bytes | None:
    try:
        return _raw(reader, pid, name, limit)
    except OSError:
        return None


def _raw(reader: Reader, pid: int, name: str, limit: int) -> bytes:
    # Not by pathlib and file objects: thousands of processes are looked at.
    descriptor = os.open(f"{reader.root}/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    try:
        data = os.read(descriptor, min(limit, 65536))
        while len(data) < limit and (more := os.read(descriptor, limit - len(data))):
            data += more
        return data
    finally:
        os.close(descriptor)


_PAGE = os.sysconf("SC_PAGE_SIZE")
