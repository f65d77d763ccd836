"""The helper process: visits network namespaces and does there what it was asked to.

One JSON document on stdin, one on stdout; the words of both are those of :class:`Visit` and
:class:`Visited`. It has one thread, changes nothing but what ``write`` names, and ends.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import sys
import time
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from linkhold.inside import sysctls
from linkhold.inside.connections import busy, listed, settled
from linkhold.model import Unavailable
from linkhold.model.keepalive import Connection

if TYPE_CHECKING:
    from collections.abc import Mapping

CLONE_NEWNET = 0x40000000
OWN = "/proc/self/ns/net"
GONE = "gone"
PAUSES_S = (0.02, 0.05, 0.15)
"""Before each further look at connections with data in flight: longer than a round trip."""
_FIELDS = (
    "namespace",
    "inode",
    "local",
    "local_port",
    "remote",
    "remote_port",
    "timer",
    "timer_ms",
    "retransmits",
    "uid",
    "mark",
)
_ROW = attrgetter(*_FIELDS)
_ADDRESSES = frozenset({_FIELDS.index("local"), _FIELDS.index("remote")})


@dataclass(frozen=True, slots=True)
class Visit:
    """What to do in the namespace ``inode`` that ``path`` (/proc/PID/ns/net, ...) opens.

    ``read`` and ``write`` are files below net/ipv4. ``connections`` asks for the established TCP
    connections; those with data in flight are looked at four times, within 0.3 s. The namespace
    one is in needs no rights to be entered.
    """

    path: str
    inode: int
    read: tuple[str, ...] = ()
    write: Mapping[str, int] = field(default_factory=dict)
    connections: bool = False


@dataclass(frozen=True, slots=True)
class Visited:
    """What one visit found.

    ``error`` says why the namespace could not be entered ("gone": it has ended), or why its
    connections could not be listed. ``values`` are the sysctls after the visit, ``before`` those
    written, as they were found; one that the kernel lacks is in neither. ``errors`` has the
    trouble with single sysctls by name. ``connections`` is None where they were not asked for or
    not listed.
    """

    inode: int
    path: str
    error: str = ""
    values: Mapping[str, int] = field(default_factory=dict)
    before: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    connections: tuple[Connection, ...] | None = None

    @property
    def gone(self) -> bool:
        """Whether the namespace has ended meanwhile, which is no trouble."""
        return self.error.startswith(GONE)


def main(_: list[str]) -> int:
    """Answer the question on stdin and return 0; each namespace has its own errors."""
    question = json.load(sys.stdin.buffer)
    wanted = [_visit_of(one) for one in question["visits"]]
    answer = [_packed(found) for found in look_again(wanted, [visit(one) for one in wanted])]
    sys.stdout.buffer.write(json.dumps(answer, separators=(",", ":")).encode())
    sys.stdout.buffer.flush()
    return 0


def visit(wanted: Visit) -> Visited:
    """Enter one namespace, do what is wanted and come back; its troubles are in the answer.

    Raises :class:`OSError` when the way back is closed: then nothing more may be done.
    """
    home = os.open(OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        error = _enter(wanted)
        if error:
            return Visited(wanted.inode, wanted.path, error)
        found = _work(wanted)
        if os.fstat(home).st_ino != wanted.inode:
            _setns(home)  # a path of /proc/self means home in every visit
        return found
    finally:
        os.close(home)


def look_again(wanted: list[Visit], found: list[Visited]) -> list[Visited]:
    """Return what was found, with connections that were busy as further looks show them.

    One pause for all namespaces, so that many of them take no longer than one.
    """
    for pause_s in PAUSES_S:
        hidden = [at for at, one in enumerate(found) if busy(one.connections or ())]
        if not hidden:
            break
        time.sleep(pause_s)
        for at in hidden:
            again = visit(Visit(wanted[at].path, wanted[at].inode, connections=True)).connections
            seen = settled(found[at].connections or (), again or ())
            found[at] = replace(found[at], connections=seen)
    return found


def _work(wanted: Visit) -> Visited:
    error = ""
    errors: dict[str, str] = {}
    before, written = sysctls.write(wanted.write, errors)
    values = {**sysctls.read(wanted.read, errors), **written}
    connections = None
    if wanted.connections:
        try:
            connections = tuple(listed(wanted.inode))
        except Unavailable as trouble:
            error = str(trouble)
    return Visited(wanted.inode, wanted.path, error, values, before, errors, connections)


def asked(visits: list[Visit]) -> dict[str, Any]:
    """Return the question for these visits as a JSON document."""
    return {
        "visits": [
            {
                "path": one.path,
                "inode": one.inode,
                "read": list(one.read),
                "write": dict(one.write),
                "connections": one.connections,
            }
            for one in visits
        ]
    }


def answered(document: list[dict[str, Any]]) -> list[Visited]:
    """Return the helper's answer as values.

    Raises KeyError, TypeError or ValueError for what is no answer of the helper's.
    """
    return [
        Visited(
            inode=one["inode"],
            path=one["path"],
            error=one["error"],
            values=one["values"],
            before=one["before"],
            errors=one["errors"],
            connections=_connections(one["connections"]),
        )
        for one in document
    ]


def _connections(rows: list[list[Any]] | None) -> tuple[Connection, ...] | None:
    """Return the connections of the helper's rows: two addresses among numbers."""
    if rows is None:
        return None
    for row in rows:
        if not all(
            isinstance(value, str if at in _ADDRESSES else int) for at, value in enumerate(row)
        ):
            raise TypeError("a connection of another form")
    return tuple(Connection(*row) for row in rows)


def _visit_of(document: Mapping[str, Any]) -> Visit:
    return Visit(
        path=str(document["path"]),
        inode=int(document["inode"]),
        read=tuple(document.get("read", ())),
        write=dict(document.get("write", {})),
        connections=bool(document.get("connections", False)),
    )


def _packed(found: Visited) -> dict[str, Any]:
    rows = None if found.connections is None else [_ROW(one) for one in found.connections]
    return {
        "inode": found.inode,
        "path": found.path,
        "error": found.error,
        "values": dict(found.values),
        "before": dict(found.before),
        "errors": dict(found.errors),
        "connections": rows,
    }


def _enter(wanted: Visit) -> str:
    """Go into a namespace; return why that was not possible, empty when it was."""
    if os.stat(OWN).st_ino == wanted.inode:  # noqa: PTH116 - pathlib costs the helper its start
        return ""
    try:
        descriptor = os.open(wanted.path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return GONE
    except OSError as error:
        return f"{error.strerror}: to open it needs root (CAP_SYS_PTRACE)"
    try:
        # Before entering: a pid may be another process's by now.
        if os.fstat(descriptor).st_ino != wanted.inode:
            return f"{GONE}: {wanted.path} is another namespace now"
        _setns(descriptor)
    except OSError as error:
        needs = ": to enter it needs CAP_SYS_ADMIN" if error.errno == errno.EPERM else ""
        return f"{error.strerror}{needs}"
    finally:
        os.close(descriptor)
    return ""


def _setns(descriptor: int) -> None:
    """Do as os.setns() of Python 3.12."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
