"""Conversations: the same bytes in other pieces, question and answer, several who speak at once.

However a stream is cut, what is heard is the same: each of these compares one cut with another.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import select
import socket
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from fuzz import of_network, right, scratch
from fuzz.of_network import run
from fuzz.of_sockets import REQUESTS, Voice, bus_messages, handlers
from fuzz.target import Target
from linkhold import control
from linkhold.control import ControlServer
from linkhold.door import Peer
from linkhold.mqtt import Connection
from linkhold.sensors import cloud_http, nut, system_bus
from linkhold.sensors.logind import FAILURES
from linkhold.sensors.reach.http_message import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NEXT = b"\xfe|\xfe"
"""What the other side says after our next word; no text of any protocol here."""


def pieces(data: bytes, most: int = 8) -> list[bytes]:
    """Return the bytes in pieces, the same ones each time."""
    random = Random(len(data))
    cuts = sorted(random.randrange(len(data) + 1) for _ in range(random.randrange(most)))
    return [data[a:b] for a, b in zip((0, *cuts), (*cuts, len(data)), strict=True)]


def heard(parts: Sequence[bytes]) -> list[str]:
    """Return what a connection tells of a broker that sends these parts, then ends."""
    ours, theirs = socket.socketpair()
    told: list[str] = []
    with ours, theirs:
        connection = Connection("c", receive_maximum=10)
        connection._client._create_socket = lambda: ours  # type: ignore[method-assign]
        connection._client._sock = None
        connection._open("localhost", 1)
        for part in parts:
            with contextlib.suppress(OSError):  # it has hung up
                theirs.sendall(part)
            told += _served(connection, len(part))
        with contextlib.suppress(OSError):
            theirs.shutdown(socket.SHUT_WR)
        told += _served(connection, 16)
        assert connection.ended, "a connection that never ends"
    return told


def _served(connection: Connection, size: int) -> Iterator[str]:
    """Let a connection read all that there is: each turn takes a packet, of two bytes at least."""
    for _ in range(size // 2 + 4):
        if connection.ended or not select.select([connection.fileno()], [], [], 0)[0]:
            return
        for notice in connection.service(0):
            right.notice(notice)
            yield repr(notice)
    assert connection.ended, "bytes that are never read"


def packets_cut(data: bytes) -> None:
    """Hear a broker whole, and in pieces."""
    data = data[: 1 << 14]  # a socket takes no more at once
    assert heard([data]) == heard(pieces(data))


class _Upsd(asyncio.Transport):
    """An upsd that says its next word after each of ours, each in pieces."""

    def __init__(self, lines: Any, words: Sequence[bytes]) -> None:
        super().__init__()
        self._lines, self._words = lines, list(words)

    def write(self, _data: Any) -> None:
        """Hear a command and answer."""
        if not self._words:
            self._lines.connection_lost(None)
            return
        for piece in pieces(self._words.pop(0)):
            self._lines.data_received(piece)

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        """Return that nothing is known."""
        return default

    def abort(self) -> None:
        """End."""


def upsd_dialogue(data: bytes) -> None:
    """Log in to an upsd, list its UPSes and ask each of them twice."""

    async def talk() -> None:
        lines = nut._Lines(0.001)
        lines.connect = lambda places: _made(lines, places, data)  # type: ignore[method-assign]
        sensor = nut.NutSensor(
            nut.NutServer("127.0.0.1", user="u", password="p", login=True), _at_once
        )
        await sensor._connect(lines)
        for _ in range(2):
            await sensor._poll(lines, right.ups)

    run(talk())


async def _at_once(call: Any) -> Any:
    return call()


async def _made(lines: nut._Lines, _places: object, data: bytes) -> None:
    lines.connection_made(_Upsd(lines, data.split(NEXT)))


def upsd_words() -> Sequence[bytes]:
    """Return conversations: calm, on battery, one that refuses."""
    status = b'VAR ups1 ups.status "OL"\n'
    listed = b"BEGIN LIST VAR ups1\n" + status + b'VAR ups1 battery.charge "9"\nEND LIST VAR ups1\n'
    begun = [b"OK\n", b"OK\n", b'BEGIN LIST UPS\nUPS ups1 "x"\nEND LIST UPS\n', b"OK\n", listed]
    return [
        NEXT.join((*begun, status)),
        NEXT.join((*begun, status.replace(b"OL", b"OB LB"), listed.replace(b"OL", b"OB LB"))),
        NEXT.join((*begun[:3], b"ERR ACCESS-DENIED\n")),
    ]


async def _answered(parts: Sequence[bytes]) -> str:
    """Return what a metadata service answers that sends these parts, then ends."""
    asked = cloud_http.Connection("127.0.0.1", 80, "x")
    asked.connection_made(_Upsd(asked, ()))
    answer = asked._answer = asyncio.get_running_loop().create_future()
    asked._waits = True
    for part in parts:
        if part:
            asked.data_received(part)
        assert len(asked._buffer) <= cloud_http.MAX_HEAD_BYTES + 5 * cloud_http.MAX_BODY_BYTES
    asked.eof_received()
    try:
        return repr(right.response(await answer))
    except (Malformed, EOFError) as error:
        return type(error).__name__


def metadata_cut(data: bytes) -> None:
    """Read an answer of a metadata service whole, and in pieces."""

    async def read() -> None:
        whole = await _answered([data])
        # What comes behind an answer is another matter than the answer.
        assert whole == await _answered(pieces(data))

    run(read())


def bus_from_its_first_word(data: bytes) -> None:
    """Connect to a bus that says its next word after each of ours, and call it once."""

    async def connect() -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        words = data.split(NEXT)
        loop = asyncio.get_running_loop()

        async def sendall(_sock: object, _data: bytes) -> None:
            with contextlib.suppress(OSError):
                theirs.sendall(words.pop(0) if words else b"")
            if not words:
                theirs.shutdown(socket.SHUT_WR)

        made = SimpleNamespace(**{**vars(socket), "socket": lambda *_: ours})
        with ours, theirs, contextlib.ExitStack() as stack:
            for owner, name, value in (
                (system_bus, "socket", made),
                (system_bus, "TIMEOUT_S", 0.01),
                (loop, "sock_sendall", sendall),
                (loop, "sock_connect", _connected),
            ):
                stack.enter_context(scratch.stand_in(owner, name, value))
            bus = system_bus.SystemBus(lambda *_: None, lambda: None)
            try:
                await bus.connect("/dev/null")
                await bus.call(("/x", "a.b", "a.b"), "GetAll", "s", ("x",))
            except FAILURES as error:
                right.words(error)
            finally:
                bus.close()

    run(connect())


async def _connected(*_: object) -> None:
    """Be connected already."""


def bus_words() -> Sequence[bytes]:
    """Return conversations with a bus: the greeting, the answer to Hello, one to the call."""
    hello, *_ = bus_messages()
    again = hello.replace(b"\x01\0\0\0", b"\x02\0\0\0")
    greeting = [b"OK 0123456789abcdef0123456789abcdef\r\n", b"AGREE_UNIX_FD\r\n", b""]
    return [
        NEXT.join((*greeting, hello, again)),
        NEXT.join((b"REJECTED EXTERNAL\r\n",)),
        NEXT.join((greeting[0], b"ERROR\r\n")),
    ]


USERS = (0, 12345, 12345, 54321)


def control_sessions(data: bytes) -> None:
    """Serve four who write to the control socket at once, a piece of each after the other."""

    async def serve() -> None:
        server = ControlServer(Path("/nowhere"), handlers())
        readers = [asyncio.StreamReader(limit=1 << 14) for _ in USERS]
        voices = [Voice() for _ in USERS]
        work = [
            asyncio.ensure_future(
                server._converse(reader, cast("Any", voice), Peer(os.getpid(), uid))
            )
            for reader, voice, uid in zip(readers, voices, USERS, strict=True)
        ]
        streams = [pieces(part) for part in _shares(data)]
        for turn in range(max(map(len, streams))):
            for reader, stream in zip(readers, streams, strict=True):
                reader.feed_data(stream[turn] if turn < len(stream) else b"")
            server.tell(b'{"type":"x"}')
            await asyncio.sleep(0)
        for reader in readers:
            reader.feed_eof()
        await asyncio.gather(*work)
        for voice in voices:
            right.answers(voice.answers)
        assert not server._followers

    with scratch.stand_in(control, "PACE_S", 0.0):
        run(serve())


def _shares(data: bytes) -> list[bytes]:
    lines = data.split(b"\n")
    return [b"".join(line + b"\n" for line in lines[one :: len(USERS)]) for one in range(4)]


TARGETS = (
    Target(
        "packets of a broker, in pieces",
        ("mqtt/connection.py", "mqtt/bounded.py", "mqtt/incoming.py"),
        packets_cut,
        of_network.packets,
    ),
    Target(
        "a conversation with upsd",
        ("sensors/nut.py",),
        upsd_dialogue,
        upsd_words,
        (nut._Refused, OSError, EOFError, ValueError),
    ),
    Target(
        "answers of metadata, in pieces",
        ("sensors/cloud_http.py",),
        metadata_cut,
        of_network.http_answers,
    ),
    Target(
        "the message bus, from its first word",
        ("sensors/system_bus.py",),
        bus_from_its_first_word,
        bus_words,
    ),
    Target(
        "several on the control socket",
        ("control.py",),
        control_sessions,
        lambda: [b"\n".join((*REQUESTS, b'{"cmd":"follow"}', json.dumps({"cmd": "x"}).encode()))],
    ),
)
