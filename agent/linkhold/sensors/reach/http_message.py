"""HTTP/1.1 messages as far as a probe needs them (RFC 9112): one request, one bounded answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

_STATUS = re.compile(rb"HTTP/1\.[01] ([1-5][0-9][0-9])(?: [^\r\n]*)?")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n")
_LENGTH = re.compile(r"[0-9]{1,12}")
MOST_HEADERS = 100
MOST_CHUNKS = 1000


class Malformed(ValueError):
    """What came is no HTTP."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer; the names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str = ""


def request(method: str, path: str, host: str, headers: Mapping[str, str]) -> bytes:
    """Return a request without a body. The connection ends with its answer."""
    fields = {"Host": host, "User-Agent": "linkhold", "Accept": "*/*", **headers}
    fields["Connection"] = "close"
    if method == "PUT":
        fields["Content-Length"] = "0"
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    text = "\r\n".join(lines)
    if not text.isascii() or text.count("\n") != len(lines) - 1:
        raise Malformed("a request with line breaks or foreign letters in it")
    return text.encode("ascii") + b"\r\n\r\n"


def head(data: bytes) -> Response:
    """Return the answer that begins with ``data``, still without its body."""
    first, *lines = data.removesuffix(b"\r\n\r\n").split(b"\r\n")
    status = _STATUS.fullmatch(first)
    if status is None or len(lines) > MOST_HEADERS:
        raise Malformed("no status line of HTTP/1, or too many headers")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.decode("latin-1").partition(":")
        if not colon or not name.strip():
            raise Malformed("a header without a name")
        headers.setdefault(name.strip().lower(), value.strip())
    return Response(int(status[1]), headers)


async def read_body(reader: asyncio.StreamReader, found: Response, most: int) -> str:
    """Return at most ``most`` bytes of the body, as text. A body that is cut off is Malformed."""
    if "chunked" in found.headers.get("transfer-encoding", "").lower():
        data = await _chunks(reader, most)
    else:
        length = found.headers.get("content-length", "")
        size = int(length) if _LENGTH.fullmatch(length) else None
        data = await _read(reader, most if size is None else min(size, most))
        if size is not None and len(data) < min(size, most):
            raise Malformed("the body is cut off")
    return data.decode("utf-8", "replace")


async def _read(reader: asyncio.StreamReader, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = await reader.read(size - len(found))
        if not more:
            break
        found += more
    return found


async def _chunks(reader: asyncio.StreamReader, most: int) -> bytes:
    found = b""
    for _ in range(MOST_CHUNKS):
        size = _SIZE.fullmatch(await reader.readuntil(b"\r\n"))
        if size is None:
            raise Malformed("a chunk without a size")
        length = int(size[1], 16)
        if not length or len(found) >= most:
            return found[:most]
        found += await reader.readexactly(min(length, most))
        if length > most:
            return found[:most]
        await reader.readexactly(2)
    return found[:most]
