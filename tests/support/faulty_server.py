"""A server on loopback that fails in a stated way a stated number of times, then answers 200."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with zero seconds: close(2) sends RST."""
FINE = b'HTTP/1.1 200 OK\r\nContent-Length: 4\r\nETag: "x"\r\nConnection: close\r\n\r\nfine'
BUSY = (
    b"HTTP/1.1 503 Slow Down\r\nRetry-After: 1\r\nContent-Type: application/xml\r\n"
    b"Content-Length: 0\r\nConnection: close\r\n\r\n"
)
HALF = b'HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nETag: "x"\r\n\r\nhalf'
FAULTS = ("reset", "hang", "half", "busy")


class FaultyServer:
    """Serves one request per connection; does ``fault``, one of FAULTS, ``times`` times."""

    def __init__(self, fault: str, times: int = 2) -> None:
        self.fault = fault
        self.left = times
        self.connections = 0
        self._hung: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    @property
    def url(self) -> str:
        """Where it listens, for clients."""
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # close(2) does not wake a thread in accept(2); shutdown does.
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listening.close()
        for connection in self._hung:
            connection.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with contextlib.suppress(OSError):
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        asked = b""
        while b"\r\n\r\n" not in asked:
            more = connection.recv(65536)
            if not more:
                break
            asked += more
        faulty = self.left > 0
        self.left -= faulty
        if faulty and self.fault == "hang":
            self._hung.append(connection)
            return
        if faulty and self.fault == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        else:
            connection.sendall({"half": HALF, "busy": BUSY}[self.fault] if faulty else FINE)
        connection.close()
