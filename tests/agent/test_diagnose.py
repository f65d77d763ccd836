"""The command beside a whole agent: what the agent knows of its node is part of the verdict."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from support.answering import Server
from support.broker import wait_until
from support.ill_network import resolve
from support.netns import Namespace
from support.running import ENVIRONMENT, LINKHOLD, agent_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.running import Running

GATEWAY = "10.0.0.1"
CONFIG = f"""
mqtt:
  local: false
  fleet: [{{host: {GATEWAY}}}]
"""
ALONE = ("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Processes of other tests and their connections are none of this node's."""
RESOLVING = 'mount --bind "$1" /etc/resolv.conf && shift && exec "$@"'

FAULTS = {
    "heartbeats lost": (
        "degraded", "beyond", "the agent reaches no broker of the fleet: its heartbeats are lost",
    ),
    "agent hangs": (
        "degraded", "host", "the agent of this node hangs (the agent does not answer (timed out))",
    ),
}  # fmt: skip


@pytest.fixture
def gateway(ns: Namespace) -> Iterator[Namespace]:
    """The gateway behind eth0, with a resolver; nobody listens on the port of the broker."""
    with Namespace() as made:
        ns.ip("link del eth0")
        ns.veth("eth0", "lan", other=made)
        ns.ip("addr add 10.0.0.2/24 dev eth0")
        made.ip(f"addr add {GATEWAY}/24 dev lan")
        ns.ip(f"route add default via {GATEWAY}")
        with made.enter():
            resolver = Server(socket.SOCK_DGRAM, GATEWAY, 53, resolve)
        with resolver:
            yield made


def diagnosed(agent: Running, folder: Path) -> tuple[int, dict[str, Any]]:
    """Return exit code and document of the command, in the namespace of this thread."""
    names = folder / "resolv.conf"
    names.write_text(f"nameserver {GATEWAY}\n")
    command = [*ALONE, "sh", "-c", RESOLVING, "sh", str(names), str(LINKHOLD)]
    done = subprocess.run(
        [*command, "diagnose", "--json", "--since", "1s", "--config", str(agent.config_file)],
        env={**ENVIRONMENT, "LINKHOLD_RUN_DIR": str(agent.run_dir)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_lost_heartbeats_are_told(
    gateway: Namespace, agents: Callable[..., Running], place: Path
) -> None:
    """A node whose agent reaches no broker looks dead from afar, and nothing else is broken."""
    agent = agents(CONFIG).start().wait_ready("")
    agent.wait_for(lambda state: agent_of(state)["leg_b"].startswith("down"), 10)
    code, told = diagnosed(agent, place)

    check("heartbeats lost", code, told)


@pytest.mark.usefixtures("gateway")
def test_an_agent_that_hangs_is_told(agents: Callable[..., Running], place: Path) -> None:
    """It is there, it watches nothing, and nobody would notice: not the same as no agent."""
    agent = agents("mqtt: {local: false}\n").start().wait_ready("")
    wait_until(lambda: agent.cli("status").returncode == 0)
    agent.send(signal.SIGSTOP)
    code, told = diagnosed(agent, place)

    check("agent hangs", code, told)


def check(fault: str, code: int, told: dict[str, Any]) -> None:
    """Compare a report with what must come out."""
    state, where, words = FAULTS[fault]

    assert (told["state"], told["place"], code) == (state, where, 1), told
    assert words in told["sentence"]
