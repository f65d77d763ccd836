"""Two questions to the kernel's routing table, by netlink: no rights needed, nothing changed."""

from __future__ import annotations

import select
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

from linkhold.rtnl.attributes import attributes, pack
from linkhold.rtnl.framing import (
    NLMSG_DONE,
    NLMSG_ERROR,
    RTM_GETLINK,
    RTM_GETROUTE,
    RTM_NEWLINK,
    RTM_NEWROUTE,
    Malformed,
    NetlinkSocket,
    Overrun,
    error_of,
    messages,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.rtnl.attributes import Span

ANSWER_S = 3.0
RTPROT_DHCP = 16  # linux/rtnetlink.h; set by networkd and NetworkManager on routes of a lease
RTA_DST, RTA_OIF = 1, 4
RTMSG = struct.Struct("=BBBBBBBBI")
IFINFO = struct.Struct("=BxHiII")


class NoAnswer(OSError):
    """The kernel did not answer a question, or with an error."""


Part = tuple[bytes, int, int]
"""A datagram and where the body of one message lies in it."""


def ask(kind: int, answer: int, body: bytes, *, dump: bool) -> Iterator[Part]:
    """Yield the bodies of type ``answer`` that the kernel gives to one request.

    Raises :class:`NoAnswer` when it refuses, or says nothing for 3 s.
    """
    endpoint = NetlinkSocket((), rcvbuf_bytes=1 << 20)
    try:
        sequence = endpoint.request(kind, body, dump=dump)
        for data in _datagrams(endpoint, time.monotonic() + ANSWER_S):
            for message in messages(data):
                if message.seq != sequence:
                    continue
                if message.kind in {NLMSG_DONE, NLMSG_ERROR}:
                    _check(error_of(data, message))
                    return
                if message.kind == answer:
                    yield data, message.start, message.end
                    if not dump:
                        return
    except Malformed as error:
        raise NoAnswer(f"netlink: {error}") from error
    finally:
        endpoint.close()


def _datagrams(endpoint: NetlinkSocket, deadline: float) -> Iterator[bytes]:
    while True:
        try:
            received = endpoint.receive()
        except Overrun as error:
            raise NoAnswer("netlink: too much at once") from error
        if received is None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([endpoint], [], [], left)[0]:
                raise NoAnswer("netlink: no answer")
        elif received[1]:
            yield received[0]


def _check(code: int) -> None:
    if code:
        raise NoAnswer(code, "netlink: the kernel refused")


def interface_to(address: str) -> str:
    """Return the interface by which this host reaches ``address``.

    Raises :class:`NoAnswer` when there is no route, ValueError when it is no IP address.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        raw = socket.inet_pton(family, address)
    except OSError:
        raise ValueError(f"{address!r} is no IP address") from None
    head = RTMSG.pack(family, len(raw) * 8, 0, 0, 0, 0, 0, 0, 0)
    for data, start, end in ask(RTM_GETROUTE, RTM_NEWROUTE, head + pack(RTA_DST, raw), dump=False):
        found = attributes(data, start + RTMSG.size, end)
        if RTA_OIF in found:
            return socket.if_indextoname(number(data, found[RTA_OIF]))
    raise NoAnswer(f"no route to {address}")


def dhcp_interfaces() -> frozenset[int]:
    """Return the indexes of interfaces that have IPv4 routes from a DHCP lease."""
    head = RTMSG.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)
    indexes = set()
    for data, start, end in ask(RTM_GETROUTE, RTM_NEWROUTE, head, dump=True):
        protocol = RTMSG.unpack_from(data, start)[5]
        found = attributes(data, start + RTMSG.size, end)
        if protocol == RTPROT_DHCP and RTA_OIF in found:
            indexes.add(number(data, found[RTA_OIF]))
    return frozenset(indexes)


def links() -> Iterator[tuple[int, bytes, dict[int, Span]]]:
    """Yield index, datagram and attribute places of every link of this network namespace."""
    head = IFINFO.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
    for data, start, end in ask(RTM_GETLINK, RTM_NEWLINK, head, dump=True):
        index = int(IFINFO.unpack_from(data, start)[2])
        yield index, data, attributes(data, start + IFINFO.size, end)


def number(data: bytes, span: Span) -> int:
    """Return an attribute that is a number in host byte order, of 1 to 8 bytes."""
    return int.from_bytes(data[span[0] : span[1]], sys.byteorder)
