"""The network namespaces of a host, and the names that people know them by.

A namespace is found by the processes in it (/proc/PID/ns/net, proc(5)) and by bind mounts that
keep it: ip-netns(8) in /run/netns, which CNI uses too, and Docker's own folder. One that is held
by nothing but a descriptor stays unseen.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.survey.processes import pids

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.survey.files import Reader

FOLDERS = ("/run/netns", "/run/docker/netns")
HOST, OWN = "host", "own"
ID_LETTERS = 12
"""As many as container tools show."""

_LINK = re.compile(r"net:\[(\d+)\]")
_CONTAINER = re.compile(r"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)", re.MULTILINE)
_NAMED = re.compile(
    r"/(?:lxc\.payload\.|lxc/|machine\.slice/machine-)([\w.@-]+?)(?:\.scope)?(?:/|$)"
)


@dataclass(frozen=True, slots=True)
class NetNamespace:
    """A network namespace: its inode, a path that opens it, its name, the processes in it."""

    inode: int
    path: str
    name: str
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Namespaces:
    """What was found. ``unread`` processes hide theirs from this user (ptrace(2) decides)."""

    found: tuple[NetNamespace, ...]
    unread: int = 0


def find(reader: Reader) -> Namespaces:
    """Return all network namespaces that can be seen, our own first."""
    inhabitants: dict[int, list[int]] = {}
    own = inode_of(reader, "self")
    if own:
        inhabitants[own] = []
    unread = 0
    for pid in pids(reader):
        inode = _inode(reader, pid)
        if inode is None:
            unread += 1
        elif inode:
            inhabitants.setdefault(inode, []).append(pid)
    mounts = dict(_mounts(reader))
    for inode in mounts:
        inhabitants.setdefault(inode, [])
    host = inode_of(reader, 1)
    found = [
        NetNamespace(
            inode,
            mounts.get(inode) or f"/proc/{min(members) if inode != own else 'self'}/ns/net",
            _name(reader, inode, members, mounts, {own: OWN, host: HOST}),
            tuple(sorted(members)),
        )
        for inode, members in inhabitants.items()
    ]
    return Namespaces(tuple(found), unread)


def inode_of(reader: Reader, pid: int | str) -> int:
    """Return the network namespace of a process; 0 when it is hidden, or the process has ended."""
    return _inode(reader, pid) or 0


def _inode(reader: Reader, pid: int | str) -> int | None:
    """Return None for what is hidden, 0 for a process that has ended or is a zombie."""
    try:
        # Not by pathlib: a host has thousands of processes, looked at every few seconds.
        text = os.readlink(f"{reader.root}/proc/{pid}/ns/net")  # noqa: PTH115
    except (FileNotFoundError, ProcessLookupError):
        return 0
    except OSError:
        return None
    match = _LINK.fullmatch(text)
    return int(match[1]) if match else 0


def container(cgroup: str) -> str:
    """Return what /proc/PID/cgroup says of a container, in words; empty when it names none."""
    match = _CONTAINER.search(cgroup)
    if match:
        return f"container {match[1][:ID_LETTERS]}"
    match = _NAMED.search(cgroup)
    return f"container {match[1]}" if match else ""


def _name(
    reader: Reader, inode: int, members: list[int], mounts: dict[int, str], known: dict[int, str]
) -> str:
    """The host's first; then what somebody named; a pod's first process has its container's."""
    if known.get(inode) == HOST:
        return HOST
    path = mounts.get(inode, "")
    named = f"netns {path.rpartition('/')[2]}" if path else ""
    first = min(members, default=0)
    inside = container(reader.text(f"/proc/{first}/cgroup") or "") if first else ""
    # Docker's and CNI's mounts have names that only they know.
    if inside and (not path.startswith(f"{FOLDERS[0]}/") or "/cni-" in path):
        return inside
    comm = reader.line(f"/proc/{first}/comm") if first else ""
    return named or inside or known.get(inode, "") or f"of pid {first} ({comm})"


def _mounts(reader: Reader) -> Iterator[tuple[int, str]]:
    """Yield inode and path of each namespace that a bind mount keeps.

    ip-netns leaves an empty file when its mount is gone: that lies on another file system.
    """
    try:
        device = reader.path("/proc/self/ns/net").stat().st_dev
    except OSError:
        return
    for folder in FOLDERS:
        for path in reader.files(folder):
            try:
                status = reader.path(path).stat()
            except OSError:
                continue
            if status.st_dev == device:
                yield status.st_ino, path
