"""Raw rtnetlink for benches: flips of a link, and what the kernel says of its carrier.

Independent of the product's reader, which is what is measured.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from support.netns import Namespace

RTM_NEWLINK, RTM_GETLINK, NLM_F_REQUEST, NLM_F_ACK = 16, 18, 0x1, 0x4
RTMGRP_LINK, IFF_UP = 1, 1
IFLA_CARRIER, IFLA_CARRIER_UP_COUNT, IFLA_CARRIER_DOWN_COUNT = 33, 47, 48
HEADER_BYTES, IFINFO_BYTES, MAX_BYTES = 16, 16, 65536

_HEADER = struct.Struct("=IHHII")
_IFINFO = struct.Struct("=BxHiII")
_ATTRIBUTE = struct.Struct("=HH")
_U32 = struct.Struct("=I")
_ERRNO = struct.Struct("=i")


class Carrier(NamedTuple):
    """Whether a link has carrier, and how often it gained and lost it."""

    up: bool
    ups: int
    downs: int


def link_socket(groups: int = 0) -> socket.socket:
    """Return an rtnetlink socket in the namespace of the calling thread."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    sock.bind((0, groups))
    return sock


def carrier_of(data: bytes, index: int) -> Carrier | None:
    """Return what a message says of the carrier of link ``index``, None if it is of another."""
    length, kind, _flags, _seq, _port = _HEADER.unpack_from(data)
    if kind != RTM_NEWLINK or _IFINFO.unpack_from(data, HEADER_BYTES)[2] != index:
        return None
    found = {}
    position = HEADER_BYTES + IFINFO_BYTES
    while position + _ATTRIBUTE.size <= length:
        size, attribute = _ATTRIBUTE.unpack_from(data, position)
        found[attribute] = position + _ATTRIBUTE.size
        position += (size + 3) & ~3
    if IFLA_CARRIER_UP_COUNT not in found:
        return None  # of a bridge port, say
    return Carrier(
        bool(data[found[IFLA_CARRIER]]),
        _U32.unpack_from(data, found[IFLA_CARRIER_UP_COUNT])[0],
        _U32.unpack_from(data, found[IFLA_CARRIER_DOWN_COUNT])[0],
    )


class Flipper:
    """Sets one link up and down, with messages that are packed beforehand."""

    def __init__(self, namespace: Namespace, index: int) -> None:
        with namespace.enter():
            self._socket = link_socket()
        self._socket.settimeout(10)
        self._messages = {up: _set_link(index, up=up) for up in (False, True)}

    def flip(self, *, up: bool) -> int:
        """Set the link; return CLOCK_MONOTONIC in nanoseconds just before."""
        message = self._messages[up]
        began_ns = time.monotonic_ns()
        self._socket.sendto(message, (0, 0))
        answer = self._socket.recv(MAX_BYTES)
        code = _ERRNO.unpack_from(answer, HEADER_BYTES)[0]
        assert code == 0, f"the kernel refuses to set the link: {-code}"
        return began_ns

    def carrier(self, index: int) -> Carrier:
        """Return what the kernel says of link ``index`` now."""
        body = _IFINFO.pack(0, 0, index, 0, 0)
        size = HEADER_BYTES + len(body)
        self._socket.sendto(_HEADER.pack(size, RTM_GETLINK, NLM_F_REQUEST, 0, 0) + body, (0, 0))
        found = carrier_of(self._socket.recv(MAX_BYTES), index)
        assert found is not None, "the kernel does not show the link"
        return found

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _set_link(index: int, *, up: bool) -> bytes:
    body = _IFINFO.pack(0, 0, index, IFF_UP if up else 0, IFF_UP)
    size = HEADER_BYTES + len(body)
    return _HEADER.pack(size, RTM_NEWLINK, NLM_F_REQUEST | NLM_F_ACK, 0, 0) + body
