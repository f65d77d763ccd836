"""A netlink socket for rtnetlink and the framing of its messages; no decoding of bodies.

Standard library only: decoding all of a message with pyroute2 costs 0.7 ms, its socket does not
survive an overrun, and its import costs 15 MB.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NLMSG_NOOP, NLMSG_ERROR, NLMSG_DONE, NLMSG_OVERRUN = 1, 2, 3, 4
RTM_NEWLINK, RTM_DELLINK, RTM_GETLINK = 16, 17, 18
RTM_NEWADDR, RTM_DELADDR, RTM_GETADDR = 20, 21, 22
RTM_NEWROUTE, RTM_DELROUTE, RTM_GETROUTE = 24, 25, 26
RTM_NEWNEXTHOP, RTM_DELNEXTHOP = 104, 105

NLM_F_REQUEST, NLM_F_DUMP_INTR, NLM_F_REPLACE, NLM_F_DUMP = 0x1, 0x10, 0x100, 0x300

# RTNLGRP_LINK, IPV4_IFADDR, IPV4_ROUTE, IPV6_IFADDR, IPV6_ROUTE, NEXTHOP (linux/rtnetlink.h).
GROUPS = (1, 5, 7, 9, 11, 32)
NEXTHOP_GROUP = 32  # since Linux 5.3

SOL_NETLINK, NETLINK_ADD_MEMBERSHIP = 270, 1
SO_RCVBUFFORCE = 33

# The kernel caps a part of a dump at 32 KiB (netlink_recvmsg); a notification is below 8 KiB.
DATAGRAM_BYTES = 65536

MAX_ERRNO = 4095

_HEADER = struct.Struct("=IHHII")
_ERRNO = struct.Struct("=i")


class Malformed(ValueError):
    """Bytes that are no valid rtnetlink message."""


class Overrun(Exception):
    """The kernel dropped messages because the receive buffer was full."""


class Message(NamedTuple):
    """One message: its header, and where its body lies in the datagram."""

    kind: int
    flags: int
    seq: int
    port: int
    start: int
    end: int


def messages(data: bytes) -> Iterator[Message]:
    """Yield the messages of one datagram; raise Malformed where it stops making sense."""
    position, size = 0, len(data)
    while position < size:
        if size - position < _HEADER.size:
            raise Malformed("a message header is cut off")
        length, kind, flags, seq, port = _HEADER.unpack_from(data, position)
        if length < _HEADER.size or length > size - position:
            raise Malformed("a message is longer than its datagram")
        yield Message(kind, flags, seq, port, position + _HEADER.size, position + length)
        position += (length + 3) & ~3


def error_of(data: bytes, message: Message) -> int:
    """Return the errno in an NLMSG_ERROR or NLMSG_DONE; 0 for success or none.

    What is no number of an error (above MAX_ERRNO, linux/err.h) is EPROTO.
    """
    if message.end - message.start < _ERRNO.size:
        return 0
    code = -int(_ERRNO.unpack_from(data, message.start)[0])
    return code if 0 <= code <= MAX_ERRNO else errno.EPROTO


class NetlinkSocket:
    """One rtnetlink socket, non-blocking, that has joined ``groups``.

    ``rcvbuf_bytes`` is forced past net.core.rmem_max where we may (CAP_NET_ADMIN).
    """

    def __init__(self, groups: Iterable[int] = GROUPS, *, rcvbuf_bytes: int = 8 << 20) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, socket.NETLINK_ROUTE
        )
        try:
            self._prepare(groups, rcvbuf_bytes)
        except OSError:
            self._socket.close()
            raise
        self._seq = 0

    def _prepare(self, groups: Iterable[int], rcvbuf_bytes: int) -> None:
        self._socket.setblocking(False)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, rcvbuf_bytes)
        except PermissionError:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf_bytes)
        self._socket.bind((0, 0))
        self.port = int(self._socket.getsockname()[0])
        for group in groups:
            self._join(group)

    def _join(self, group: int) -> None:
        try:
            self._socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group)
        except OSError:
            if group != NEXTHOP_GROUP:
                raise

    def fileno(self) -> int:
        """Return the descriptor, readable while messages wait."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket; a second call does nothing."""
        self._socket.close()

    def request(self, kind: int, body: bytes, *, dump: bool = True) -> int:
        """Send one request and return its sequence number.

        rtnetlink works on it before the call returns (rtnetlink_rcv), so two requests in a row
        are answered in that order.
        """
        self._seq += 1
        flags = NLM_F_REQUEST | (NLM_F_DUMP if dump else 0)
        header = _HEADER.pack(_HEADER.size + len(body), kind, flags, self._seq, 0)
        self._socket.sendto(header + body, (0, 0))
        return self._seq

    def receive(self) -> tuple[bytes, bool] | None:
        """Return one datagram and whether the kernel sent it; None when none waits.

        Raises Overrun when the kernel had to drop messages.
        """
        try:
            data, sender = self._socket.recvfrom(DATAGRAM_BYTES)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                raise Overrun(os.strerror(errno.ENOBUFS)) from None
            raise
        return data, sender[0] == 0
