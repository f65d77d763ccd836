"""A metadata service under test control, which also answers wrongly."""

from __future__ import annotations

import asyncio
import threading
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

    def __init__(
        self, answer: Callable[[Asked], Told], *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self.answer = answer
        self.asked: list[Asked] = []
        self.host, self.port = host, port
        self._talks: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._talk, self.host, self.port)
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


class Threaded:
    """A :class:`MetadataServer` in a thread, in the namespace of the thread that makes it."""

    def __init__(self, answer: Callable[[Asked], Told], host: str, port: int = 80) -> None:
        self.server = MetadataServer(answer, host=host, port=port)
        self._ready, self._loop = threading.Event(), asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(5), "the metadata server does not listen"
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(5)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._end = asyncio.Event()
        async with self.server:
            self._ready.set()
            await self._end.wait()
        talks = asyncio.all_tasks() - {asyncio.current_task()}
        for talk in talks:
            talk.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
