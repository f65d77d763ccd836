"""One question to one resolver: by UDP, and by TCP where the answer is cut off (RFC 7766)."""

from __future__ import annotations

import asyncio
import secrets
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from linkhold.model.probes import Answer, Heard
from linkhold.sensors.reach.dns_message import Malformed, Reply, question, read
from linkhold.sensors.reach.sockets import Blind, Said, connected, timed, unanswered

if TYPE_CHECKING:
    from collections.abc import Iterator

PORT = 53
UDP_BYTES = 4096
RESOLV_CONF = "/etc/resolv.conf"
UPSTREAMS = "/run/systemd/resolve/resolv.conf"
"""Where systemd-resolved lists whom it asks; its stub stands in /etc/resolv.conf."""
STUBS = frozenset({"127.0.0.53", "127.0.0.54"})
MOST_RESOLVERS = 3
"""MAXNS of glibc: what stands behind them in the file is never asked (resolv.conf(5))."""
MOST_SHOWN = 3


class Texts(Protocol):
    """Reads small files of the host; :class:`linkhold.survey.files.Reader` is one."""

    def text(self, name: str) -> str | None:
        """Return a file's text, None where it is absent or may not be read."""


async def dns(server: str, name: str, timeout_s: float, qtype: str = "A", link: str = "") -> Answer:
    """Ask the resolver at ``server``, an IP address, for ``name`` (``.``: the root).

    SERVFAIL, REFUSED and a name that does not exist are ``refused``: the resolver is there, what
    was asked for is not. Where nothing listens on the port there is no resolver: ``unreachable``.
    """
    odd: list[str] = []
    work = _ask(server, name, qtype, link, odd)
    answer = await timed(unanswered("dns", server, link), work, timeout_s)
    if answer.heard is Heard.SILENT and odd:
        return replace(answer, heard=Heard.UNKNOWN, detail=odd[0])
    return answer


async def _ask(server: str, name: str, qtype: str, link: str, odd: list[str]) -> Said:
    try:
        reply = await query(server, name, qtype, link, odd)
    except ConnectionRefusedError:
        return Said(Heard.UNREACHABLE, f"nothing listens on port {PORT}")
    if reply.rcode:
        return Said(Heard.REFUSED, f"{reply.word} for {name}")
    shown = ", ".join(reply.addresses[:MOST_SHOWN])
    return Said(Heard.ANSWERS, f"{name}: {shown}" if shown else f"{name}: no addresses in it")


async def query(
    server: str, name: str, qtype: str, link: str = "", odd: list[str] | None = None
) -> Reply:
    """Return a resolver's answer; without a deadline of its own.

    A forged or late datagram does not end the wait for the real one; ``odd`` takes the first one's
    mistake. Raises :class:`Blind` where it makes no sense, OSError where there is no way.
    """
    try:
        packet = question(secrets.randbelow(1 << 16), name, qtype)
        reply = await _by_udp(server, packet, link, [] if odd is None else odd)
        return await _by_tcp(server, packet, link) if reply.truncated else reply
    except Malformed as error:
        raise Blind(str(error)) from None


async def _by_udp(server: str, packet: bytes, link: str, odd: list[str]) -> Reply:
    loop = asyncio.get_running_loop()
    with await connected(socket.SOCK_DGRAM, server, PORT, link) as sock:
        await loop.sock_sendall(sock, packet)
        while True:
            data = await loop.sock_recv(sock, UDP_BYTES)
            try:
                return read(data, packet)
            except Malformed as error:
                odd[:] = odd[:1] or [str(error)]


async def _by_tcp(server: str, packet: bytes, link: str) -> Reply:
    loop = asyncio.get_running_loop()
    with await connected(socket.SOCK_STREAM, server, PORT, link) as sock:
        await loop.sock_sendall(sock, len(packet).to_bytes(2, "big") + packet)
        size = int.from_bytes(await _exactly(sock, 2), "big")
        return read(await _exactly(sock, size), packet)


async def _exactly(sock: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = await asyncio.get_running_loop().sock_recv(sock, size - len(found))
        if not more:
            raise Malformed("the answer is cut off")
        found += more
    return found


def resolvers(reader: Texts, *, implied: bool = True) -> tuple[str, ...]:
    """Return the resolvers of this host: those of /etc/resolv.conf as glibc takes them.

    Where systemd-resolved's stub is one of them, also the ones behind it, so that the death of
    one is seen. Without a ``nameserver`` line glibc asks this machine; not ``implied``: nobody
    then, since who named no resolver misses none. Without a file that can be read, nothing is
    known.
    """
    text = reader.text(RESOLV_CONF)
    if text is None:
        return ()
    first = tuple(_servers(text))[:MOST_RESOLVERS] or (("127.0.0.1",) if implied else ())
    if STUBS.isdisjoint(first):
        return tuple(dict.fromkeys(first))
    behind = tuple(_servers(reader.text(UPSTREAMS) or ""))[:MOST_RESOLVERS]
    return tuple(dict.fromkeys(first + behind))


def _servers(text: str) -> Iterator[str]:
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == "nameserver":
            yield words[1]
