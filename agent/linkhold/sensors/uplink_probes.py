"""Echo requests through named interfaces, and the answers: the probes of uplinks.

Each uplink has a raw ICMP and a raw ICMPv6 socket bound to its interface (SO_BINDTODEVICE), so
that its own default route is used, whatever metric it has, and only answers that come in there
are heard. The kernel finds the neighbour, chooses the source address and computes what may be
computed; nothing here blocks. Needs CAP_NET_RAW.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import secrets
import socket
import struct
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from linkhold.decide.uplinks import Answer
from linkhold.frames.checksum import checksum

ECHO = {socket.AF_INET: (8, 0), socket.AF_INET6: (128, 129)}
"""Types of request and reply: RFC 792, RFC 4443."""
PROTOCOLS = {socket.AF_INET: socket.IPPROTO_ICMP, socket.AF_INET6: socket.IPPROTO_ICMPV6}

SOL_RAW, ICMP_FILTER = 255, 1
"""linux/icmp.h; a set bit keeps a type away."""
ICMPV6_FILTER = 1
"""linux/icmpv6.h: eight words, a set bit keeps a type away."""

OUTSTANDING = 256
"""Requests of one uplink that wait for an answer at most; the oldest are forgotten."""
READ_AT_ONCE = 64
NOT_SENT = frozenset({errno.EPERM, errno.EACCES, errno.ENOBUFS})
"""A firewall's word, or a full queue of ours: these say nothing of the line."""
STRICT = 1
NONCE_BYTES = 8

_HEADER = struct.Struct("!BBHHH")


@dataclass
class _Line:
    """One uplink: its sockets, and what was asked through them (sequence -> target, when)."""

    link: str
    index: int
    sockets: dict[int, socket.socket]
    asked: dict[int, tuple[str, int]] = field(default_factory=dict)


class UplinkProbes:
    """Sends echo requests and reads answers. Belongs to one thread.

    ``generation`` grows with each change of :meth:`filenos`, which may reuse numbers.
    """

    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._identity = secrets.randbelow(0xFFFF)
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._sequence = secrets.randbelow(0xFFFF)
        self.generation = 0
        self.counters = {"uplink_probes_sent": 0, "uplink_probes_answered": 0}

    def filenos(self) -> dict[int, str]:
        """Return the descriptors to wait on, each with its uplink."""
        return {
            one.fileno(): line.link
            for line in self._lines.values()
            for one in line.sockets.values()
        }

    def send(self, link: str, index: int, targets: tuple[str, ...], now_ns: int) -> str:
        """Ask each target once; return why nothing could be sent, else nothing.

        A target without a way (no route, no neighbour) counts as asked: its silence is news.
        """
        try:
            line = self._line(link, index)
        except OSError as error:
            return f"probes over {link}: {error.strerror}"
        problems = [self._ask(line, target, now_ns) for target in targets]
        return problems[0] if all(problems) else ""

    def _line(self, link: str, index: int) -> _Line:
        line = self._lines.get(link)
        if line is None or line.index != index:
            self.close(link)
            line = self._lines[link] = _Line(link, index, _open(link))
            self.generation += 1
        return line

    def _ask(self, line: _Line, target: str, now_ns: int) -> str:
        family = socket.AF_INET6 if ":" in target else socket.AF_INET
        if family not in line.sockets:
            return f"probes over {line.link}: no IPv6 here"
        self._sequence = (self._sequence + 1) & 0xFFFF
        scope = line.index if _scoped(target) else 0
        where = (target, 0, 0, scope) if family == socket.AF_INET6 else (target, 0)
        try:
            line.sockets[family].sendto(self._request(family), where)
        except OSError as error:
            if error.errno in NOT_SENT:
                return f"probes over {line.link} are refused: {error.strerror}"
        self.counters["uplink_probes_sent"] += 1
        line.asked[self._sequence] = (target, now_ns)
        while len(line.asked) > OUTSTANDING:
            del line.asked[next(iter(line.asked))]
        return ""

    def _request(self, family: int) -> bytes:
        kind = ECHO[socket.AddressFamily(family)][0]
        body = self._nonce
        head = _HEADER.pack(kind, 0, 0, self._identity, self._sequence)
        # The kernel fills in the checksum of ICMPv6, which covers addresses.
        total = checksum(head + body) if family == socket.AF_INET else 0
        return _HEADER.pack(kind, 0, total, self._identity, self._sequence) + body

    def read(self, link: str, now_ns: int) -> list[Answer]:
        """Return the answers that wait for an uplink."""
        line = self._lines.get(link)
        if line is None:
            return []
        found: list[Answer] = []
        for family, endpoint in line.sockets.items():
            for _ in range(READ_AT_ONCE):
                try:
                    data, sender = endpoint.recvfrom(512)
                except OSError:  # nothing waits, or the interface is gone
                    break
                found += self._answer(line, family, data, sender[0], now_ns)
        self.counters["uplink_probes_answered"] += len(found)
        return found

    def _answer(
        self, line: _Line, family: int, data: bytes, sender: str, now_ns: int
    ) -> list[Answer]:
        """Return the answer that a packet is: to a request of ours, and from whom we asked."""
        start = (data[0] & 0xF) * 4 if family == socket.AF_INET and data else 0
        packet = data[start:]
        if len(packet) < _HEADER.size + NONCE_BYTES:
            return []
        kind, _, _, identity, sequence = _HEADER.unpack_from(packet)
        ours = (ECHO[socket.AddressFamily(family)][1], self._identity)
        if (kind, identity) != ours or not packet[_HEADER.size :].startswith(self._nonce):
            return []
        target, sent_ns = line.asked.get(sequence, ("", 0))
        if not target or not _same(target, sender):
            return []
        del line.asked[sequence]
        return [Answer(line.link, target, now_ns - sent_ns)]

    def close(self, link: str) -> None:
        """Ask through an uplink no more."""
        line = self._lines.pop(link, None)
        for endpoint in line.sockets.values() if line else ():
            endpoint.close()

    def close_all(self) -> None:
        """Ask nobody any more."""
        for link in list(self._lines):
            self.close(link)


def _open(link: str) -> dict[int, socket.socket]:
    """Return a socket for each family that this kernel has, bound to ``link``."""
    opened = {int(socket.AF_INET): _open_one(socket.AF_INET, link)}
    with contextlib.suppress(OSError):  # a kernel without IPv6 is none the worse
        opened[socket.AF_INET6] = _open_one(socket.AF_INET6, link)
    return opened


def _open_one(family: socket.AddressFamily, link: str) -> socket.socket:
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
    endpoint = socket.socket(family, kind, PROTOCOLS[family])
    try:
        _let_replies_pass(endpoint, family)
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode() + b"\0")
    except OSError:
        endpoint.close()
        raise
    return endpoint


def _let_replies_pass(endpoint: socket.socket, family: int) -> None:
    """Keep all but echo replies away from a socket."""
    reply = ECHO[socket.AddressFamily(family)][1]
    if family == socket.AF_INET:
        endpoint.setsockopt(SOL_RAW, ICMP_FILTER, struct.pack("=I", ~(1 << reply) & 0xFFFFFFFF))
        return
    words = [0xFFFFFFFF] * 8
    words[reply >> 5] &= ~(1 << (reply & 31)) & 0xFFFFFFFF
    endpoint.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, struct.pack("=8I", *words))


@cache
def _scoped(target: str) -> bool:
    """Tell whether an address means something on its own link only. Few are ever asked."""
    return ipaddress.ip_address(target).is_link_local


def _same(one: str, other: str) -> bool:
    bare = other.partition("%")[0]
    return one == bare or ipaddress.ip_address(one) == ipaddress.ip_address(bare)


def drops_answers(link: str, root: Path = Path("/")) -> bool:
    """Tell whether the reverse path filter of ``link`` is strict: ``rp_filter`` 1.

    The larger value of ``all`` and the interface counts (ip-sysctl.rst). A strict filter drops
    what comes in where the answer to its sender would not go out.
    """
    values = [0]
    for name in ("all", link):
        path = root / "proc/sys/net/ipv4/conf" / name / "rp_filter"
        with contextlib.suppress(OSError, ValueError):
            values.append(int(path.read_text()))
    return max(values) == STRICT
