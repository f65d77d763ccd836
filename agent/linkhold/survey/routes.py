"""Questions to rtnetlink in the words of a look at a host: no rights needed, nothing changed."""

from __future__ import annotations

import socket
import struct
import sys
from typing import TYPE_CHECKING

from linkhold.model import HostError
from linkhold.rtnl.attributes import attributes, pack
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import RTM_GETROUTE, Malformed

if TYPE_CHECKING:
    from linkhold.rtnl.attributes import Span

RTPROT_DHCP = 16  # linux/rtnetlink.h; set by networkd and NetworkManager on routes of a lease
RTA_DST, RTA_OIF = 1, 4
RTMSG = struct.Struct("=BBBBBBBBI")


class NoAnswer(OSError):
    """The kernel did not answer a question, or with an error."""


def listed(kind: int, body: bytes) -> list[bytes]:
    """Return the bodies of all objects that a dump lists; raises :class:`NoAnswer`."""
    try:
        with Exchange() as kernel:
            return kernel.dump(kind, body)
    except (HostError, Malformed) as error:
        raise NoAnswer(str(error)) from error


def parts(data: bytes, start: int) -> dict[int, Span]:
    """Return the attributes of a body that :func:`listed` gave; raises :class:`NoAnswer`."""
    try:
        return attributes(data, start, len(data))
    except Malformed as error:
        raise NoAnswer(str(error)) from error


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
    try:
        with Exchange() as kernel:
            route = kernel.get(RTM_GETROUTE, head + pack(RTA_DST, raw))
        found = attributes(route, RTMSG.size, len(route))
    except (HostError, Malformed) as error:
        raise NoAnswer(f"no route to {address}: {error}") from error
    if RTA_OIF not in found:
        raise NoAnswer(f"no route to {address}")
    return socket.if_indextoname(number(route, found[RTA_OIF]))


def dhcp_interfaces() -> frozenset[int]:
    """Return the indexes of interfaces that have IPv4 routes from a DHCP lease."""
    indexes = set()
    for route in listed(RTM_GETROUTE, RTMSG.pack(socket.AF_INET, 0, 0, 0, 0, 0, 0, 0, 0)):
        if len(route) < RTMSG.size:
            raise NoAnswer("a message body is cut off")
        protocol = RTMSG.unpack_from(route)[5]
        found = parts(route, RTMSG.size)
        if protocol == RTPROT_DHCP and RTA_OIF in found:
            indexes.add(number(route, found[RTA_OIF]))
    return frozenset(indexes)


def number(data: bytes, span: Span) -> int:
    """Return an attribute that is a number in host byte order, of 1 to 8 bytes."""
    return int.from_bytes(data[span[0] : span[1]], sys.byteorder)
