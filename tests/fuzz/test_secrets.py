"""What an owner keeps secret is said to the server it is for, and to nobody else."""

from __future__ import annotations

import json
import stat
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support import netns, running
from support.beyond import Beyond
from support.broker import wait_until
from support.places import TIED, Place
from support.running import ENVIRONMENT, LINKHOLD, Running, agent_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BROKER, UPS, URL, TOKEN = "pw-of-broker-7f3a", "pw-of-ups-91bc", "sig-of-url-5d2e", "hf_env-44c0"
SECRETS = (BROKER, UPS, URL, TOKEN)
CONFIG = """
site: lab
node: n1
mqtt:
  fleet: [{{host: 127.0.0.1, port: 9, username: n1, password_file: {place}/broker.pw}}]
  connect_jitter_s: 0
power:
  nut:
    - {{name: ups, ups: ups1, host: 127.0.0.1, port: 9, user: mon, password_file: {place}/ups.pw}}
paths:
  targets: [{{name: store, http: "http://127.0.0.1:9/bucket?X-Amz-Signature=sig-of-url-5d2e"}}]
metrics: {{textfile: {place}/metrics/linkhold.prom}}
"""
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("events", "--json"),
    ("keepalive", "plan"),
    ("keepalive", "audit"),
    ("report", "--html"),
    ("check",),
    ("diagnose", "--json", "--since", "1s"),
    ("bond", "plan"),
)


@pytest.fixture
def place() -> Iterator[Path]:
    """A short folder, with the secrets in it."""
    with Place() as made:
        (made / "metrics").mkdir()
        for name, secret in (("broker.pw", BROKER), ("ups.pw", UPS)):
            (made / name).write_text(f"{secret}\n")
            (made / name).chmod(0o600)
        yield made


@pytest.fixture
def agent(place: Path) -> Iterator[Running]:
    """An agent that knows all of the secrets, in a namespace with a way out."""
    reason = netns.missing() or running.missing()
    if reason:
        pytest.skip(reason)
    with netns.Namespace() as made:
        made.run("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        made.ip("link set lo up")
        made.veth("eth0", "p0")
        made.ip("addr add 10.0.0.2/24 dev eth0")
        made.ip("route add default via 10.0.0.1")
        with Beyond(made, "p0"), made.enter():
            started = Running(place, CONFIG.format(place=place), env={"HF_TOKEN": TOKEN})
            yield started.start().wait_ready()
            started.kill()


def leaked(text: str, where: str) -> list[str]:
    """Return what is told of the secrets, and where."""
    return [f"{where}: {secret}" for secret in SECRETS if secret in text]


def test_no_secret_is_told(agent: Running, place: Path) -> None:
    """Passwords, the query of a URL, the environment: nowhere, also while each server is away.

    Not in log, state, outbox, diagnosis, report, metrics or any answer of a command.
    """
    agent.wait_for(lambda state: agent_of(state)["leg_b"] != "up")
    wait_until((place / "metrics/linkhold.prom").exists, 20)
    found: list[str] = []
    for command in COMMANDS:
        more = ("--config", str(agent.config_file)) if command[0] in {"check", "diagnose"} else ()
        done = agent.cli(*command, *more, timeout_s=60)
        found += leaked(done.stdout + done.stderr, " ".join(command))
    found += leaked(agent.log(), "log")
    found += leaked(json.dumps(agent.state()), "state")
    kept = [path for folder in ("run", "state", "metrics") for path in (place / folder).rglob("*")]
    files = [path for path in kept if stat.S_ISREG(path.lstat().st_mode)]
    assert {"state.json", "outbox.db", "linkhold.prom"} <= {path.name for path in files}
    for path in files:
        found += leaked(path.read_bytes().decode("latin-1"), str(path.relative_to(place)))
    assert not found


def test_no_other_user_is_handed_our_environment(agent: Running) -> None:
    """The broker is another user, whose environment that user may read."""
    told = Path(f"/proc/{agent.broker()}/environ").read_bytes().decode()
    assert "PATH=" in told
    assert not leaked(told, "environ")
    assert not leaked(Path(f"/proc/{agent.broker()}/cmdline").read_text(), "cmdline")


RELAY = """
brokers: [{{host: 127.0.0.1, port: 9, username: relay, password_file: {place}/broker.pw}}]
alertmanagers: [{{url: "http://127.0.0.1:{port}/am?token={url}", username: r,
                 password_file: {place}/ups.pw}}]
state_dir: {place}
paging: {{repost_s: 5, ends_s: 30}}
metrics: {{textfile: {place}/metrics/relay.prom}}
"""


def test_no_secret_of_the_relay_is_told(place: Path) -> None:
    """Passwords, and the query of Alertmanager's URL, while all of them refuse: not in its log."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        config = place / "relay.yaml"
        config.write_text(RELAY.format(place=place, port=server.server_port, url=URL))
        log = place / "relay.log"
        with log.open("wb") as output, subprocess.Popen(
            [*TIED, str(LINKHOLD), "relay", "--config", str(config)],
            stdout=output, stderr=output, env={**ENVIRONMENT, "HF_TOKEN": TOKEN},
        ) as relay:  # fmt: skip
            wait_until(lambda: "401" in log.read_text(), 20, "the refusal is told")
            wait_until((place / "metrics/relay.prom").exists, 20)
            command = Path(f"/proc/{relay.pid}/cmdline").read_text()
            relay.terminate()
        server.shutdown()
    kept = [one for one in place.rglob("*") if one.is_file() and one.suffix not in {".pw", ".yaml"}]
    found = leaked(command, "command line")
    for path in kept:
        found += leaked(path.read_bytes().decode("latin-1"), path.name)
    assert not found


class _Refusing(BaseHTTPRequestHandler):
    """An Alertmanager that wants another login."""

    def do_POST(self) -> None:
        self.send_error(401, "not with that password")

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_what_others_may_not_read(agent: Running, place: Path) -> None:
    """The outbox and the way into the node's broker are the agent's; the state is everybody's."""
    modes = {
        name: stat.S_IMODE((place / name).stat().st_mode)
        for name in ("state/outbox.db", "run/mqtt/agent.sock", "run/state.json")
    }
    assert modes["state/outbox.db"] == 0o600
    assert modes["run/mqtt/agent.sock"] & 0o077 == 0
    assert modes["run/state.json"] == 0o644
    assert stat.S_IMODE((place / "state").stat().st_mode) & 0o077 == 0
