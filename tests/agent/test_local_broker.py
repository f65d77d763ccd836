"""Leg A survives every fault of its broker, and says what is the matter."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.broker import MOSQUITTO, wait_until
from support.places import TIED, private_mounts
from support.running import agent_of, brokers_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.netns import Namespace
    from support.running import Running
    from support.trainer import Trainer

STATE = "/state"


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process of this test."""
    os.kill(pid, number)


def test_a_killed_broker_is_started_again(agent: Running, trainers: Callable[..., Trainer]) -> None:
    """Kill -9: within two seconds the retained state is back, and state and events tell of it."""
    trainer = trainers(agent)
    wait_until(trainer.states)
    pid, heard, began_s = agent.broker(), len(trainer.messages), time.monotonic()

    kill(pid)

    wait_until(lambda: any(STATE in message.topic for message in trainer.messages[heard:]))
    late = trainers(agent)
    wait_until(late.states)
    assert time.monotonic() - began_s < 2.0
    assert next(message for message in late.messages if STATE in message.topic).retained
    assert agent.broker() != pid
    agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up")
    told = [e["data"]["status"] for e in agent.events() if e["type"] == "agent.leg_a"]
    assert told == ["up", "down", "up"]
    counters = agent_of(agent.wait_for(lambda s: agent_of(s)["counters"]["leg_a_restarts"]))
    assert counters["counters"]["leg_a_restarts"] == 1


def test_a_stopped_broker_is_noticed_killed_and_replaced(
    agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """SIGSTOP: a broker that answers nothing is hung; another one serves within twelve seconds."""
    pid = agent.broker()

    kill(pid, signal.SIGSTOP)

    agent.wait_for(lambda s: "does not answer" in agent_of(s)["leg_a"], 12)
    agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up", 3)
    assert not Path(f"/proc/{pid}/exe").exists()
    wait_until(trainers(agent).states)


def test_a_stopped_broker_does_not_delay_the_state_file(ns: Namespace, agent: Running) -> None:
    """While the broker hangs, a pulled cable is in the state file at once."""
    kill(agent.broker(), signal.SIGSTOP)
    began_s = time.monotonic()

    ns.flip(ns.index("p0"), up=False)

    agent.wait_for(lambda s: s["network"] == "down", 1)
    assert time.monotonic() - began_s < 1


def test_a_leftover_broker_is_removed(agents: Callable[..., Running]) -> None:
    """A mosquitto that an older agent left on the same sockets is killed at the start."""
    agent = agents().start().wait_ready()
    agent.stop()
    leftover = subprocess.Popen(
        [*TIED, MOSQUITTO, "-c", str(agent.run_dir / "broker/mosquitto.conf")]
    )
    try:
        wait_until(lambda: agent.trainer_socket.exists() and brokers_of(agent.run_dir))

        agent.start().wait_ready()

        assert leftover.wait(5) == -signal.SIGKILL
        assert agent.broker() != leftover.pid
    finally:
        leftover.kill()
        leftover.wait()


def test_a_mosquitto_with_another_configuration_is_left_alone(
    agents: Callable[..., Running], place: Path
) -> None:
    """Only what runs with our very file is ours: not one whose command line merely looks alike."""
    other = place / "other/broker/mosquitto.conf"
    other.parent.mkdir(parents=True)
    other.write_text(f"listener 0 {place}/other/sock\nallow_anonymous true\nuser root\n")
    theirs = subprocess.Popen([*TIED, MOSQUITTO, "-c", str(other)], stderr=subprocess.DEVNULL)
    # Another container's agent: the same path, another file behind it.
    agent = agents()
    (agent.run_dir / "broker").mkdir(parents=True)
    same_path = agent.run_dir / "broker/mosquitto.conf"
    same_path.write_text("# the node's own\n")
    hide = private_mounts(f"mount --bind {other} {same_path}")
    container = subprocess.Popen(
        [*TIED, *hide, MOSQUITTO, "-c", str(same_path)], stderr=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: len(brokers_of(agent.run_dir)) == 1)

        agent.start().wait_ready()

        assert theirs.poll() is None
        assert container.poll() is None
    finally:
        for process in (theirs, container):
            process.kill()
            process.wait()


def test_without_mosquitto_the_agent_lives_and_says_so(
    agents: Callable[..., Running], ns: Namespace, place: Path
) -> None:
    """Mosquitto missing: one line in the log, the reason in the state, everything else works."""
    empty = place / "empty"
    empty.touch()
    agent = agents(wrap=private_mounts(f"mount --bind {empty} {MOSQUITTO}"))
    agent.start().wait_ready("unavailable: mosquitto is not installed")

    ns.flip(ns.index("p0"), up=False)

    agent.wait_for(lambda s: s["network"] == "down")
    assert agent.log().count("mosquitto is not installed") == 1
    assert agent.stop()[0] == 0


@pytest.mark.parametrize("fault", ["garbage", "exits", "folder"])
def test_a_broker_that_does_not_start_is_tried_again_and_again(
    agents: Callable[..., Running], place: Path, fault: str
) -> None:
    """No executable, one that ends at once, no place for sockets: back-off, and the agent lives."""
    binary = place / "binary"
    binary.write_bytes(b"\x7fELF nonsense" if fault == "garbage" else b"#!/bin/sh\necho no >&2\n")
    binary.chmod(0o755)
    agent = agents(wrap=private_mounts(f"mount --bind {binary} {MOSQUITTO}"))
    if fault == "folder":
        agent = agents()
        agent.run_dir.mkdir()
        (agent.run_dir / "mqtt").write_text("in the way")
    agent.start().wait_ready("down: ")

    restarts = agent.wait_for(lambda s: agent_of(s)["counters"]["leg_a_restarts"] >= 2)

    assert agent_of(restarts)["counters"]["leg_a_restarts"] < 10
    assert agent.alive
    assert [e["data"]["status"] for e in agent.events() if e["type"] == "agent.leg_a"] == ["down"]
    if fault == "folder":
        (agent.run_dir / "mqtt").unlink()
        agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up", 15)


def test_no_broker_outlives_a_killed_agent(agents: Callable[..., Running]) -> None:
    """Kill -9 of the agent: the kernel ends its broker, and the next agent replaces the sockets."""
    agent = agents().start().wait_ready()
    before = agent.trainer_socket.stat().st_mtime_ns

    agent.kill()

    wait_until(lambda: not agent.brokers(), 2, "the broker is gone")
    agent.start().wait_ready()
    assert agent.trainer_socket.stat().st_mtime_ns > before
