"""TCP connects and HTTP requests with the standard library's streams. No proxies, no redirects.

The environment's proxies are never used: they are for people's traffic and would answer in the
place of what is asked. A redirect is an answer, and not followed.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from linkhold.model.probes import Answer, Heard, without_query
from linkhold.sensors.reach.http_message import Malformed, Response, head, read_body, request
from linkhold.sensors.reach.names import address_of
from linkhold.sensors.reach.sockets import Blind, Said, connected, timed, unanswered

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.sensors.reach.names import Names

HEAD_BYTES = 16 << 10
BODY_BYTES = 64 << 10
MOST_HOST = 255
"""Characters of a name (RFC 1035, 2.3.4), of whoever names one."""
PORTS = {"http": 80, "https": 443}
OK, REDIRECTS, ERRORS = range(200, 300), range(300, 400), range(400, 600)
THERE_THOUGH_CLOSED = frozenset({401, 403, 405})
"""Who wants a login, or another method, is there: an object store answers so to strangers."""
NOT_THE_TARGET = {
    407: "a proxy on the way wants a login",
    511: "the network wants a login (RFC 6585)",
}


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``address`` is whom to connect to, where the URL has a name."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    address: str = ""
    link: str = ""


async def tcp(
    host: str, port: int, timeout_s: float, link: str = "", *, names: Names | None = None
) -> Answer:
    """Connect to a port and hang up at once. A ``host`` that is a name needs ``names``."""
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return await timed(
        unanswered("tcp", target, link), _connect(host, port, link, names, timeout_s), timeout_s
    )


async def _connect(host: str, port: int, link: str, names: Names | None, timeout_s: float) -> Said:
    address = await address_of(host, names, timeout_s)
    (await connected(socket.SOCK_STREAM, address, port, link)).close()
    return Said(Heard.ANSWERS)


async def http(url: str, timeout_s: float, link: str = "", *, names: Names | None = None) -> Answer:
    """Ask for a URL of ``http`` or ``https``; a name in it needs ``names``."""
    return await timed(
        unanswered("http", without_query(url), link), _get(url, link, names, timeout_s), timeout_s
    )


async def _get(url: str, link: str, names: Names | None, timeout_s: float) -> Said:
    host = parts(url)[1]
    address = await address_of(host, names, timeout_s)
    response = await fetch(Request(url, address=address, link=link), body_bytes=0)
    return judged(url, response.status, response.headers.get("location", ""))


def judged(url: str, status: int, location: str = "") -> Said:
    """Return what an HTTP status says of the target. Pure.

    A redirect to another host is how captive portals answer, so it is unknown.
    """
    if status in NOT_THE_TARGET:
        return Said(Heard.UNKNOWN, f"{status}: {NOT_THE_TARGET[status]}")
    if status in REDIRECTS:
        there = _sent_on_to(url, location)
        if location and there != urlsplit(url).hostname:
            told = str(there)[:MOST_HOST]
            return Said(Heard.UNKNOWN, f"{status}: sent on to {told}, perhaps a captive portal")
        return Said(Heard.ANSWERS, str(status))
    if status in OK or status in THERE_THOUGH_CLOSED:
        return Said(Heard.ANSWERS, str(status))
    if status in ERRORS:
        return Said(Heard.REFUSED, str(status))
    return Said(Heard.UNKNOWN, f"{status} is no answer to a request")


def _sent_on_to(url: str, location: str) -> str | None:
    """Return the host that a redirect names."""
    try:
        return urlsplit(urljoin(url, location)).hostname
    except ValueError:  # brackets that hold no address
        return "what is no URL"


def parts(url: str) -> tuple[str, str, int, str]:
    """Return scheme, host, port, and path with query of a URL; raises :class:`Blind`."""
    try:
        split = urlsplit(url)
        port = split.port or PORTS[split.scheme]
    except (ValueError, KeyError):
        raise Blind(f"{without_query(url)!r} is no http or https URL") from None
    if not split.hostname:
        raise Blind(f"{without_query(url)!r} names no host")
    path = (split.path or "/") + (f"?{split.query}" if split.query else "")
    return split.scheme, split.hostname, port, path


async def fetch(asking: Request, body_bytes: int = BODY_BYTES) -> Response:
    """Return the answer to a request, with at most ``body_bytes`` of its body. No deadline.

    Raises :class:`Blind` for what is no HTTP and for certificates that do not fit, OSError where
    there is no way.
    """
    scheme, host, port, path = parts(asking.url)
    tls = await _tls() if scheme == "https" else None
    packet = request(asking.method, path, _host(host, port, scheme), asking.headers)
    sock = await connected(socket.SOCK_STREAM, asking.address or host, port, asking.link)
    writer = None
    try:
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=tls, server_hostname=host if tls else None, limit=HEAD_BYTES
        )
        writer.write(packet)
        await writer.drain()
        found = head(await reader.readuntil(b"\r\n\r\n"))
        body = await read_body(reader, found, body_bytes) if body_bytes else ""
        return Response(found.status, found.headers, body)
    except (Malformed, asyncio.LimitOverrunError, asyncio.IncompleteReadError):
        raise Blind("what answers there speaks no HTTP") from None
    except ssl.SSLCertVerificationError as error:
        raise Blind(f"the certificate is not that of {host}: {error.verify_message}") from None
    except ssl.SSLError as error:
        raise Blind(f"what answers there speaks no TLS: {error.reason}") from None
    finally:
        if writer is None:
            sock.close()
        else:
            writer.transport.abort()


def _host(host: str, port: int, scheme: str) -> str:
    shown = f"[{host.partition('%')[0]}]" if ":" in host else host
    return shown if port == PORTS[scheme] else f"{shown}:{port}"


_contexts: list[ssl.SSLContext] = []


async def _tls() -> ssl.SSLContext:
    """Return the context for all requests, made once in a thread: it reads the system's CAs."""
    if not _contexts:
        _contexts.append(await asyncio.to_thread(ssl.create_default_context))
    return _contexts[0]
