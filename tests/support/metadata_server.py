"""A metadata service under test control, which also answers wrongly."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

DATE = "Tue, 01 Dec 2026 08:20:00 GMT"


@dataclass
class Asked:
    """One request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass
class Told:
    """One answer. ``raw`` replaces all of it; ``hang_s`` comes before it."""

    status: int = 200
    body: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""
    hang_s: float = 0.0

    def encoded(self) -> bytes:
        """Return the bytes of the answer."""
        if self.raw:
            return self.raw
        body = self.body.encode()
        headers = {"Date": DATE, "Content-Length": str(len(body)), **self.headers}
        lines = [f"HTTP/1.1 {self.status} Whatever", *(f"{k}: {v}" for k, v in headers.items())]
        return "\r\n".join((*lines, "", "")).encode() + body


class MetadataServer:
    """Answers each request with what ``answer`` returns; closes after raw answers."""

    def __init__(self, answer: Callable[[Asked], Told]) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.port = 0
        self._talks: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._talks:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._talks.add(writer)
        try:
            while asked := await _request(reader):
                self.asked.append(asked)
                told = self.answer(asked)
                await asyncio.sleep(told.hang_s)
                writer.write(told.encoded())
                await writer.drain()
                if told.raw:
                    break
        except (OSError, EOFError, asyncio.CancelledError):
            pass
        finally:
            self._talks.discard(writer)
            writer.transport.abort() if writer.is_closing() else writer.close()


async def _request(reader: asyncio.StreamReader) -> Asked | None:
    first = (await reader.readline()).decode().split()
    if not first:
        return None
    headers = {}
    while line := (await reader.readline()).decode().strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    return Asked(first[0], first[1], headers)
