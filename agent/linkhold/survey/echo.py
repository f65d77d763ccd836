"""One ICMP echo to a host and back: does it answer at all. Standard library only; needs root."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import struct
import time

from linkhold.frames.checksum import checksum

ECHO_REQUEST = {4: 8, 6: 128}
ECHO_REPLY = {4: 0, 6: 129}
"""RFC 792 and RFC 4443."""
_ECHO = struct.Struct("!BBHHH")
IPV4 = 4


def answers(host: str, *, timeout_s: float = 1.0, tries: int = 2) -> bool | None:
    """Return whether ``host``, an IP address, answers an echo; None when it cannot be asked."""
    version = ipaddress.ip_address(host.partition("%")[0]).version
    family = socket.AF_INET if version == IPV4 else socket.AF_INET6
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    try:
        with socket.socket(family, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol) as raw:
            for sequence in range(1, tries + 1):
                with contextlib.suppress(OSError):  # no route at the moment: no answer
                    if _ask(raw, host, version, sequence, timeout_s):
                        return True
    except PermissionError:
        return None
    return False


def _ask(raw: socket.socket, host: str, version: int, sequence: int, timeout_s: float) -> bool:
    mark = os.urandom(8)
    raw.sendto(request(version, sequence, mark), (host, 0))
    end = time.monotonic() + timeout_s
    while (left_s := end - time.monotonic()) > 0:
        if not select.select([raw], [], [], left_s)[0]:
            return False
        if reply_payload(version, raw.recv(2048)) == mark:
            return True
    return False


def request(version: int, sequence: int, payload: bytes) -> bytes:
    """Return an echo request of IP ``version``.

    The kernel fills in the checksum of ICMPv6 (RFC 3542, section 3.1).
    """
    head = _ECHO.pack(ECHO_REQUEST[version], 0, 0, os.getpid() & 0xFFFF, sequence & 0xFFFF)
    check = checksum(head + payload) if version == IPV4 else 0
    return head[:2] + struct.pack("!H", check) + head[4:] + payload


def reply_payload(version: int, data: bytes) -> bytes | None:
    """Return the payload of an echo reply as a raw socket delivers it; None for other packets.

    With IPv4 the IP header comes first (raw(7)).
    """
    start = (data[0] & 0xF) * 4 if version == IPV4 and data else 0
    if data[start : start + 1] != bytes((ECHO_REPLY[version],)):
        return None
    return data[start + _ECHO.size :]
