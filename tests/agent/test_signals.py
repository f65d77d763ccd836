"""Signals: the end is quick and in order whatever hangs; SIGHUP reads the configuration."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.running import agent_of, fleet_config

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.broker import Collector
    from support.netns import Namespace
    from support.running import Running, TiedBroker

ENDS_WITHIN_S = 2.0
FLIPS = 600
THREADS = 4
"""The loop, the log's writer, the outbox and leg B."""


@pytest.fixture
def silent(ns: Namespace) -> Iterator[int]:
    """The port of a listener that lets connections in and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("hangs", ["nothing", "fleet", "local broker", "everything"])
def test_the_end_is_quick_and_in_order(
    agents: Callable[..., Running], silent: int, number: signal.Signals, hangs: str
) -> None:
    """SIGTERM and SIGINT: exit code 0 within two seconds, the end on record, no broker left."""
    config = fleet_config(silent) if hangs in {"fleet", "everything"} else ""
    agent = agents(config).start().wait_ready()
    broker = agent.broker()
    if hangs in {"local broker", "everything"}:
        os.kill(broker, signal.SIGSTOP)

    code, took_s = agent.stop(number)

    assert code == 0
    assert took_s < ENDS_WITHIN_S
    wait_until(lambda: not agent.brokers(), 1)
    assert not (agent.run_dir / "control.sock").exists()
    last = [e["data"] for e in agent.events()[-4:] if e["type"] == "agent.stopping"]
    assert last == [{"reason": number.name}]


def test_a_second_signal_changes_nothing(agents: Callable[..., Running], silent: int) -> None:
    """An impatient operator sends SIGTERM three times and gets the same orderly end."""
    agent = agents(fleet_config(silent)).start().wait_ready()
    agent.send(signal.SIGTERM)
    agent.send(signal.SIGTERM)
    code, took_s = agent.stop()
    assert code == 0
    assert took_s < ENDS_WITHIN_S


def test_a_log_that_nobody_reads_does_not_keep_it_from_ending(
    ns: Namespace, agents: Callable[..., Running]
) -> None:
    """A full pipe as stderr: the agent goes on, and ends in time with exit code 0."""
    agent = agents()
    agent.start(stderr=subprocess.PIPE).wait_ready()
    process, peer = agent.process, ns.index("p0")
    assert process is not None
    assert process.stderr is not None
    fcntl.fcntl(process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    before = agent.state()["detail"]["links"]["eth0"]["carrier_downs"]
    for number in range(FLIPS):
        ns.flip(peer, up=bool(number % 2))
        time.sleep(0.004)

    lost = before + FLIPS // 2
    agent.wait_for(lambda s: s["detail"]["links"]["eth0"]["carrier_downs"] == lost)
    with process:
        code, took_s = agent.stop()
    assert code == 0
    assert took_s < ENDS_WITHIN_S


def test_a_log_that_is_closed_does_not_matter(
    ns: Namespace, agents: Callable[..., Running]
) -> None:
    """The reader of stderr has gone: the agent goes on and ends with exit code 0."""
    agent = agents()
    agent.start(stderr=subprocess.PIPE).wait_ready()
    assert agent.process is not None
    assert agent.process.stderr is not None
    agent.process.stderr.close()

    ns.flip(ns.index("p0"), up=False)

    agent.wait_for(lambda s: s["network"] == "down")
    assert agent.stop()[0] == 0


def test_a_good_configuration_is_used_at_once(
    ns: Namespace,
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
    collect: Callable[..., Collector],
) -> None:
    """SIGHUP: links are watched anew, the fleet is another one, leg A goes and comes."""
    old, new = fleets().start(), fleets().start()
    on_call = collect(new)
    agent = agents(fleet_config(old.port)).start().wait_ready()
    agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith("up"))
    assert list(agent.state()["detail"]["links"]) == ["eth0"]

    more = "links: {p0: {role: fabric}}\n"
    agent.config_file.write_text(fleet_config(new.port, more=more).replace("n1", "n2"))
    agent.send(signal.SIGHUP)

    agent.wait_for(lambda s: "p0" in s["detail"]["links"])
    wait_until(lambda: on_call.on("lab/n1/event/agent.config_reloaded"), 10)
    wait_until(lambda: "stay as they are until the next start" in agent.log())
    ns.ip("link set p0 down")
    wait_until(lambda: on_call.on("event/link.down"))

    local = fleet_config(new.port, more=more).replace("mqtt: {", "mqtt: {local: false, ")
    agent.config_file.write_text(local)
    agent.send(signal.SIGHUP)
    agent.wait_for(lambda s: agent_of(s)["leg_a"].startswith("off"))
    wait_until(lambda: not agent.brokers())
    agent.config_file.write_text(fleet_config(new.port, more=more))
    agent.send(signal.SIGHUP)
    agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up")


def test_a_bad_configuration_changes_nothing(agents: Callable[..., Running]) -> None:
    """SIGHUP with mistakes: each is logged with its line, told as an event, nothing changes."""
    agent = agents("policy: {settle_s: 3}\n").start().wait_ready()
    for text in ("policy: {settle_s: 3}\nnonsense: 1\nmode: brave\n", "a: [", "\0\x01", "- 1\n"):
        before = agent.types().count("agent.config_rejected")
        agent.config_file.write_text(text)
        agent.send(signal.SIGHUP)
        wait_until(lambda b=before: agent.types().count("agent.config_rejected") > b)  # type: ignore[misc]
    agent.config_file.unlink()
    agent.send(signal.SIGHUP)
    wait_until(lambda: agent.types().count("agent.config_rejected") == 5)

    assert f"{agent.config_file}:2" in agent.log()
    assert f"{agent.config_file}:3" in agent.log()
    rejected = [e for e in agent.events() if e["type"] == "agent.config_rejected"]
    assert len(rejected[0]["data"]["mistakes"]) == 2
    assert agent_of(agent.state())["leg_a"] == "up"


def test_many_reloads_at_once_leave_one_of_everything(
    agents: Callable[..., Running],
    fleets: Callable[..., TiedBroker],
) -> None:
    """SIGHUP as fast as possible with changing files: the last one counts, one connection stays."""
    first, second = fleets().start(), fleets().start()
    agent = agents(fleet_config(first.port)).start().wait_ready()
    for number in range(20):
        port = (first.port, second.port)[number % 2]
        agent.config_file.write_text(fleet_config(port))
        agent.send(signal.SIGHUP)

    agent.wait_for(lambda s: agent_of(s)["leg_b"].startswith(f"up: 127.0.0.1:{second.port}"), 15)
    threads = Path(f"/proc/{agent.pid}/task")
    wait_until(lambda: len(list(threads.iterdir())) <= THREADS, 5)
    assert agent.broker()
