"""Cover from outside: which sockets of which processes are looked at, and with which values. Pure.

The rules for one socket are in :mod:`linkhold.model.cover`, which the client shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.model.cover import CLIENT_MARK, SHOWN, Exclusions, Outcome, plain, timers_for
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias, TypeGuard

    from linkhold.config.keepalive import CoverSettings

    Known: TypeAlias = "Outcome | Timers"
    """What became of a socket; of a covered one, the values that it was given."""

SOCKET = "socket:["


@dataclass(frozen=True, slots=True)
class Holder:
    """A process with a name for people, and its descriptors: number and what proc(5) shows."""

    pid: int
    started: int
    comm: str
    descriptors: Sequence[tuple[int, str]]

    @property
    def has_client(self) -> bool:
        """Whether a client of ours runs in it, which covers its sockets by itself."""
        return any(target.startswith(f"/memfd:{CLIENT_MARK}") for _, target in self.descriptors)

    @property
    def sockets(self) -> dict[int, int]:
        """Its sockets: inode to a descriptor. An inode is one socket, whoever holds it."""
        start = len(SOCKET)
        return {int(t[start:-1]): fd for fd, t in self.descriptors if t.startswith(SOCKET)}


@dataclass(frozen=True, slots=True)
class Task:
    """A socket to look at; ``before`` is what it was given earlier, None for a new one."""

    holder: Holder
    descriptor: int
    inode: int
    before: Timers | None = None


@dataclass(frozen=True, slots=True)
class Tasks:
    """What to look at, what stays known, and the pids that are left to their own client."""

    tasks: tuple[Task, ...]
    known: Mapping[int, Known]
    clients: tuple[int, ...]


def exclusions(settings: CoverSettings) -> Exclusions:
    """Return what the configuration leaves alone."""
    ports = frozenset(int(port) for port in settings.exclude_ports)
    return Exclusions(ports, frozenset(plain(peer) for peer in settings.exclude_peers))


def timers(wanted: Timers | None) -> Timers:
    """Return the values of covered sockets, for the values of the profile (None: unmanaged)."""
    return timers_for(wanted.time_s if wanted is not None else None)


def tasks(holders: Iterable[Holder], known: Mapping[int, Known], want: Timers) -> Tasks:
    """Return which sockets are new, not yet connected, or covered with other values.

    A socket that a process with a client shares (its forked workers do) is the client's. What no
    process holds any more is forgotten.
    """
    everyone = tuple(holders)
    clients = tuple(holder for holder in everyone if holder.has_client)
    taken = {inode for holder in clients for inode in holder.sockets}
    found: dict[int, Task] = {}
    stays: dict[int, Known] = {}
    for holder in everyone:
        for inode, descriptor in holder.sockets.items():
            if inode in taken or inode in found or inode in stays:
                continue
            before = known.get(inode)
            if _settled(before, want):
                stays[inode] = before
            else:
                given = before if isinstance(before, Timers) else None
                found[inode] = Task(holder, descriptor, inode, given)
    return Tasks(tuple(found.values()), stays, tuple(holder.pid for holder in clients))


def _settled(before: Known | None, want: Timers) -> TypeGuard[Known]:
    if isinstance(before, Timers):
        return before == want
    return before is not None and before is not Outcome.UNCONNECTED


def counts(known: Iterable[Known]) -> dict[str, int]:
    """Return how many connections are covered, and how many are left alone, by reason."""
    found = dict.fromkeys(SHOWN, 0)
    for one in known:
        outcome = Outcome.COVERED if isinstance(one, Timers) else one
        if outcome in found:
            found[outcome] += 1
    return {outcome.value: count for outcome, count in found.items()}
