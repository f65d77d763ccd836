"""The control socket: what a command line asks of the running agent.

JSON lines over a Unix socket, one request and one answer a line; ``follow`` turns a connection
into a stream. Most requests only read, so everybody on the node may ask; who asks is known all the
same (SO_PEERCRED), for requests that change something. A request of root, or of the agent's own
user, may say that so many ``bytes`` follow its line: what is too long for a line.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

from linkhold.deadlines import within
from linkhold.door import Door
from linkhold.model import LinkholdError, WireError
from linkhold.wire import dumps, load_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from pathlib import Path

    from linkhold.door import Peer

MAX_REQUEST_BYTES = 64 * 1024
MAX_STRANGERS_BYTES = 4 * 1024
"""A line of somebody else: reading it takes longer the more values it holds, 20 us a kB."""
MAX_BODY_BYTES = 512 * 1024
MAX_ANSWER_BYTES = 64 * 1024 * 1024
IDLE_S = 30.0
SEND_S = 10.0
FOLLOW_QUEUE = 1000
PACE_S = 0.02
"""Between two requests of a stranger on one connection: 8 of them are 400 a second.

It is waited for with the next request: who asks once and leaves gives the place free at once.
"""
BUSY = {"ok": False, "busy": True, "error": "the agent answers too many others now; try again"}


class ControlServer:
    """Answers requests with ``handlers[cmd](request, peer)``; ``follow`` streams :meth:`tell`."""

    def __init__(
        self,
        path: Path,
        handlers: Mapping[str, Callable[[Mapping[str, Any], Peer], Awaitable[bytes]]],
    ) -> None:
        self._handlers = handlers
        self._followers: set[asyncio.Queue[bytes]] = set()
        self._door = Door(path, self._serve, self._refuse)
        self.counters = {"control_refused": 0, "control_bad_requests": 0, "follow_dropped": 0}

    async def start(self) -> None:
        """Listen; raises OSError. A socket that a killed agent left is replaced."""
        self._door.open()

    async def heal(self) -> bool:
        """Listen anew if somebody removed the socket, and tell whether so; raises OSError."""
        return self._door.heal()

    def tell(self, event: bytes) -> None:
        """Send an event to everybody who follows; a follower that is too slow misses some."""
        for follower in self._followers:
            try:
                follower.put_nowait(event)
            except asyncio.QueueFull:
                self.counters["follow_dropped"] += 1

    async def _serve(self, sock: socket.socket, peer: Peer) -> None:
        reader, writer = await asyncio.open_unix_connection(sock=sock, limit=_most_bytes(peer))
        try:
            await self._converse(reader, writer, peer)
            # Who reads no answer keeps the descriptor, and with it the place at the door.
            writer.close()
            await within(writer.wait_closed(), SEND_S)
        except (OSError, asyncio.TimeoutError):
            pass
        finally:
            writer.transport.abort()

    def _refuse(self, sock: socket.socket) -> None:
        self.counters["control_refused"] += 1
        sock.send(dumps(BUSY) + b"\n")

    async def _converse(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: Peer
    ) -> None:
        not_before_s = 0.0
        while True:
            try:
                line = await within(reader.readline(), IDLE_S)
            except ValueError:  # nothing more is read: a line may be without end
                self.counters["control_bad_requests"] += 1
                most = f"a request of yours has at most {_most_bytes(peer)} bytes"
                writer.write(_refusal(most) + b"\n")
                return
            if not line:
                return
            await asyncio.sleep(max(0.0, not_before_s - time.monotonic()))
            request = self._parse(line)
            if request is not None and request.get("cmd") == "follow":
                await self._follow(reader, writer)
                return
            if request is not None and "bytes" in request:
                try:
                    request["body"] = await _body(reader, request["bytes"], peer)
                except LinkholdError as error:  # what follows is no request: nothing more is read
                    self.counters["control_bad_requests"] += 1
                    writer.write(_refusal(str(error)) + b"\n")
                    await within(writer.drain(), SEND_S)
                    return
            writer.write(await self._answer(request, peer) + b"\n")
            await within(writer.drain(), SEND_S)
            if not peer.privileged:
                not_before_s = time.monotonic() + PACE_S

    def _parse(self, line: bytes) -> dict[str, Any] | None:
        with contextlib.suppress(WireError):
            request = load_json(line)
            if isinstance(request, dict):
                return request
        self.counters["control_bad_requests"] += 1
        return None

    async def _answer(self, request: dict[str, Any] | None, peer: Peer) -> bytes:
        if request is None:
            return _refusal("a request is one JSON object on one line")
        handler = self._handlers.get(str(request.get("cmd")))
        if handler is None:
            known = ", ".join(sorted([*self._handlers, "follow"]))
            return _refusal(f"unknown cmd {request.get('cmd')!r}; known: {known}")
        try:
            return b'{"ok":true,' + await handler(request, peer) + b"}"
        except LinkholdError as error:
            return _refusal(str(error))

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue(FOLLOW_QUEUE)
        self._followers.add(queue)
        sending = asyncio.ensure_future(_send_all(queue, writer))
        # Without events nothing is written, and only reading shows that the follower has left.
        leaving = asyncio.ensure_future(_read_all(reader))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._followers.discard(queue)
            sending.cancel()
            leaving.cancel()

    async def stop(self) -> None:
        """Stop listening and remove the socket."""
        self._door.close()


def _most_bytes(peer: Peer) -> int:
    return MAX_REQUEST_BYTES if peer.privileged else MAX_STRANGERS_BYTES


async def _body(reader: asyncio.StreamReader, size: Any, peer: Peer) -> bytes:
    """Return the bytes that follow a request; raises :class:`LinkholdError` where none may."""
    if not peer.privileged:
        raise LinkholdError("only root and the agent's own user may send that; try sudo")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MAX_BODY_BYTES:
        raise LinkholdError(f"bytes: {size!r} is no number from 1 to {MAX_BODY_BYTES}")
    try:
        return await within(reader.readexactly(size), IDLE_S)
    except asyncio.IncompleteReadError:
        raise LinkholdError("the request ended early") from None


def _refusal(reason: str) -> bytes:
    return dumps({"ok": False, "error": reason})


async def _send_all(queue: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(await queue.get() + b"\n")
        await within(writer.drain(), SEND_S)


async def _read_all(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(MAX_REQUEST_BYTES):
            pass


class NoAgent(LinkholdError):
    """Nobody answers on the control socket."""


class ControlClient:
    """Asks a running agent. ``timeout_s`` bounds every wait."""

    def __init__(self, path: Path, timeout_s: float = 5.0) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Where many connect at once a blocking connect(2) waits for its turn; one with Python's
        # own timeout does not block, and is refused with EAGAIN.
        patience = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        try:
            self._socket.connect(str(path))
            self._socket.settimeout(timeout_s)
        except OSError as error:
            self._socket.close()
            raise NoAgent(f"no agent answers on {path} ({error.strerror or error})") from error
        self._file = self._socket.makefile("rb")

    def ask(self, cmd: str, *, body: bytes = b"", **arguments: object) -> dict[str, Any]:
        """Return the answer; raises :class:`NoAgent` or :class:`LinkholdError` with the reason.

        ``body`` follows the request: only root and the agent's own user may send one.
        """
        self._send(cmd, {**arguments, "bytes": len(body)} if body else arguments, body)
        answer = self._read()
        if answer is None:
            raise NoAgent("the agent ended before it answered")
        return _granted(answer)

    def follow(self) -> Iterator[dict[str, Any]]:
        """Ask for events from now on and return them as they happen, until the agent ends."""
        self._send("follow", {})
        self._socket.settimeout(None)
        return map(_granted, iter(self._read, None))

    def _send(self, cmd: str, arguments: Mapping[str, object], body: bytes = b"") -> None:
        request = json.dumps({"cmd": cmd, **arguments}).encode() + b"\n" + body
        # The reason why an agent hung up may wait to be read.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(request)

    def _read(self) -> dict[str, Any] | None:
        try:
            line = self._file.readline(MAX_ANSWER_BYTES)
        except OSError as error:
            raise NoAgent(f"the agent does not answer ({error.strerror or error})") from error
        if not line.endswith(b"\n"):
            return None
        answer = load_json(line)
        return answer if isinstance(answer, dict) else None

    def close(self) -> None:
        """Hang up."""
        self._file.close()
        self._socket.close()


def _granted(answer: dict[str, Any]) -> dict[str, Any]:
    """Return an answer or event; raises what a refusal means."""
    if answer.get("ok", True):
        return answer
    error = str(answer.get("error", "no reason given"))
    raise NoAgent(error) if answer.get("busy") else LinkholdError(error)
