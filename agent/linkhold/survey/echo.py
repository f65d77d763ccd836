"""One ICMP echo to a host and back: does it answer at all. Standard library only; needs root."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import select
import socket
import time

from linkhold.frames.echo import IPV4, reply_payload, request


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
    raw.sendto(request(version, os.getpid(), sequence, mark), (host, 0))
    end = time.monotonic() + timeout_s
    while (left_s := end - time.monotonic()) > 0:
        if not select.select([raw], [], [], left_s)[0]:
            return False
        if reply_payload(version, raw.recv(2048)) == mark:
            return True
    return False
