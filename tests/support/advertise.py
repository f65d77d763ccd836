"""A router advertisement (RFC 4861, 4.2) with one prefix, sent once: the lab has no radvd."""

from __future__ import annotations

import socket
import struct

from support.lab.kernel import inside

ROUTER_ADVERTISEMENT = 134
ALL_NODES = "ff02::1"
ON_LINK, AUTONOMOUS = 0x80, 0x40


def advertise(
    gateway: str, prefix: str, *, valid_s: int = 3600, preferred_s: int = 1800, router_s: int = 900
) -> None:
    """Send it from ``g0`` of the namespace ``gateway``: ``prefix`` is a /64 without its length.

    The source is the link-local address of g0, as the standard asks for.
    """
    head = struct.pack("!BBHBBHII", ROUTER_ADVERTISEMENT, 0, 0, 64, 0, router_s, 0, 0)
    option = struct.pack(
        "!BBBBIII16s",
        *(3, 4, 64, ON_LINK | AUTONOMOUS, valid_s, preferred_s, 0),
        socket.inet_pton(socket.AF_INET6, prefix),
    )
    with (
        inside(f"/run/netns/{gateway}"),
        socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as raw,
    ):
        index = socket.if_nametoindex("g0")
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
        raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
        raw.sendto(head + option, (ALL_NODES, 0, 0, index))
