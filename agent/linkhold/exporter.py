"""Metrics for Prometheus: a textfile for node_exporter, and an endpoint for scrapes.

Both show what was handed over last; nothing is collected while somebody asks. The endpoint serves
one reader at a time with a deadline, in a thread of its own: a reader that hangs costs a thread.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.model import StoreError
from linkhold.wire.openmetrics import OPENMETRICS_TYPE, PROMETHEUS_TYPE, render

if TYPE_CHECKING:
    from collections.abc import Sequence
    from http.server import HTTPServer

    from linkhold.config.metrics import MetricsSettings
    from linkhold.wire.openmetrics import Family

MODE = 0o644
READER_S = 5.0
"""A reader has this long for its request and for taking the answer."""
PATH = "/metrics"


class Exporter:
    """Shows metrics where the settings say. ``problem`` is why it cannot, empty while it can."""

    def __init__(self, settings: MetricsSettings) -> None:
        self._settings = settings
        self._families: Sequence[Family] = ()
        self._server: HTTPServer | None = None
        self._listen_problem = self._file_problem = ""
        if settings.listen:
            self._listen(settings.listen)

    @property
    def wanted(self) -> bool:
        """Whether anybody is to see metrics at all."""
        return bool(self._settings.textfile or self._settings.listen)

    @property
    def problem(self) -> str:
        """Why metrics are not shown as configured, in words."""
        return "; ".join(filter(None, (self._listen_problem, self._file_problem)))

    @property
    def port(self) -> int:
        """The port of the endpoint, 0 without one."""
        return self._server.server_address[1] if self._server is not None else 0

    def show(self, families: Sequence[Family]) -> None:
        """Show these from now on; blocks for as long as the file's disk does."""
        self._families = families
        if not self._settings.textfile:
            return
        try:
            write_whole(Path(self._settings.textfile), render(families))
            self._file_problem = ""
        except StoreError as error:
            self._file_problem = str(error)

    def close(self) -> None:
        """End the endpoint. The file stays: its old time stamp is how people notice."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _listen(self, endpoint: str) -> None:
        host, _, port = endpoint.rpartition(":")
        try:
            self._server = _server(self, host.strip("[]"), int(port))
        except OSError as error:
            self._listen_problem = f"metrics.listen {endpoint}: {error.strerror or error}"
            return
        thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        thread.start()

    def body(self, *, openmetrics: bool) -> bytes:
        """Return what a reader gets."""
        return render(self._families, openmetrics=openmetrics)


def _server(exporter: Exporter, host: str, port: int) -> HTTPServer:
    """Return a bound server; its modules are loaded only where an endpoint is wanted."""
    from http.server import BaseHTTPRequestHandler, HTTPServer  # noqa: PLC0415

    class Handler(BaseHTTPRequestHandler):
        server_version = "linkhold"
        sys_version = ""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != PATH:
                self.send_error(404, f"only {PATH} is here")
                return
            wants = "application/openmetrics-text" in self.headers.get("Accept", "")
            body = exporter.body(openmetrics=wants)
            self.send_response(200)
            self.send_header("Content-Type", OPENMETRICS_TYPE if wants else PROMETHEUS_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing: a scrape every few seconds is no news."""

    class Server(HTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        allow_reuse_address = True

        def finish_request(self, request: Any, client_address: Any) -> None:
            """Serve one reader, and hang up when he takes too long, a byte now and then too."""
            hanging_up = threading.Timer(READER_S, _hang_up, (request,))
            hanging_up.daemon = True
            hanging_up.start()
            try:
                super().finish_request(request, client_address)
            finally:
                hanging_up.cancel()

        def handle_error(self, request: object, client_address: object) -> None:
            """A reader that hangs up is no news."""

    return Server((host, port), Handler)


def _hang_up(reader: socket.socket) -> None:
    with contextlib.suppress(OSError):  # he has hung up himself
        reader.shutdown(socket.SHUT_RDWR)


def write_whole(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Replace a file in one step (rename(2)); ``durable`` also after a power cut.

    Raises :class:`StoreError`, and leaves the old file, when it cannot.
    """
    new = path.with_name(path.name + ".new")
    try:
        with new.open("wb") as file:
            os.fchmod(file.fileno(), MODE)
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
