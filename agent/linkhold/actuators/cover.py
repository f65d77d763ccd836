"""Keepalive from outside, for the sockets of training processes that have no client of ours.

pidfd_getfd(2) (Linux 5.6) gives a copy of another process's descriptor; what is set on the copy
holds for the socket. The process is neither stopped nor changed. It needs CAP_SYS_PTRACE, and
Yama or another security module may forbid it all the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold import tcp
from linkhold.actuators.cover_record import Original, Record
from linkhold.decide import cover as decide
from linkhold.decide.cover import Holder
from linkhold.model import HostError
from linkhold.model.cover import Outcome, TcpSocket, judge

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from linkhold.decide.cover import Known, Task
    from linkhold.model.cover import Exclusions
    from linkhold.model.jobs import TrainingProcess
    from linkhold.model.keepalive import Timers

PIDFD_GETFD = 438
"""The same number on every architecture but alpha (Linux 5.6)."""
BATCH = 64
"""Sockets that are held at a time: while we hold a copy, a close by their owner has to wait."""
ERRORS_MOST = 20

_LIBC = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class CoverResult:
    """What a scan found: connections by :class:`Outcome`, processes looked at, what went wrong.

    ``clients`` are the pids that are left to a client of ours. ``errors`` come again with each
    scan while their cause lasts.
    """

    counts: Mapping[str, int]
    processes: int
    clients: tuple[int, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restored:
    """Sockets that were put back, that were gone, that their program had changed, and problems."""

    restored: int = 0
    gone: int = 0
    changed: int = 0
    problems: tuple[str, ...] = ()


class Cover:
    """Covers sockets of other processes, remembers what they had, and puts it back.

    Blocking, a few milliseconds per thousand descriptors: call it in a thread, one call at a time.
    ``folder`` is the agent's state folder. Sockets that an earlier agent covered are known again.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._record = Record(folder)
        self._known: dict[int, Known] = {}

    def scan(
        self, processes: Iterable[TrainingProcess], timers: Timers, exclude: Exclusions
    ) -> CoverResult:
        """Cover what is new in these processes, and forget what is gone."""
        errors: list[str] = [*self._record.take_problems()]
        holders = [holder for one in processes if (holder := _holder(one, errors)) is not None]
        ours = {original.inode: original.given for original in self._record.originals}
        found = decide.tasks(holders, self._known | ours, timers)
        known = dict(found.known)
        refused: set[int] = set()
        self._forget({*known, *(task.inode for task in found.tasks)}, holders)
        tasks = iter(found.tasks)
        while batch := list(islice(tasks, BATCH)):
            self._do(batch, timers, exclude, known, _Errors(errors, refused))
        self._known = known
        return CoverResult(
            decide.counts(known.values()), len(holders), found.clients, tuple(errors[:ERRORS_MOST])
        )

    def restore(self) -> Restored:
        """Put every socket back that is still as it was left; it starts no new scan."""
        done: Counter[str] = Counter()
        problems = [*self._record.take_problems()]
        left: list[Original] = []
        for process, originals in self._record.by_process().items():
            try:
                _put_back(process, originals, done)
            except OSError as error:
                left += originals
                problems.append(_refusal(f"process {process[0]}", error))
        self._known = {}
        try:
            self._record.replace(left)
        except HostError as error:
            problems.append(str(error))
        return Restored(
            done["restored"], done["gone"], done["changed"], tuple(problems[:ERRORS_MOST])
        )

    def _forget(self, seen: Container[int], holders: Sequence[Holder]) -> None:
        """Drop what is gone from the record, but nothing of living processes not looked at."""
        looked = {(holder.pid, holder.started) for holder in holders}
        self._record.originals = tuple(
            one
            for one in self._record.originals
            if one.inode in seen
            or ((one.pid, one.started) not in looked and _started(one.pid) == one.started)
        )

    def _do(
        self,
        batch: Sequence[Task],
        timers: Timers,
        exclude: Exclusions,
        known: dict[int, Known],
        errors: _Errors,
    ) -> None:
        """Look at some sockets, remember on disk what they have, then set them."""
        with contextlib.ExitStack() as stack:
            to_cover: list[tuple[tcp.Socket, Task]] = []
            fresh: list[Original] = []
            for sock, task in _copies(batch, stack, errors):
                outcome = _judge(sock, task, exclude, timers)
                if isinstance(outcome, Original):
                    fresh.append(outcome)
                    to_cover.append((sock, task))
                else:
                    known[task.inode] = outcome
            if not to_cover:
                return
            try:
                self._record.note(fresh)
            except HostError as error:
                errors.add(str(error))
                return  # without a memory of what was there nothing is written
            for sock, task in to_cover:
                known[task.inode] = _set(sock, task.before, timers)


@dataclass(frozen=True, slots=True)
class _Errors:
    """What goes wrong in one scan; a process that refuses itself is not asked again."""

    texts: list[str]
    refused: set[int]

    def add(self, text: str) -> None:
        self.texts.append(text)


def _holder(process: TrainingProcess, errors: list[str]) -> Holder | None:
    """Return a process with its descriptors; None when it has ended or hides them."""
    try:
        found = tuple(tcp.descriptors(f"/proc/{process.pid}/fd"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        errors.append(_refusal(f"process {process.pid} ({process.comm})", error))
        return None
    return Holder(process.pid, process.started, process.comm, found)


def _copies(
    batch: Sequence[Task], stack: contextlib.ExitStack, errors: _Errors
) -> Iterator[tuple[tcp.Socket, Task]]:
    pidfds: dict[int, int] = {}
    for task in batch:
        holder = task.holder
        if holder.pid in errors.refused:
            continue
        try:
            if holder.pid not in pidfds:
                pidfds[holder.pid] = stack.enter_context(_process(holder.pid, holder.started))
            sock = _copy(pidfds[holder.pid], task.descriptor)
        except OSError as error:
            if error.errno != errno.EBADF:  # closed meanwhile
                errors.refused.add(holder.pid)
            if error.errno not in (errno.EBADF, errno.ESRCH):
                errors.add(_refusal(f"process {holder.pid} ({holder.comm})", error))
            continue
        stack.enter_context(contextlib.closing(sock))
        if os.fstat(sock.fileno()).st_ino == task.inode:
            yield sock, task


@contextlib.contextmanager
def _process(pid: int, started: int) -> Iterator[int]:
    """Open a process, and check that it is still the one that is meant (ESRCH if not)."""
    pidfd = os.pidfd_open(pid)
    try:
        if _started(pid) != started:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        yield pidfd
    finally:
        os.close(pidfd)


def _started(pid: int) -> int:
    """Return field 22 of /proc/PID/stat; the name before may contain spaces and brackets."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    return int(text.rpartition(b")")[2].split()[19])


def _copy(pidfd: int, descriptor: int) -> tcp.Socket:
    copy = _LIBC.syscall(
        ctypes.c_long(PIDFD_GETFD), ctypes.c_long(pidfd), ctypes.c_long(descriptor), ctypes.c_long()
    )
    if copy < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return tcp.adopt(copy)


def _judge(sock: tcp.Socket, task: Task, exclude: Exclusions, timers: Timers) -> Original | Known:
    """Return what to remember of a socket to cover, else what became of it."""
    if task.before is not None:
        return Original(task.holder.pid, task.holder.started, task.inode, task.before, timers)
    try:
        found = tcp.look(sock)
    except OSError:
        return Outcome.REFUSED
    if not isinstance(found, TcpSocket):
        return found
    outcome = judge(found, exclude)
    if outcome is not Outcome.COVERED:
        return outcome
    return Original(task.holder.pid, task.holder.started, task.inode, found.timers, timers)


def _set(sock: tcp.Socket, before: Timers | None, timers: Timers) -> Known:
    try:
        if before is not None:
            return timers if tcp.change(sock, before, timers, before) else Outcome.OWN
        return timers if tcp.switch(sock, timers, on=True) else Outcome.REFUSED
    except OSError:
        return Outcome.REFUSED


def _put_back(process: tuple[int, int], originals: Sequence[Original], done: Counter[str]) -> None:
    """Restore the sockets of one process. Raises :class:`OSError` when it may not be touched."""
    try:
        with _process(*process) as pidfd:
            links = tuple(tcp.descriptors(f"/proc/{process[0]}/fd"))
            sockets = Holder(*process, "", links).sockets
            for original in originals:
                done[_put_back_one(pidfd, sockets.get(original.inode), original)] += 1
    except (FileNotFoundError, ProcessLookupError):
        done["gone"] += len(originals)


def _put_back_one(pidfd: int, descriptor: int | None, original: Original) -> str:
    if descriptor is None:
        return "gone"
    try:
        sock = _copy(pidfd, descriptor)
    except OSError as error:
        if error.errno == errno.EBADF:
            return "gone"
        raise
    with contextlib.closing(sock):
        if os.fstat(sock.fileno()).st_ino != original.inode:
            return "gone"
        done = tcp.change(sock, original.given, None, original.found)
        return "restored" if done else "changed"


def _refusal(what: str, error: OSError) -> str:
    if error.errno == errno.ENOSYS:
        return f"{what}: this kernel has no pidfd_getfd (Linux 5.6), so no socket can be covered"
    if error.errno in (errno.EPERM, errno.EACCES):
        return (
            f"{what}: its sockets may not be touched ({error.strerror}): the agent needs "
            "CAP_SYS_PTRACE, and kernel.yama.ptrace_scope=3 or a security module forbids it all "
            "the same; linkhold's client inside the process needs neither"
        )
    return f"{what}: {error.strerror}"
