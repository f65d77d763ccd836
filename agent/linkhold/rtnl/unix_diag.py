"""The question and the answers of unix_diag: who is connected to a Unix socket. Pure.

linux/unix_diag.h, sock_diag(7). /proc/net/unix names no peers. A peer is told also where it is in
another network namespace: a container that has the socket's folder mounted.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from linkhold.rtnl.attributes import attributes
from linkhold.rtnl.framing import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable

ESTABLISHED, LISTENING = 1, 10
"""TCP_ESTABLISHED and TCP_LISTEN (net/tcp_states.h), which Unix sockets use as well."""
UNIX_DIAG_NAME, UNIX_DIAG_PEER = 0, 2
UDIAG_SHOW_NAME, UDIAG_SHOW_PEER = 0x1, 0x4
ANY = 0xFFFF_FFFF

_REQUEST = struct.Struct("=BBHIIIII")
_HEAD = struct.Struct("=BBBxIII")
_INODE = struct.Struct("=I")


def request() -> bytes:
    """Return a unix_diag_req that asks for listening and connected sockets, names and peers."""
    states = 1 << ESTABLISHED | 1 << LISTENING
    show = UDIAG_SHOW_NAME | UDIAG_SHOW_PEER
    return _REQUEST.pack(socket.AF_UNIX, 0, 0, states, 0, show, ANY, ANY)


def clients(bodies: Iterable[bytes], name: bytes, witness: bytes) -> frozenset[int] | None:
    """Return the inodes of the sockets that are connected to one whose path ends in ``name``.

    None where nobody listens there. Who listens in another network namespace is not told, but its
    connections are: one to ``witness``, another path of the same listener, shows that it is there.
    Raises :class:`Malformed`.
    """
    found: set[int] = set()
    listens = False
    for data in bodies:
        if len(data) < _HEAD.size:
            raise Malformed("a message of unix_diag is cut off")
        state = _HEAD.unpack_from(data)[2]
        told = attributes(data, _HEAD.size, len(data))
        start, end = told.get(UNIX_DIAG_NAME, (0, 0))
        path = data[start:end].rstrip(b"\0")
        listens = listens or (path.endswith(witness) and state == ESTABLISHED)
        if not path.endswith(name):
            continue
        listens = listens or state == LISTENING
        at, peer_end = told.get(UNIX_DIAG_PEER, (0, 0))
        if state == ESTABLISHED and peer_end - at >= _INODE.size:
            found.add(_INODE.unpack_from(data, at)[0])
    return frozenset(found) if listens else None
