"""The question and the answers of inet_diag: which TCP sockets a network namespace has. Pure.

linux/inet_diag.h, sock_diag(7). Own parser: 10,000 sockets are an ordinary node.
"""

from __future__ import annotations

import socket
import struct
import sys
from functools import lru_cache
from typing import TYPE_CHECKING

from linkhold.model.keepalive import Connection
from linkhold.rtnl.attributes import each
from linkhold.rtnl.framing import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SOCK_DIAG_BY_FAMILY = 20
ESTABLISHED = 1
"""TCP_ESTABLISHED (net/tcp_states.h).

CLOSE_WAIT is left out: the peer has ended such a connection, and no probe makes it live.
"""
INET_DIAG_MARK = 15
NO_TIMER, RETRANSMISSION, KEEPALIVE, TIME_WAIT, ZERO_WINDOW = range(5)
"""idiag_timer (inet_diag.c, inet_sk_diag_fill); a loss probe and RACK's timer count as 1."""
FAMILIES = (socket.AF_INET, socket.AF_INET6)

_MAPPED = bytes(10) + b"\xff\xff"
_REQUEST = struct.Struct("=BBBBI48x")
# An inet_diag_msg begins with four bytes: family, state, timer and retransmissions. Ports and
# addresses follow in network byte order, then interface and cookie, which are skipped; the rest,
# from idiag_expires to idiag_inode, is in the byte order of the host.
_HEAD = struct.Struct("=BBBB")
_ENDS = struct.Struct(">HH16s16s")
_TAIL = struct.Struct("=IIIII")
_ENDS_AT = _HEAD.size
_TAIL_AT = _ENDS_AT + _ENDS.size + 12
SIZE = _TAIL_AT + _TAIL.size
_LATE = 1 << 31


def request(family: int, states: Iterable[int] = (ESTABLISHED,)) -> bytes:
    """Return an inet_diag_req_v2 that asks for all TCP sockets of a family in these states."""
    mask = sum(1 << state for state in set(states))
    return _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, mask)


def parse(bodies: Iterable[bytes], namespace: int) -> Iterator[Connection]:
    """Yield the connections in the messages of a dump; raises :class:`Malformed`.

    A connection of IPv6 whose addresses are mapped ones is an IPv4 connection and shown as one.
    """
    for data in bodies:
        if len(data) < SIZE:
            raise Malformed("a message of inet_diag is cut off")
        family, _, timer, retransmits = _HEAD.unpack_from(data)
        if family not in FAMILIES:
            raise Malformed(f"inet_diag lists a socket of family {family}")
        local_port, remote_port, local, remote = _ENDS.unpack_from(data, _ENDS_AT)
        expires_ms, _, _, uid, inode = _TAIL.unpack_from(data, _TAIL_AT)
        yield Connection(
            namespace=namespace,
            inode=inode,
            local=_address(family, local),
            local_port=local_port,
            remote=_address(family, remote),
            remote_port=remote_port,
            timer=timer,
            # A timer that is due already is a small negative number on older kernels.
            timer_ms=expires_ms if expires_ms < _LATE else 0,
            retransmits=retransmits,
            uid=uid,
            mark=_mark(data),
        )


@lru_cache(maxsize=4096)
def _address(family: int, raw: bytes) -> str:
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    if raw.startswith(_MAPPED):
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)


def _mark(data: bytes) -> int:
    """Return SO_MARK, which the kernel shows with CAP_NET_ADMIN only; 0 otherwise."""
    for kind, (first, last) in each(data, SIZE, len(data)):
        if kind == INET_DIAG_MARK:
            return int.from_bytes(data[first:last], sys.byteorder)
    return 0
