"""A real S3 server (moto's) on loopback, which a test may kill; bad ways to it, and a liar."""

from __future__ import annotations

import contextlib
import hashlib
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from support.broker import TIED_TO_US, free_port

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Self

BUCKET = "ckpts"
START_S = 60.0
DATE = "Mon, 30 Nov 2026 00:00:00 GMT"
RESET = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # struct linger: on, 0 s, so that closing sends a RST


def options(port: int) -> dict[str, Any]:
    """Return fsspec's options for an S3 server on this port of the loopback."""
    return {
        "key": "test-key",
        "secret": "test-secret",
        "client_kwargs": {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": "us-east-1"},
        "config_kwargs": {
            "connect_timeout": 2,
            "read_timeout": 3,
            "s3": {"addressing_style": "path"},
        },
    }


class S3Server:
    """One moto server; what it stores is gone with its process."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log = folder / "moto.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it with an empty bucket."""
        command = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*TIED_TO_US, sys.executable, *command], stdout=log, stderr=log
            )
        end_s = time.monotonic() + START_S
        while True:
            try:
                self._request("PUT", f"/{BUCKET}")
                return
            except OSError:
                assert time.monotonic() < end_s, self._log.read_text()
                time.sleep(0.1)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def names(self) -> list[str]:
        """Return the names of all objects."""
        return sorted(name.removeprefix(f"{BUCKET}/") for name in self.fs().find(BUCKET))

    def content(self, key: str) -> bytes:
        """Return an object."""
        found = self.fs().cat_file(f"{BUCKET}/{key}")
        assert isinstance(found, bytes)
        return found

    def fs(self) -> Any:
        """Return a file system that sees what is there now."""
        import fsspec

        return fsspec.filesystem("s3", use_listings_cache=False, **options(self.port))

    def _request(self, method: str, path: str) -> None:
        import http.client

        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request(method, path)
            connection.getresponse().read()
        finally:
            connection.close()


class Wire:
    """A TCP way to another port of the loopback, which can be made slow or cut in the middle.

    ``cut_after`` is how many bytes pass towards the server before each connection is reset, None
    for no cut; ``bytes_per_s`` how fast; ``dead`` lets nothing pass and says nothing. ``passed``
    counts what reached the server.
    """

    def __init__(self, port: int) -> None:
        self.cut_after: int | None = None
        self.bytes_per_s: float | None = None
        self.dead = False
        self.passed = 0
        self.cuts = 0
        self.connections = 0
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._closing = False
        self.port = int(self._listener.getsockname()[1])
        self._start(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for sock in self._sockets:
            sock.close()

    def _start(self, target: Any, *args: Any) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._sockets.append(near)
            try:
                far = socket.create_connection(("127.0.0.1", self._target), timeout=5)
            except OSError:
                self._reset(near)
                continue
            far.settimeout(None)
            self._sockets.append(far)
            self._start(self._carry, near, far, "there")
            self._start(self._carry, far, near, "back")

    def _carry(self, source: socket.socket, target: socket.socket, way: str) -> None:
        towards, carried = way == "there", 0
        with contextlib.suppress(OSError):
            while content := source.recv(16384):
                while self.dead and not self._closing:
                    time.sleep(0.02)
                carried += len(content)
                if towards and self.cut_after is not None and carried > self.cut_after:
                    self.cuts += 1
                    self._reset(source)
                    break
                if towards and self.bytes_per_s is not None:
                    time.sleep(len(content) / self.bytes_per_s)
                target.sendall(content)
                if towards:
                    self.passed += len(content)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def _reset(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            # Another thread may sit in recv(): it keeps the connection until it is shut down.
            sock.shutdown(socket.SHUT_RD)
            sock.close()


class Liar:
    """A store that says 200 to everything and keeps something else.

    ``spoil`` turns what was sent into what is kept (None: it keeps nothing). ``etag`` says what it
    tells of it: "kept", or "opaque" as a store does that encrypts. With ``busy_for`` it answers 503
    and Retry-After instead. ``puts`` holds when it was asked to keep something.
    """

    def __init__(self) -> None:
        self.spoil: Any = lambda content: content
        self.etag = "kept"
        self.busy_for: str | None = None
        self.objects: dict[str, bytes] = {}
        self.puts: list[float] = []
        self._server = _LiarServer(self)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def etag_of(self, content: bytes) -> str:
        """Return the ETag of an object."""
        salt = b"" if self.etag == "kept" else b"encrypted"
        return f'"{hashlib.md5(salt + content).hexdigest()}"'

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


class _LiarServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, liar: Liar) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.liar = liar


class _Handler(BaseHTTPRequestHandler):
    """Speaks as much of S3 as an upload needs."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"] or 0))
        self._liar.puts.append(time.monotonic())
        if self._liar.busy_for is not None:
            self._say(503, {"Retry-After": self._liar.busy_for})
            return
        kept = self._liar.spoil(content)
        if kept is not None:
            self._liar.objects[self._key()] = kept
        self._say(200, {"ETag": self._liar.etag_of(content)})

    def do_HEAD(self) -> None:
        kept = self._liar.objects.get(self._key())
        if kept is None:
            self._say(404, {})
            return
        self._say(200, {"ETag": self._liar.etag_of(kept), "Last-Modified": DATE}, kept, body=False)

    def do_GET(self) -> None:
        kept = self._liar.objects.get(self._key())
        if kept is None:
            self._say(404, {})
            return
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = kept[int(first) : int(last) + 1]
        span = f"bytes {first}-{int(first) + len(part) - 1}/{len(kept)}"
        self._say(206, {"Content-Range": span, "ETag": self._liar.etag_of(kept)}, part)

    def do_DELETE(self) -> None:
        self._liar.objects.pop(self._key(), None)
        self._say(204, {})

    @property
    def _liar(self) -> Liar:
        assert isinstance(self.server, _LiarServer)
        return self.server.liar

    def _key(self) -> str:
        return unquote(urlsplit(self.path).path).lstrip("/")

    def _say(
        self, code: int, headers: dict[str, str], content: bytes = b"", *, body: bool = True
    ) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name
        """Say nothing."""
