"""Who comes in by a Unix socket that everybody may open: a few at once, and of each user so many.

asyncio's own server takes a hundred connections at a time, at 0.3 ms each, whoever makes them: one
user who does nothing but connect would keep the agent from noticing a cable for half a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path
    from typing import Any

MAX_CLIENTS = 24
MAX_OF_A_USER = 8
"""Of these clients of one user: nobody alone locks out the operators, who are users too."""
MAX_PRIVILEGED = 40
"""Clients that root and the agent's own user may bring it to: strangers cannot lock them out."""
MAX_NEW = 100
"""Connections of one user in a second; a node's training processes make one each in 15 s."""
BACKLOG = 128
MOST_AT_ONCE, REST_S = 8, 0.005
"""New connections that are taken before the next rest."""
SO_PEERGROUPS = 59
"""asm-generic/socket.h; Python's socket module has no name for it."""
MOST_GROUP_BYTES = 1024
"""Python's getsockopt() takes no more: 256 groups."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who asks: the kernel's word for it. ``groups`` are all of the process, the first one too."""

    pid: int
    uid: int
    groups: frozenset[int] = frozenset()

    @property
    def privileged(self) -> bool:
        """Whether this is root, or the agent's own user."""
        return self.uid in {0, os.geteuid()}


class Door:
    """A socket at ``path``. Belongs to the loop.

    ``serve`` is run for each connection that is let in, ``refuse`` called for every other one; it
    may send something, and must not block.
    """

    def __init__(
        self,
        path: Path,
        serve: Callable[[socket.socket, Peer], Coroutine[Any, Any, None]],
        refuse: Callable[[socket.socket], None],
    ) -> None:
        self._path = path
        self._serve, self._refuse = serve, refuse
        self._listener: socket.socket | None = None
        self._inode = 0
        self._rest: asyncio.TimerHandle | None = None
        self._clients: Counter[int] = Counter()
        self._served: set[asyncio.Task[None]] = set()
        self._second, self._new = 0, Counter[int]()

    def open(self) -> None:
        """Listen; raises OSError. A socket that a killed agent left is replaced."""
        self._path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._listener.bind(str(self._path))
        self._listener.listen(BACKLOG)
        self._path.chmod(0o666)
        self._inode = self._path.stat().st_ino
        self._attend()

    def heal(self) -> bool:
        """Listen anew if somebody removed the socket, and tell whether so; raises OSError."""
        with contextlib.suppress(FileNotFoundError):
            if self._path.stat().st_ino == self._inode:
                return False
        self._stop_listening()
        self.open()
        return True

    def close(self) -> None:
        """Stop listening and remove the socket."""
        if self._listener is not None:
            self._stop_listening()
            self._path.unlink(missing_ok=True)

    def _stop_listening(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _attend(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().add_reader(self._listener, self._take, self._listener)

    def _take(self, listener: socket.socket) -> None:
        """Let in who waits, a few; where more wait, or no descriptor is left, go on after a rest.

        Who has to wait does so in the kernel, in connect(2).
        """
        for _ in range(MOST_AT_ONCE):
            try:
                sock = listener.accept()[0]
            except BlockingIOError:
                return
            except OSError:
                break
            self._judge(sock)
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        self._rest = loop.call_later(REST_S, self._attend)

    def _judge(self, sock: socket.socket) -> None:
        peer = peer_of(sock)
        if not self._has_room(peer):
            with sock, contextlib.suppress(OSError):
                self._refuse(sock)
            return
        self._clients[peer.uid] += 1
        task = asyncio.ensure_future(self._serve(sock, peer))
        self._served.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(lambda done: self._left(done, peer))

    def _left(self, task: asyncio.Task[None], peer: Peer) -> None:
        self._served.discard(task)
        self._clients[peer.uid] -= 1
        self._clients += Counter()  # which forgets users without any

    def _has_room(self, peer: Peer) -> bool:
        here = self._clients.total()
        if peer.privileged:
            return here < MAX_PRIVILEGED
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._new = second, Counter()
        self._new[peer.uid] += 1
        often = self._new[peer.uid] > MAX_NEW
        return not often and here < MAX_CLIENTS and self._clients[peer.uid] < MAX_OF_A_USER


def peer_of(sock: socket.socket) -> Peer:
    """Return who is at the other end."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    pid, uid, gid = struct.unpack("3i", raw)
    return Peer(pid, uid, frozenset({gid, *_groups_of(sock)}))


def _groups_of(sock: socket.socket) -> tuple[int, ...]:
    """Return the supplementary groups of a peer; none of more than 256, or before Linux 4.13."""
    with contextlib.suppress(OSError):  # ERANGE: there are more (net/core/sock.c)
        raw = sock.getsockopt(socket.SOL_SOCKET, SO_PEERGROUPS, MOST_GROUP_BYTES)
        return struct.unpack(f"{len(raw) // 4}I", raw)
    return ()
