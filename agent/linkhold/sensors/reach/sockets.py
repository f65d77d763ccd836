"""What all probes share: sockets that may be bound to an interface, deadlines, words for errors.

Binding to an interface (SO_BINDTODEVICE) needs no rights from Linux 5.7 on, before that
CAP_NET_RAW (sock_bindtoindex in net/core/sock.c).
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.deadlines import within
from linkhold.model.probes import Answer, Heard

if TYPE_CHECKING:
    from collections.abc import Coroutine

UNREACHABLE = frozenset(
    {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EHOSTDOWN, errno.EADDRNOTAVAIL}
)
REFUSED = frozenset({errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE})
FIREWALL = frozenset({errno.EPERM, errno.EACCES})
Place = tuple[str, int] | tuple[str, int, int, int]


class Blind(Exception):
    """The probe cannot run, or what came back makes no sense; the text says why."""


@dataclass(frozen=True, slots=True)
class Said:
    """What a probe heard. ``rtt_ms`` where it is not the time that the whole probe took."""

    heard: Heard
    detail: str = ""
    rtt_ms: float | None = None


async def timed(answer: Answer, work: Coroutine[Any, Any, Said], timeout_s: float) -> Answer:
    """Run one probe with its deadline and return ``answer`` with what came of it. Never raises.

    ``answer`` names how, what and by which interface is asked.
    """
    start = time.monotonic()
    try:
        said = await within(work, timeout_s)
    except asyncio.TimeoutError:
        said = Said(Heard.SILENT, f"no answer within {timeout_s:g} s")
    except Blind as reason:
        said = Said(Heard.UNKNOWN, str(reason))
    except OSError as error:
        said = in_words(error)
    took_ms = round((time.monotonic() - start) * 1000, 3) if said.rtt_ms is None else said.rtt_ms
    works = said.heard in (Heard.ANSWERS, Heard.REFUSED)
    rtt_ms = took_ms if works else None
    return Answer(answer.how, answer.target, said.heard, rtt_ms, said.detail, answer.link)


def unanswered(how: str, target: str, link: str = "") -> Answer:
    """Return the answer of a probe that has not run yet."""
    return Answer(how, target, Heard.UNKNOWN, link=link)


def in_words(error: OSError) -> Said:
    """Return what an error of a socket tells about the way to a target."""
    text = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in REFUSED:
        return Said(Heard.REFUSED, text)
    if error.errno in UNREACHABLE:
        return Said(Heard.UNREACHABLE, text)
    if error.errno == errno.ETIMEDOUT:
        return Said(Heard.SILENT, text)
    if error.errno in FIREWALL:
        return Said(Heard.UNKNOWN, f"{text}: a firewall of this host, or a missing right")
    return Said(Heard.UNKNOWN, text)


def opened(family: int, kind: int, link: str = "", protocol: int = 0) -> socket.socket:
    """Return a socket that does not block, bound to ``link`` if one is named.

    Raises :class:`Blind` where the interface is not there or may not be bound to, OSError else.
    """
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, protocol)
    try:
        if link:
            _bind(made, link)
    except BaseException:
        made.close()
        raise
    return made


def _bind(made: socket.socket, link: str) -> None:
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, link.encode() + b"\0")
    except OSError as error:
        if error.errno in FIREWALL:
            raise Blind(f"asking through {link} needs CAP_NET_RAW, or Linux 5.7") from None
        raise Blind(f"{link}: {error.strerror}") from None


def index_of(link: str) -> int:
    """Return the index of an interface; raises :class:`Blind` where there is none.

    Bound to first: asked by a name that is not there the kernel runs modprobe (dev_load).
    """
    opened(socket.AF_INET, socket.SOCK_DGRAM, link).close()
    return socket.if_nametoindex(link)


def place(address: str, port: int, link: str = "") -> tuple[int, Place]:
    """Return the family of an IP address, and what sockets call the place.

    A link-local IPv6 address is that of its zone (``fe80::1%eth0``), else of ``link``. Raises
    :class:`Blind` for what is no address: nothing here looks names up.
    """
    plain, _, zone = address.partition("%")
    family = socket.AF_INET6 if ":" in plain else socket.AF_INET
    try:
        raw = socket.inet_pton(family, plain)
    except (OSError, ValueError):
        raise Blind(f"{address!r} is no IP address") from None
    if family == socket.AF_INET:
        return family, (plain, port)
    zone = zone or (link if is_link_local(raw) else "")
    return family, (plain, port, 0, index_of(zone) if zone else 0)


def is_link_local(raw: bytes) -> bool:
    """Tell whether an IPv6 address is of fe80::/10 (RFC 4291)."""
    return raw[0] == 0xFE and raw[1] & 0xC0 == 0x80  # noqa: PLR2004 -- the prefix itself


async def connected(
    kind: int, address: str, port: int, link: str, protocol: int = 0
) -> socket.socket:
    """Return a socket connected to an address; the caller closes it."""
    family, where = place(address, port, link)
    made = opened(family, kind, link, protocol)
    try:
        await asyncio.get_running_loop().sock_connect(made, where)
    except BaseException:
        made.close()
        raise
    return made
