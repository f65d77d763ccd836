"""The audit of TCP connections: every namespace is looked at, every socket gets its process."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.decide.audit import Audited, Facts, audited, limit_s
from linkhold.decide.audit.kinds import store_ports
from linkhold.survey import namespaces
from linkhold.survey.inside import VISIT_S, Visit, visit
from linkhold.survey.socket_owners import Owners, owners, threads

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from linkhold.model.jobs import Training, TrainingProcess
    from linkhold.model.keepalive import Connection
    from linkhold.survey.files import Reader
    from linkhold.survey.inside import Visited

TIME = "tcp_keepalive_time"
NAMES_MOST = 5


@dataclass(frozen=True, slots=True)
class Audit:
    """What was seen; ``unseen`` says what was not, a line each.

    ``limit_s`` is the longest idle time that counts as protected in any namespace looked at.
    """

    found: tuple[Audited, ...] = ()
    limit_s: int | None = None
    unseen: tuple[str, ...] = ()


def audit(
    reader: Reader,
    training: Training,
    pids: Collection[int] | None,
    profile_s: int | None,
) -> Audit:
    """Return the established connections of these processes, or (None) of the whole host.

    Blocking, a second for ten thousand sockets and more while data is in flight: for commands and
    threads. ``profile_s`` is the idle time that is wanted, None while keepalive is not managed.
    Raises :class:`linkhold.model.Unavailable` when nothing could be looked at.
    """
    look = _Look(reader, None if pids is None else frozenset(pids))
    limits = {one: limit_s(profile_s, time_s) for one, time_s in look.times_s.items()}
    processes = _Processes(reader, training)
    found = []
    for connection in look.connections:
        holders = look.owners.by_inode.get(connection.inode, ()) if connection.inode else ()
        if pids is not None and not holders:
            continue
        pid = processes.speaker(holders)
        found.append(
            audited(
                connection,
                limits.get(connection.namespace, profile_s),
                processes.facts(pid),
                pid=pid,
                comm=processes.comm(pid),
                namespace=look.names[connection.namespace],
            )
        )
    known = [one for one in limits.values() if one is not None]
    return Audit(tuple(found), max(known, default=profile_s), tuple(look.unseen))


def hidden(processes: int) -> str:
    """Return so many processes in words, with what would show them."""
    number = "1 process" if processes == 1 else f"{processes} processes"
    hint = "run as root" if os.geteuid() else "ptrace(2) hides them from this root too"
    return f"{number} ({hint})"


class _Look:
    """One look at all namespaces that these processes are in, and at who holds the sockets."""

    def __init__(self, reader: Reader, pids: frozenset[int] | None) -> None:
        self.connections: list[Connection] = []
        self.times_s: dict[int, int | None] = {}
        self.unseen: list[str] = []
        there = namespaces.find(reader)
        self.names: Mapping[int, str] = {one.inode: one.name for one in there.found}
        # Our own first: a socket may have been made there before its process went elsewhere.
        wanted = [
            Visit(one.path, one.inode, read=(TIME,), connections=True)
            for at, one in enumerate(there.found)
            if pids is None or not at or not pids.isdisjoint(one.pids)
        ]
        self._take(visit(wanted, VISIT_S + len(wanted) / 10))
        # After the sockets: one that is closed in between has no holder and is left out.
        self.owners: Owners = owners(reader, pids)
        self._say_hidden(there.unread if pids is None else 0, everything=pids is None)

    def _take(self, visited: Iterable[Visited]) -> None:
        troubles: dict[str, list[str]] = defaultdict(list)
        for one in visited:
            if one.connections is not None:
                self.connections += one.connections
                self.times_s[one.inode] = one.values.get(TIME)
            elif not one.gone:
                troubles[one.error].append(self.names[one.inode])
        for trouble, names in troubles.items():
            more = f" and {len(names) - NAMES_MOST} more" if len(names) > NAMES_MOST else ""
            self.unseen.append(f"namespace {', '.join(names[:NAMES_MOST])}{more}: {trouble}")

    def _say_hidden(self, unread: int, *, everything: bool) -> None:
        if unread:
            self.unseen.append(f"the network namespaces of {hidden(unread)}")
        closed = len(self.owners.unread)
        if closed:
            what = "which connections belong to" if everything else "the connections of"
            self.unseen.append(f"{what} {hidden(closed)}")


@dataclass
class _Processes:
    """What is known of processes, looked up once each."""

    reader: Reader
    training: Training
    _facts: dict[int, Facts] = field(default_factory=dict)
    _comms: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._trainers = {one.pid: one for one in self.training.processes}
        self._ports = {job: store_ports(self.training.of(job)) for job in self.training.jobs}

    def speaker(self, holders: tuple[int, ...]) -> int:
        """Return the one to name of several that share a socket: one that trains, the first."""
        trainers = (pid for pid in holders if pid in self._trainers)
        return next(trainers, holders[0] if holders else 0)

    def facts(self, pid: int) -> Facts:
        """Return what tells the kind of a process's connections."""
        if pid not in self._facts:
            self._facts[pid] = self._known(pid, self._trainers.get(pid))
        return self._facts[pid]

    def _known(self, pid: int, trainer: TrainingProcess | None) -> Facts:
        names = threads(self.reader, pid) if pid else frozenset()
        if trainer is None:
            return Facts(threads=names)
        ports = self._ports.get(trainer.job) or store_ports([trainer])
        return Facts(ports, names, trainer.job)

    def comm(self, pid: int) -> str:
        """Return the kernel's short name of a process, empty for none."""
        if pid and pid not in self._comms:
            self._comms[pid] = self.reader.line(f"/proc/{pid}/comm")
        return self._comms.get(pid, "")
