"""One ICMP echo: by a ping socket where the host allows them, else by a raw one.

Ping sockets (icmp(7), net.ipv4.ping_group_range) need no rights; raw ones need CAP_NET_RAW. Both
are told by routers that there is no way (IP_RECVERR, ip(7)).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from typing import TYPE_CHECKING

from linkhold.frames.echo import HEAD_BYTES, IPV4, reply_payload, request, socket_error
from linkhold.model.probes import Answer, Heard
from linkhold.sensors.reach.names import address_of
from linkhold.sensors.reach.sockets import Blind, Said, in_words, opened, place, timed, unanswered

if TYPE_CHECKING:
    from linkhold.sensors.reach.names import Names

NONCE_BYTES = 8
MOST_BYTES = 65_507
"""Payload of an echo in the largest IPv4 packet."""
FRAME_BYTES = 1 << 16
OPTIONS = {
    socket.AF_INET: (socket.IPPROTO_IP, 11, 10),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 25, 23),
}
"""Level, RECVERR and MTU_DISCOVER of linux/in.h and linux/in6.h."""
PMTUDISC_DONT, PMTUDISC_PROBE = 0, 3
"""Let routers fragment; do not, and do not believe a path MTU that was heard before."""
IPV6_DONTFRAG = 62
PROTOCOLS = {socket.AF_INET: socket.IPPROTO_ICMP, socket.AF_INET6: socket.IPPROTO_ICMPV6}
REFUSED_KINDS = frozenset({errno.EPERM, errno.EACCES, errno.EPROTONOSUPPORT})


async def icmp(
    target: str,
    timeout_s: float,
    link: str = "",
    size_bytes: int = 56,
    *,
    dont_fragment: bool = False,
    names: Names | None = None,
) -> Answer:
    """Ask for one echo with ``size_bytes`` of payload (as ``ping -s``); a name needs ``names``.

    With ``dont_fragment`` a way that cannot carry the packet whole is ``unreachable`` when a
    router says so, and ``silent`` when it is a black hole.
    """
    size = min(max(size_bytes, NONCE_BYTES), MOST_BYTES)
    work = _named(target, link, size, names, timeout_s, dont_fragment=dont_fragment)
    return await timed(unanswered("icmp", target, link), work, timeout_s)


async def _named(
    target: str,
    link: str,
    size: int,
    names: Names | None,
    timeout_s: float,
    *,
    dont_fragment: bool,
) -> Said:
    address = await address_of(target, names, timeout_s)
    return await _echo(address, link, size, dont_fragment=dont_fragment)


async def _echo(target: str, link: str, size: int, *, dont_fragment: bool) -> Said:
    family, where = place(target, 0, link)
    made, raw = _socket(family, link)
    with made:
        _set_options(made, family, dont_fragment=dont_fragment)
        payload = os.urandom(NONCE_BYTES).ljust(size, b"\0")
        version = IPV4 if family == socket.AF_INET else 6
        loop = asyncio.get_running_loop()
        made.connect(where)  # at once; the loop's own would look the address up, for this protocol
        try:
            made.send(request(version, os.getpid(), 1, payload))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                raise Blind(f"{size} bytes do not fit the MTU of the interface") from None
            raise
        try:
            while (
                reply_payload(version, await loop.sock_recv(made, FRAME_BYTES), raw=raw) != payload
            ):
                continue
        except OSError as error:
            return _complaint(made, error)
    return Said(Heard.ANSWERS)


def _socket(family: int, link: str) -> tuple[socket.socket, bool]:
    """Return a socket for echoes, and whether it is a raw one."""
    protocol = PROTOCOLS[socket.AddressFamily(family)]
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
        try:
            return opened(family, kind, link, protocol), kind == socket.SOCK_RAW
        except OSError as error:
            if error.errno not in REFUSED_KINDS:
                raise
    raise Blind("an echo needs CAP_NET_RAW, or this group in net.ipv4.ping_group_range")


def _set_options(made: socket.socket, family: int, *, dont_fragment: bool) -> None:
    level, receive_errors, discover = OPTIONS[socket.AddressFamily(family)]
    made.setsockopt(level, receive_errors, 1)
    made.setsockopt(level, discover, PMTUDISC_PROBE if dont_fragment else PMTUDISC_DONT)
    if dont_fragment and family == socket.AF_INET6:
        made.setsockopt(level, IPV6_DONTFRAG, 1)


def _complaint(made: socket.socket, error: OSError) -> Said:
    """Return what an error means that came back, with the router that sent it."""
    told = None
    try:
        _, extra, _, _ = made.recvmsg(HEAD_BYTES, 512, socket.MSG_ERRQUEUE)
        told = next(filter(None, (socket_error(data) for _, _, data in extra)), None)
    except OSError:  # nothing more is known
        pass
    sender = f" (says {told.sender})" if told and told.sender and not told.local else ""
    if error.errno == errno.EMSGSIZE:
        most = f" over {told.mtu_bytes} bytes" if told and told.mtu_bytes else " of this size"
        return Said(Heard.UNREACHABLE, f"packets{most} do not pass{sender}")
    said = in_words(error)
    # An echo has no port: that one is refused means that a router or firewall forbids it.
    heard = Heard.UNREACHABLE if said.heard is Heard.REFUSED else said.heard
    return Said(heard, said.detail + sender)
