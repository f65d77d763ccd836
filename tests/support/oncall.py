"""A real Alertmanager under test control, and the receiver of its notifications."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import linkhold.relay
from support.broker import TIED_TO_US, free_port, wait_until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from support.broker import Broker

ALERTMANAGER = "/usr/bin/prometheus-alertmanager"
FILES = Path(linkhold.relay.__file__).parent / "files"
START_S = 15.0


@dataclass(frozen=True)
class Notification:
    """One message to a receiver: a page, when the receiver is ``on-call``."""

    receiver: str
    at_s: float
    status: str
    labels: Mapping[str, str]
    alerts: tuple[Mapping[str, Any], ...]

    def names(self, status: str = "firing") -> list[str]:
        """Return the names of its alerts with this status, and their nodes."""
        return sorted(
            f"{alert['labels']['alertname']} {alert['labels'].get('node', '')}".strip()
            for alert in self.alerts
            if alert["status"] == status
        )


class Webhook:
    """Takes notifications and keeps them. ``refuse`` answers 503, as a pager that is away."""

    def __init__(self) -> None:
        self.notifications: list[Notification] = []
        self.refuse = False
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hook.refuse:
                    self.send_error(503)
                    return
                hook._take(self.path.lstrip("/"), json.loads(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _take(self, receiver: str, document: Mapping[str, Any]) -> None:
        self.notifications.append(
            Notification(
                receiver,
                time.time(),
                document["status"],
                document["groupLabels"],
                tuple(document["alerts"]),
            )
        )

    def pages(self, receiver: str = "on-call", status: str = "firing") -> list[Notification]:
        """Return what a receiver got with this status."""
        return [
            one for one in self.notifications if one.receiver == receiver and one.status == status
        ]

    def told(self, name: str, receiver: str = "on-call") -> list[Notification]:
        """Return the notifications in which an alert of this name fires."""
        return [
            one
            for one in self.pages(receiver)
            if any(text.split()[0] == name for text in one.names())
        ]

    def close(self) -> None:
        """End the server."""
        self._server.shutdown()
        self._server.server_close()


class Alertmanager:
    """One process with the shipped configuration on the loopback, its waits shortened.

    With ``waits`` False they are as shipped. ``cluster`` is the port on which members of a cluster
    find each other, 0 for one that stands alone; ``peer`` is another member's.
    """

    def __init__(
        self, folder: Path, webhook: Webhook, *, waits: bool = True, cluster: int = 0, peer: int = 0
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None
        self._cluster = ["--cluster.listen-address="]
        if cluster:
            self._cluster = [
                f"--cluster.listen-address=127.0.0.1:{cluster}",
                f"--cluster.peer=127.0.0.1:{peer}",
                "--cluster.peer-timeout=3s",  # how long the second waits for the first to tell
                "--cluster.gossip-interval=50ms",
                "--cluster.settle-timeout=1s",
            ]
        text = (FILES / "alertmanager.yml").read_text()
        text = text.replace("http://127.0.0.1:9095", webhook.url)
        short = {"group_wait": "1s", "group_interval": "2s"} if waits else {}
        for name, value in short.items():
            text = re.sub(rf"(?m)^(\s*){name}: \S+", rf"\1{name}: {value}", text)
        (folder / "alertmanager.yml").write_text(text)

    def start(self) -> Alertmanager:
        """Start it and wait until it is ready."""
        command = [
            ALERTMANAGER,
            f"--config.file={self.folder}/alertmanager.yml",
            f"--storage.path={self.folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}",
            "--data.maintenance-interval=1s",  # what was told outlives a kill -9
            *self._cluster,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*TIED_TO_US, *command], stdout=log, stderr=log)
        wait_until(self._ready, START_S, "alertmanager is ready")
        return self

    def wait_for_groups(self, seconds: float) -> None:
        """Start again with another ``group_wait`` of what is not told first."""
        path = self.folder / "alertmanager.yml"
        text = re.sub(r"group_wait: \S+", f"group_wait: {seconds:g}s", path.read_text(), count=1)
        path.write_text(text)
        self.kill()
        self.start()

    def _ready(self) -> bool:
        with suppress(OSError), urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as answer:
            return bool(answer.status == 200)
        return False

    def active(self) -> list[str]:
        """Return the names of active alerts with their nodes, without the life sign."""
        url = f"{self.url}/api/v2/alerts"
        with urllib.request.urlopen(url, timeout=5) as answer:
            alerts = json.load(answer)
        names = [
            f"{a['labels']['alertname']} {a['labels'].get('node', '')}".strip() for a in alerts
        ]
        return sorted(name for name in names if name != "LinkholdRelayAlive")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


class RelayProcess:
    """A ``linkhold relay`` of its own process, with quick times."""

    def __init__(
        self, folder: Path, name: str, brokers: Sequence[Broker], ams: Sequence[str]
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.config = folder / "relay.yaml"
        self.process: subprocess.Popen[bytes] | None = None
        self.metrics_port = free_port()
        lines = [f"name: {name}", f"state_dir: {folder}/state", "brokers:"]
        lines += [f"- {{host: 127.0.0.1, port: {one.port}}}" for one in brokers]
        lines += ["alertmanagers:", *(f"- {{url: '{url}'}}" for url in ams)]
        lines += [
            "paging: {offline_after_s: 1, repost_s: 5, ends_s: 60, gone_s: 10}",
            "places:",
            "- {nodes: ['r1-*'], rack: r1, links: {eth0: {switch: tor-1}}}",
            f"metrics: {{textfile: {folder}/relay.prom, listen: '127.0.0.1:{self.metrics_port}'}}",
        ]
        self.config.write_text("\n".join(lines) + "\n")

    def start(self) -> RelayProcess:
        """Start it; it needs about a second."""
        command = [sys.executable, "-m", "linkhold", "relay", "--config", str(self.config)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*TIED_TO_US, *command], stdout=log, stderr=log)
        return self

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> int:
        """End it in order and return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(10)
        self.process = None
        return code

    def log(self) -> str:
        """Return what it has logged."""
        return (self.folder / "log").read_text()
