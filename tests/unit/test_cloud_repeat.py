"""The same question ever again over one connection: what is the same is only compared."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from linkhold.sensors.cloud_http import Again, Connection
from support.metadata_server import Asked, MetadataServer, Told

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.sensors.reach.http_message import Response

PAUSE_S, TIMEOUT_S = 0.01, 0.2
CALM = Told(body='{"Events":[]}')


class Scene:
    """A service that tells ``script`` in order, its last entry for ever."""

    def __init__(self, script: Sequence[Told]) -> None:
        self.script = list(script)
        self.same = 0

    def answer(self, asked: Asked) -> Told:
        """Tell what is due, with a Date that is always another one."""
        told = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        told.headers["Date"] = f"{id(asked)}"
        return told

    def count(self) -> None:
        """Count an answer that was the same."""
        self.same += 1


def watched(
    script: Sequence[Told],
    *,
    until_s: float = 5.0,
) -> tuple[Response | None, Scene]:
    """Ask once, then ever again; return what came in the end."""

    async def go() -> tuple[Response | None, Scene]:
        scene = Scene(script)
        async with MetadataServer(scene.answer) as server:
            connection = Connection("127.0.0.1", server.port, "x")
            until = asyncio.get_running_loop().time() + until_s
            again = Again(TIMEOUT_S, until, lambda: PAUSE_S, scene.count)
            await connection.ask("GET", "/x", {}, TIMEOUT_S)
            try:
                found = await connection.repeat("/x", {}, again)
            finally:
                connection.close()
        return found, scene

    return asyncio.run(go())


@pytest.mark.parametrize(
    "other",
    [Told(body='{"Events":[1]}'), Told(404, CALM.body), Told(body=""), Told(500, "x" * 5000)],
)
def test_the_first_other_answer_comes_back(other: Told) -> None:
    """Another body or status is returned; those before it are only counted, whatever their Date."""
    found, scene = watched([CALM, CALM, CALM, CALM, other])

    assert found is not None
    assert (found.status, found.body) == (other.status, other.body)
    assert scene.same == 3


def test_an_empty_answer_hides_none_that_comes_in_two_parts() -> None:
    """A head whose body is still on its way looks like an answer without one: it is asked anew."""
    bodies = [b"", b"", b"hello"]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(EOFError, OSError):
            while await reader.readuntil(b"\r\n\r\n"):
                body = bodies.pop(0) if len(bodies) > 1 else bodies[0]
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
                await asyncio.sleep(PAUSE_S / 2)
                writer.write(body)
        writer.transport.abort()

    async def go() -> Response | None:
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        connection = Connection("127.0.0.1", server.sockets[0].getsockname()[1], "x")
        again = Again(TIMEOUT_S, float("inf"), lambda: PAUSE_S, lambda: None)
        try:
            await connection.ask("GET", "/x", {}, TIMEOUT_S)
            found = await connection.repeat("/x", {}, again)
            return found or await connection.ask("GET", "/x", {}, TIMEOUT_S)
        finally:
            connection.close()
            await asyncio.sleep(10 * PAUSE_S)  # both ends of each connection are closed
            server.close()

    found = asyncio.run(go())

    assert found is not None
    assert found.body == "hello"


def test_a_server_that_closes_is_asked_anew() -> None:
    """The end of a kept connection is no answer and no failure."""
    closing = Told(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n" + CALM.body.encode())

    found, scene = watched([CALM, CALM, closing])

    assert found is None
    assert scene.same == 2


def test_the_end_of_a_token_ends_it() -> None:
    """At ``until_s`` nothing more is asked."""
    found, scene = watched([CALM], until_s=0.2)

    assert found is None
    assert 2 <= scene.same <= 21


def test_silence_is_a_timeout() -> None:
    """A service that hangs raises as :meth:`ask` does, after the timeout and not after a pause."""
    with pytest.raises(asyncio.TimeoutError):
        watched([CALM, CALM, Told(body=CALM.body, hang_s=5)])


def test_an_answer_slower_than_the_pace_is_taken() -> None:
    """It is read as a whole answer; nothing is asked a second time meanwhile."""
    found, scene = watched([CALM, CALM, Told(body=CALM.body, hang_s=8 * PAUSE_S), Told(500)])

    assert found is not None
    assert (found.status, found.body) == (200, CALM.body)
    assert scene.same == 1
    assert len(scene.script) == 1
