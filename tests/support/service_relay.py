"""The relay as a service, in a guest with systemd: installed, started, killed, removed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from contextlib import contextmanager
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support import installed
from support.broker import Broker, free_port
from support.lab import scenario
from support.serviced import AGENT, pid, say, shown
from support.topology import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.lab import Box

RELAY = "linkhold-relay.service"
CONFIG = Path("/etc/linkhold/relay.yaml")
SECRET = Path("/etc/linkhold/relay/password")
DROP_IN = Path(f"/run/systemd/system/{RELAY}.d/crash.conf")
WATCHDOG = "[Service]\nWatchdogSec=6\n"
CRASH = "[Service]\nExecStart=\nExecStart=/bin/false\nRestartSec=50ms\n"


class Alerts(BaseHTTPRequestHandler):
    """Takes alerts as Alertmanager's API does; keeps names of those that came and that ended."""

    seen: set[str] = set()  # noqa: RUF012 -- one server at a time
    ended: set[str] = set()  # noqa: RUF012 -- as above

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        now = datetime.now(timezone.utc)
        for alert in body:
            self.seen.add(alert["labels"]["alertname"])
            if datetime.fromisoformat(alert["endsAt"].replace("Z", "+00:00")) <= now:
                self.ended.add(alert["labels"]["alertname"])
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _alertmanager() -> Iterator[int]:
    Alerts.seen.clear()
    with HTTPServer(("127.0.0.1", 0), Alerts) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@scenario(timeout_s=240)
def relays(box: Box, wheel: str) -> dict[str, Any]:
    """Install the relay beside the agent, tell it whom to listen to, end it, take it away."""
    asked = ("--system", "--relay")
    agent = pid(AGENT)
    first = installed.setup(Path(wheel), *asked).stdout
    found: dict[str, Any] = {
        "first": first,
        "waits": shown(RELAY, "ActiveState"),
        "again": installed.setup(Path(wheel), *asked).stdout,
    }
    folder = Path("/tmp/relayed")
    users = folder / "users"
    folder.mkdir()
    subprocess.run(["mosquitto_passwd", "-b", "-c", str(users), "relay", "geheim"], check=True)
    broker = Broker(folder, f"password_file {users}", anonymous=False).start()
    SECRET.write_text("geheim\n", encoding="ascii")
    SECRET.chmod(0o600)
    with _alertmanager() as port:
        CONFIG.write_text(
            f"brokers: [{{host: 127.0.0.1, port: {broker.port}, username: relay, "
            f"password_file: {SECRET}}}]\nalertmanagers: [{{url: 'http://127.0.0.1:{port}'}}]\n"
            f"paging: {{repost_s: 5}}\nmetrics: {{listen: '127.0.0.1:{free_port()}'}}\n",
            encoding="ascii",
        )
        found["configured"] = installed.setup(Path(wheel), *asked).stdout
        told = lambda: "LinkholdRelayAlive" in Alerts.seen  # noqa: E731
        wait_until(told, f"alerts; {_journal()}", timeout_s=40)
        connected = lambda: "as linkhold-relay-relay" in broker.log()  # noqa: E731
        wait_until(connected, f"the broker knows it; {_journal()}", timeout_s=20)
        found |= _confined()
        _put_drop_in(WATCHDOG)  # instead of three minutes, from the next start on
        for number in (signal.SIGKILL, signal.SIGSTOP):
            before = pid(RELAY)
            os.kill(before, number)
            Alerts.seen.clear()
            wait_until(lambda: pid(RELAY) not in {0, before}, "another relay", timeout_s=20)  # noqa: B023
            wait_until(told, f"alerts of another relay; {_journal()}", timeout_s=40)
        found |= {
            "agent": pid(AGENT) == agent,
            "ended": sorted(Alerts.ended),
            "hung": _journal("99"),
        }
    broker.stop()
    return {**found, **_gives_up(), **_goes(wheel)}


def _journal(lines: str = "20") -> str:
    return say("journalctl", "-u", RELAY, "-o", "cat", "--no-pager", "-n", lines)


def _confined() -> dict[str, Any]:
    """Look at what the relay may not do, from inside its own namespaces."""
    process = pid(RELAY)
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines()
    fields = dict(line.split(":\t", 1) for line in status if ":\t" in line)
    as_itself = ["nsenter", "--target", str(process), "--mount", "--", "setpriv", "--reuid"]
    as_itself += ["linkhold-relay", "--regid", "linkhold-relay", "--clear-groups", "--"]
    owner = SECRET.stat()
    return {
        "user": say("ps", "-o", "user:32=", "-p", str(process)),
        "rights": (fields["CapBnd"], fields["NoNewPrivs"], fields["Seccomp"]),
        "writes": say(*as_itself, "touch", "/etc/x", "/var/lib/linkhold/x", "/var/lib/x"),
        "state": say("ls", "/var/lib/linkhold-relay"),
        "secret": (oct(owner.st_mode & 0o777), say("stat", "-c", "%U", str(SECRET))),
        "watchdog": shown(RELAY, "WatchdogUSec"),
        "memory_kb": int(fields["VmHWM"].split()[0]),
    }


def _put_drop_in(text: str) -> None:
    DROP_IN.parent.mkdir(parents=True, exist_ok=True)
    DROP_IN.write_text(text, encoding="ascii")
    subprocess.run(["systemctl", "daemon-reload"], check=True)


def _gives_up() -> dict[str, Any]:
    """Let it end at once, at each start."""
    _put_drop_in(CRASH)
    subprocess.run(["systemctl", "reset-failed", RELAY], check=False)
    say("systemctl", "restart", RELAY)
    wait_until(lambda: shown(RELAY, "ActiveState") == "failed", "given up", timeout_s=40)
    found = {"restarts": int(shown(RELAY, "NRestarts")), "result": shown(RELAY, "Result")}
    DROP_IN.unlink()
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    return found


def _goes(wheel: str) -> dict[str, Any]:
    """Remove the relay alone, failed as it is; the agent stays."""
    removed = installed.setup(Path(wheel), "--remove", "--relay").stdout
    return {
        "removed": removed,
        "failed": say("systemctl", "--failed", "--plain", "--no-legend"),
        "left": say("find", "/etc/systemd", "/etc/sysusers.d", "/etc/tmpfiles.d",
                    "-name", "*relay*"),
        "kept": CONFIG.exists() and Path("/opt/linkhold/current").exists(),
        "serves": shown(AGENT, "ActiveState"),
    }  # fmt: skip
