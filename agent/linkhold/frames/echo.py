"""ICMP and ICMPv6 echo messages (RFC 792, RFC 4443) and what sockets tell of errors. Pure."""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

from linkhold.frames.checksum import checksum

ECHO_REQUEST = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}
IPV4 = 4
HEAD_BYTES = 8
"""Of an echo message, in front of its payload."""

_ECHO = struct.Struct("!BBHHH")
_EXTENDED = struct.Struct("=IBBBBII")
"""``struct sock_extended_err`` of linux/errqueue.h: errno, origin, type, code, pad, info, data."""
ORIGIN_LOCAL = 1
_PORT_AND_ADDRESS_4, _ADDRESS_6 = 4, slice(8, 24)
"""Where a ``sockaddr_in`` and a ``sockaddr_in6`` have their address."""


class SocketError(NamedTuple):
    """One entry of a socket's error queue; ``sender`` is the router that complains, or empty."""

    number: int
    local: bool
    mtu_bytes: int
    sender: str


def request(version: int, identity: int, sequence: int, payload: bytes) -> bytes:
    """Return an echo request of IP ``version``.

    The kernel fills in the checksum of ICMPv6 (RFC 3542, section 3.1), and the identity where the
    socket is a ping socket.
    """
    head = _ECHO.pack(ECHO_REQUEST[version], 0, 0, identity & 0xFFFF, sequence & 0xFFFF)
    check = checksum(head + payload) if version == IPV4 else 0
    return head[:2] + struct.pack("!H", check) + head[4:] + payload


def reply_payload(version: int, data: bytes, *, raw: bool = True) -> bytes | None:
    """Return the payload of an echo reply; None for other packets.

    On a ``raw`` socket of IPv4 the IP header comes first (raw(7)).
    """
    start = (data[0] & 0xF) * 4 if raw and version == IPV4 and data else 0
    if data[start : start + 1] != bytes((ECHO_REPLY[version],)):
        return None
    return data[start + _ECHO.size :]


def socket_error(data: bytes) -> SocketError | None:
    """Return what an IP_RECVERR or IPV6_RECVERR control message tells (ip(7)); None for nonsense.

    ``info`` is the next hop's MTU where the error is EMSGSIZE.
    """
    if len(data) < _EXTENDED.size:
        return None
    number, origin, _, _, _, info, _ = _EXTENDED.unpack_from(data)
    return SocketError(number, origin == ORIGIN_LOCAL, info, _offender(data[_EXTENDED.size :]))


def _offender(address: bytes) -> str:
    family = int.from_bytes(address[:2], "little" if struct.pack("=H", 1)[0] else "big")
    if family == socket.AF_INET and len(address) >= HEAD_BYTES:
        return socket.inet_ntoa(address[_PORT_AND_ADDRESS_4:HEAD_BYTES])
    if family == socket.AF_INET6 and len(address) >= _ADDRESS_6.stop:
        return socket.inet_ntop(socket.AF_INET6, address[_ADDRESS_6])
    return ""
