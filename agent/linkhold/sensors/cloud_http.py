"""HTTP/1.1 to a metadata service over one kept connection: no proxies, no redirects, bounded.

Only a numeric address is connected to. The proxies of the environment are never looked at: a
proxy that caught a link-local request would answer for another machine, or for none.

A service is asked as often as once a second, for months. So this is a protocol of its own and no
pair of streams: an answer costs one wake-up, no task and no copy; one that is the same as the one
before it (:meth:`Connection.repeat`) costs a comparison and not even that it is read as HTTP.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from linkhold.deadlines import within
from linkhold.sensors.reach.http_message import MOST_CHUNKS, Malformed, Response, head

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_HEAD_BYTES = 64 << 10
MAX_BODY_BYTES = 256 << 10
MOST_SIZE_LINE = 1 << 12
"""Bytes of the line before a chunk: a size, and extensions that nobody uses (RFC 9112, 7.1.1)."""
BODILESS = frozenset({204, 304})
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[^\r\n]*)?")
_LENGTH = re.compile(r"[0-9]{1,12}")
_END = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Again:
    """How one question is repeated: after each ``pause()`` seconds, until ``until_s`` (loop time).

    ``same`` is called for each answer that is the same as the one before it.
    """

    timeout_s: float
    until_s: float
    pause: Callable[[], float]
    same: Callable[[], None]


class Connection(asyncio.Protocol):
    """Asks one server, one request after the other. Not safe to share by tasks.

    ``asked_s`` is when the last question was sent, in the loop's time.
    """

    def __init__(self, address: str, port: int, host: str) -> None:
        self._address, self._port, self._host = address, port, host
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = b""
        self._answer: asyncio.Future[Response | None] | None = None
        self._gist = _NO_GIST
        self._again: Again | None = None
        self._request_again, self._waits = b"", False
        self._timer: asyncio.TimerHandle | None = None
        self.asked_s = 0.0

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], timeout_s: float
    ) -> Response:
        """Return the answer.

        Raises OSError, EOFError, ValueError (no HTTP, too long) and TimeoutError; after each of
        them the next request makes a new connection. A kept connection that the server closed
        meanwhile is made anew once, within the same deadline.
        """
        until_s = self._loop.time() + timeout_s
        data = self._request(method, path, headers)
        try:
            if self._transport is not None:
                try:
                    return await self._exchange(data, until_s)
                except (OSError, EOFError):
                    self.close()
            connecting = self._loop.create_connection(lambda: self, self._address, self._port)
            await within(connecting, max(0.0, until_s - self._loop.time()))
            return await self._exchange(data, until_s)
        except BaseException:
            self.close()
            raise

    def _request(self, method: str, path: str, headers: Mapping[str, str]) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {self._host}", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["Content-Length: 0"] if method != "GET" else []
        return "\r\n".join((*lines, "", "")).encode("latin-1")

    async def _exchange(self, request: bytes, until_s: float) -> Response:
        if self._transport is None:
            raise EOFError("no connection")
        answer = self._answer = self._loop.create_future()
        timer = self._loop.call_at(until_s, self._give_up, asyncio.TimeoutError())
        self._send(request)
        try:
            response = cast("Response", await answer)
        finally:
            timer.cancel()
            self._answer = None
        if not _ends_where_it_says(response) or self._buffer:
            self.close()
        return response

    def _send(self, request: bytes) -> None:
        self._buffer, self._waits, self.asked_s = b"", True, self._loop.time()
        cast("asyncio.Transport", self._transport).write(request)

    async def repeat(self, path: str, headers: Mapping[str, str], again: Again) -> Response | None:
        """GET the same once more, ever again, while the answer is the same as the last one.

        Returns the first other answer; None when the question has to be asked anew: the connection
        ended, or ``again.until_s`` has come. Raises ValueError and TimeoutError as :meth:`ask`.
        Nothing but the status and the body is compared: headers have the time of day.
        """
        self._request_again = self._request("GET", path, headers)
        answer: asyncio.Future[Response | None] = self._loop.create_future()
        self._answer, self._again, self._waits = answer, again, False
        self._timer = self._loop.call_later(again.pause(), self._tick)
        try:
            response = await answer
        except BaseException as error:
            self.close()
            # A timeout is an OSError since Python 3.11.
            if isinstance(error, asyncio.TimeoutError) or not isinstance(
                error, (OSError, EOFError)
            ):
                raise
            return None
        finally:
            self._timer.cancel()
            self._answer = self._again = None
        if response is not None and (not _ends_where_it_says(response) or self._buffer):
            self.close()
        return response

    def _tick(self) -> None:
        """Ask once more; what has not answered since the last time is waited for, then given up."""
        again, now_s = self._again, self._loop.time()
        if again is None or self._answer is None or self._answer.done():
            return
        if self._waits:
            self._gist = _NO_GIST  # whatever it says: the answer is late, so the pace is lost
            left_s = self.asked_s + again.timeout_s - now_s
            self._timer = self._loop.call_later(left_s, self._give_up, asyncio.TimeoutError())
        elif now_s >= again.until_s:
            self._answer.set_result(None)
        elif self._transport is None:
            self._give_up(EOFError("no connection"))
        else:
            self._send(self._request_again)
            self._timer = self._loop.call_later(again.pause(), self._tick)

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take in what came; what nobody asked for ends the connection."""
        if self._answer is None or self._answer.done() or not self._waits:
            self.close()
            self._give_up(EOFError("an answer to no question"))
            return
        self._buffer += data
        if self._again is not None and _gist(self._buffer) == self._gist:
            self._buffer, self._waits = b"", False
            self._again.same()
            return
        self._look(ended=False)

    def eof_received(self) -> bool:
        """Take in the end of what the server sends, which may be the end of a body."""
        if self._waits and self._buffer:
            self._look(ended=True)
        else:
            self._give_up(EOFError("the server closed the connection"))
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Wake whoever waits."""
        self._transport = None
        self._give_up(exc or EOFError("the server closed the connection"))

    def _look(self, *, ended: bool) -> None:
        if self._answer is None or self._answer.done():
            return
        try:
            found = answer_in(self._buffer, ended=ended)
        except ValueError as error:
            self._give_up(error)
            return
        if found is not None:
            response, used = found
            self._gist, self._waits = _gist(self._buffer[:used]), False
            self._buffer = self._buffer[used:]
            self._answer.set_result(response)

    def _give_up(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


_NO_GIST = (b"", b"")


def _gist(data: bytes) -> tuple[bytes, bytes]:
    """Return of an answer's bytes what can change its meaning: the status and the body."""
    return data[len(b"HTTP/1.1 ") :][:3], data[data.find(_END) :]


def answer_in(data: bytes, *, ended: bool) -> tuple[Response, int] | None:
    """Return the answer that ``data`` begins with and its length, None while it is not whole.

    ``ended``: no more will come. Raises ValueError for what is no answer, or a cut-off one. A body
    that is too long is cut.
    """
    end = data.find(_END)
    if end < 0:
        if ended or len(data) > MAX_HEAD_BYTES:
            raise Malformed("no HTTP, or headers without end")
        return None
    found, start = head(data[: end + len(_END)]), end + len(_END)
    if found.status in BODILESS:
        return found, start
    if "chunked" in found.headers.get("transfer-encoding", "").lower():
        body = _chunks(data, start)
    else:
        body = _plain(data, start, found.headers.get("content-length", ""), ended=ended)
    if body is None:
        if ended:
            raise Malformed("the body is cut off")
        return None
    return replace(found, body=body[0].decode("utf-8", "replace")), body[1]


def _plain(data: bytes, start: int, length: str, *, ended: bool) -> tuple[bytes, int] | None:
    """Return a body of a known length, or one that ends with the connection, and where it ends."""
    known = _LENGTH.fullmatch(length)
    size = min(int(length), MAX_BODY_BYTES) if known else MAX_BODY_BYTES
    if len(data) - start >= size or (ended and not known):
        return data[start : start + size], min(len(data), start + size)
    return None


def _chunks(data: bytes, at: int) -> tuple[bytes, int] | None:
    body = bytearray()
    for _ in range(MOST_CHUNKS):
        end = data.find(b"\r\n", at, at + MOST_SIZE_LINE)
        if end < 0:
            if len(data) - at >= MOST_SIZE_LINE:
                raise Malformed("a chunk without a size")
            return None
        size = _SIZE.fullmatch(data[at:end])
        if size is None:
            raise Malformed("a chunk without a size")
        length, at = int(size[1], 16), end + 2
        if not length or len(body) >= MAX_BODY_BYTES:
            return bytes(body[:MAX_BODY_BYTES]), len(data)
        if length > MAX_BODY_BYTES and len(data) - at >= MAX_BODY_BYTES:
            return bytes(body + data[at:])[:MAX_BODY_BYTES], len(data)
        if len(data) < at + length + 2:
            return None
        body += data[at : at + length]
        at += length + 2
    return bytes(body), len(data)


def _ends_where_it_says(response: Response) -> bool:
    """Tell whether the next answer follows on this connection, with nothing left in between."""
    headers = response.headers
    length = headers.get("content-length", "")
    return (
        headers.get("connection", "").lower() != "close"
        and "transfer-encoding" not in headers
        and (
            response.status in BODILESS
            or (_LENGTH.fullmatch(length) is not None and int(length) <= MAX_BODY_BYTES)
        )
    )
