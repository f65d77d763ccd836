"""What follows a request on the control socket: only from root, whole, and within its size."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from linkhold import door
from linkhold.control import MAX_BODY_BYTES, ControlClient, ControlServer
from linkhold.door import Peer
from linkhold.model import LinkholdError
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path


def served(folder: Path, talk: Callable[[Path], Any]) -> tuple[Any, dict[str, int]]:
    """Return what ``talk`` returns beside a server that answers with the size of the body."""

    async def size(request: Mapping[str, Any], _peer: Peer) -> bytes:
        return b'"size":' + str(len(request.get("body", b""))).encode()

    async def scene() -> tuple[Any, dict[str, int]]:
        server = ControlServer(folder / "c.sock", {"size": size})
        await server.start()
        try:
            return await in_thread(lambda: talk(folder / "c.sock")), server.counters
        finally:
            await server.stop()

    return asyncio.run(asyncio.wait_for(scene(), 20))


def raw(path: Path, *parts: bytes) -> list[dict[str, Any]]:
    """Send bytes, then nothing more, and return every answer until the server hangs up."""
    import socket

    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(5)
        sock.connect(str(path))
        with contextlib.suppress(BrokenPipeError):  # it may have hung up before the last part
            for part in parts:
                sock.sendall(part)
            sock.shutdown(socket.SHUT_WR)
        found = []
        # unix(7): hanging up with something unread resets the connection, after what it sent.
        with sock.makefile("rb") as answers, contextlib.suppress(ConnectionResetError):
            for line in answers:
                found.append(json.loads(line))  # noqa: PERF401 - what came before a reset counts
        return found


def test_a_body_is_longer_than_a_line_may_be(tmp_path: Path) -> None:
    """Bytes of any kind, newlines too; the connection goes on after it."""

    def talk(path: Path) -> list[int]:
        client = ControlClient(path)
        try:
            bodies = (b"{}\n" * 100_000, b"", os.urandom(1000))
            return [client.ask("size", body=body)["size"] for body in bodies]
        finally:
            client.close()

    assert served(tmp_path, talk)[0] == [300_000, 0, 1000]


@pytest.mark.parametrize("size", [0, -1, MAX_BODY_BYTES + 1, 1e9, True, "9", None, [1]])
def test_a_size_that_is_none_ends_the_connection(tmp_path: Path, size: Any) -> None:
    """Nothing of what follows is taken for a request."""
    request = json.dumps({"cmd": "size", "bytes": size}).encode() + b"\n"
    answers, counters = served(tmp_path, lambda path: raw(path, request, b'{"cmd": "size"}\n'))

    assert [answer["ok"] for answer in answers] == [False]
    assert "is no number from 1 to" in answers[0]["error"]
    assert counters["control_bad_requests"] == 1


def test_a_body_that_ends_early_is_no_request(tmp_path: Path) -> None:
    """Half a report is not published."""
    request = b'{"cmd": "size", "bytes": 10}\n'
    answers, _ = served(tmp_path, lambda path: raw(path, request, b"half"))
    assert answers == [{"ok": False, "error": "the request ended early"}]


def test_others_than_root_send_no_body(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stranger does not make the agent keep half a megabyte."""
    monkeypatch.setattr(door, "peer_of", lambda _: Peer(1, 12345))

    def talk(path: Path) -> str:
        client = ControlClient(path)
        try:
            with pytest.raises(LinkholdError) as caught:
                client.ask("size", body=b"x" * 100)
            return str(caught.value)
        finally:
            client.close()

    assert "only root" in served(tmp_path, talk)[0]
