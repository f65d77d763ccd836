"""HTTP/1.1 to a metadata service over one kept connection: no proxies, no redirects, bounded.

Only a numeric address is connected to. The proxies of the environment are never looked at: a
proxy that caught a link-local request would answer for another machine, or for none. A poll each
second over a connection of its own would cost three times as much.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.sensors.reach.http_message import Response, head, read_body

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BODY_BYTES = 256 << 10
BODILESS = frozenset({204, 304})


class Connection:
    """Asks one server, one request after the other. Not safe to share by tasks."""

    def __init__(self, address: str, port: int, host: str) -> None:
        self._address, self._port, self._host = address, port, host
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], timeout_s: float
    ) -> Response:
        """Return the answer.

        Raises OSError, EOFError, ValueError (no HTTP, too long) and TimeoutError; after each of
        them the next request makes a new connection. A kept connection that the server closed
        meanwhile is made anew once, within the same deadline.
        """
        try:
            return await asyncio.wait_for(self._ask(method, path, headers), timeout_s)
        except BaseException:
            self.close()
            raise

    async def _ask(self, method: str, path: str, headers: Mapping[str, str]) -> Response:
        if self._writer is not None:
            try:
                return await self._exchange(method, path, headers)
            except (OSError, EOFError):
                self.close()
        return await self._exchange(method, path, headers)

    async def _exchange(self, method: str, path: str, headers: Mapping[str, str]) -> Response:
        if self._writer is None or self._reader is None:
            self._reader, self._writer = await asyncio.open_connection(self._address, self._port)
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Content-Length: 0"] if method != "GET" else []
        self._writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
        await self._writer.drain()
        response = await _read(self._reader)
        if not _ends_where_it_says(response):
            self.close()
        return response

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        writer, self._writer, self._reader = self._writer, None, None
        if writer is not None:
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Response:
    try:
        found = head(await reader.readuntil(b"\r\n\r\n"))
        if found.status in BODILESS:
            return found
        return replace(found, body=await read_body(reader, found, MAX_BODY_BYTES))
    except asyncio.LimitOverrunError:
        raise ValueError("headers without end") from None


def _ends_where_it_says(response: Response) -> bool:
    """Tell whether the next answer follows on this connection, with nothing left in between."""
    headers = response.headers
    length = headers.get("content-length", "")
    return (
        headers.get("connection", "").lower() != "close"
        and "transfer-encoding" not in headers
        and (response.status in BODILESS or (length.isdigit() and int(length) <= MAX_BODY_BYTES))
    )
