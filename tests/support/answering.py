"""Small servers with scripted answers, for tests of what asks them. They run in threads."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from typing_extensions import Self

Answer = bytes | None
"""What is sent back; None: nothing, and the connection stays open."""
RESET = b"reset"
"""The connection is reset in place of an answer."""
LINGER_0 = struct.pack("=ii", 1, 0)


class Files(dict[str, str]):
    """Files by name."""

    def text(self, name: str) -> str | None:
        """Return one, None where there is none."""
        return self.get(name)


class Server:
    """Answers each message that comes to one address and port. Made in the caller's namespace.

    ``asked`` are all messages that came.
    """

    def __init__(
        self,
        kind: int,
        address: str,
        port: int,
        answer: Callable[[bytes], Answer],
        tls: ssl.SSLContext | None = None,
        *,
        poll_s: float = 0.05,
    ) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.asked: list[bytes] = []
        self._answer, self._tls, self._kind = answer, tls, kind
        self._open: list[socket.socket] = []
        self._socket = socket.socket(family, kind)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((address, port))
        if kind == socket.SOCK_STREAM:
            self._socket.listen()
        self._socket.settimeout(poll_s)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for one in (self._socket, *self._open):
            one.close()

    def _run(self) -> None:
        serve = self._connection if self._kind == socket.SOCK_STREAM else self._datagram
        while not self._ending.is_set():
            with contextlib.suppress(OSError):
                serve()

    def _datagram(self) -> None:
        data, sender = self._socket.recvfrom(4096)
        self.asked.append(data)
        answer = self._answer(data)
        if answer is not None:
            self._socket.sendto(answer, sender)

    def _connection(self) -> None:
        peer, _ = self._socket.accept()
        peer.settimeout(2)
        if self._tls is not None:
            try:
                peer = self._tls.wrap_socket(peer, server_side=True)
            except OSError:
                peer.close()
                raise
        data = peer.recv(4096)
        self.asked.append(data)
        answer = self._answer(data)
        if answer is None:
            self._open.append(peer)
            return
        if answer == RESET:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_0)
        else:
            peer.sendall(answer)
        peer.close()


def http_answer(status: int, body: str = "", headers: str = "") -> bytes:
    """Return an HTTP answer; ``headers`` are whole lines."""
    data = body.encode()
    return f"HTTP/1.1 {status} X\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode() + data


class FakeAws:
    """IMDSv2: a token by PUT, then the machine's identity; ``lie`` answers in its place."""

    def __init__(self, lie: bytes | None = b"", refuse_first: int = 0) -> None:
        self.lie, self._refuse = lie, refuse_first

    def __call__(self, asked: bytes) -> bytes | None:
        if self.lie != b"":
            return self.lie
        if asked.startswith(b"PUT /latest/api/token"):
            wanted = b"x-aws-ec2-metadata-token-ttl-seconds: 60" in asked.lower()
            return http_answer(200, "AQAEA-token") if wanted else http_answer(400)
        if b"x-aws-ec2-metadata-token: aqaea-token" not in asked.lower():
            return http_answer(401)
        if self._refuse:
            self._refuse -= 1
            return http_answer(401)
        return http_answer(200, "i-0abc1234def567890")
