"""A training process can listen on leg A and do nothing else, whoever it says it is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.places import NOBODY
from support.running import agent_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.running import Running
    from support.trainer import Trainer

NOT_AUTHORISED = 0x87
PREFIX = "linkhold/v1/default"


def topics_of(agent: Running) -> list[str]:
    """Return the topics that a forger would like to write."""
    node = agent.state()["node"]
    ours = [f"{PREFIX}/{node}/{name}" for name in ("state", "status", "birth", "event/link.down")]
    return [*ours, f"{PREFIX}/{node}/cmd/replay", f"{PREFIX}/other/state", "anything"]


def as_user(uid: int, script: str) -> str:
    """Run a script as another user and return what it complains about."""
    become = f"import contextlib, os, socket, time; os.setgroups([]); os.setuid({uid})\n"
    command = [sys.executable, "-c", become + script]
    return subprocess.run(command, check=False, capture_output=True, text=True).stderr


@pytest.mark.parametrize("name", ["", "agent", "root", "mosquitto", "linkhold", "admin", "%u"])
def test_no_user_name_lets_a_trainer_write(
    agent: Running, trainers: Callable[..., Trainer], name: str
) -> None:
    """Every topic, QoS 0 and 1, retained or not: refused and heard by nobody."""
    listener, forger = trainers(agent), trainers(agent, username=name, subscribe=False)
    for topic in topics_of(agent):
        for retain in (False, True):
            assert forger.publish(topic, b"forged", retain=retain) == NOT_AUTHORISED
            forger.publish(topic, b"forged", qos=0, retain=retain)
            forger.publish(topic, b"", retain=retain)  # would clear what is retained

    late = trainers(agent)
    wait_until(lambda: late.states() and late.on("/status"))
    assert all(b"forged" not in m.payload for m in listener.messages + late.messages)
    assert len(late.states()) == 1
    assert [m.payload for m in late.on("/status")] == [b"online"]


def test_a_forged_will_is_not_published(agent: Running, trainers: Callable[..., Trainer]) -> None:
    """A trainer with a will on the state topic dies: nobody hears the will, the state stays."""
    listener = trainers(agent)
    for topic in topics_of(agent):
        forger = trainers(agent, will=topic, subscribe=False, reconnect=False)
        if not forger.refused:
            forger.client.socket().shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
            wait_until(lambda f=forger: f.closed)  # type: ignore[misc]
    time.sleep(0.3)

    late = trainers(agent)
    wait_until(late.states)
    assert all(b"forged" not in m.payload for m in listener.messages + late.messages)
    assert len(late.states()) == 1


def test_nothing_that_a_trainer_can_read_names_the_agents_client_id(
    agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """Only linkhold/v1/# can be subscribed to; $SYS and the rest give nothing."""
    spy = trainers(agent, "$SYS/#", "#", "+/#", "$CONTROL/#", "linkhold/#")
    late = trainers(agent)
    wait_until(late.states)
    time.sleep(0.3)

    assert {m.topic.split("/")[0] for m in spy.messages} <= {"linkhold"}
    assert all(m.topic.startswith("linkhold/v1/") for m in spy.messages)


def test_no_client_id_disconnects_the_agent(
    agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """Ids that can be guessed or read somewhere take over nobody but another trainer."""
    state = agent.state()
    guesses = ["", "agent", "linkhold", "linkhold-agent", state["node"], state["session"]]
    guesses += [f"linkhold-{state['site']}-{state['node']}", state["boot_id"], str(agent.pid)]
    guesses += [word for word in agent.log().split() if len(word) < 60][-50:]
    for guess in guesses:
        trainers(agent, client_id=guess, username="agent", subscribe=False).close()

    assert agent_of(agent.state())["leg_a"] == "up"
    assert "agent.leg_a" in agent.types()
    assert [e["data"]["status"] for e in agent.events() if e["type"] == "agent.leg_a"] == ["up"]


@pytest.mark.parametrize("user", [NOBODY, "broker"])
def test_other_users_cannot_open_the_agents_socket(agent: Running, user: int | str) -> None:
    """Neither an ordinary user nor the broker's own user may connect to agent.sock."""
    owner = (agent.run_dir / "mqtt").stat().st_uid if user == "broker" else user
    connect = f"socket.socket(socket.AF_UNIX).connect({str(agent.agent_socket)!r})"
    assert "PermissionError" in as_user(int(owner), connect)


def test_a_flood_of_trainers_does_not_reach_the_agent(
    agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """Refused publications by the thousand cost the agent nothing and nobody else the state."""
    forger, listener = trainers(agent, subscribe=False), trainers(agent)
    for _ in range(2000):
        forger.client.publish(topics_of(agent)[0], b"x" * 1000, qos=0)
    listener.wait_for(lambda s: s["epoch"] >= 1)

    agent.wait_for(lambda s: s["mono_ns"] > time.monotonic_ns() - 10**9, 7)
    assert agent_of(agent.state())["leg_a"] == "up"


def test_sessions_that_are_left_behind_do_not_end_the_broker(
    agent: Running, trainers: Callable[..., Trainer]
) -> None:
    """An ordinary user leaves 120 MB of sessions without an end: the same broker serves on.

    More than that can end it; see linkhold.legs.broker.
    """
    pid = agent.broker()
    flood = f"""
for number in range(2000):
    name = b"%060000d" % number
    body = bytes.fromhex("00044d5154540500003c0511ffffffff") + len(name).to_bytes(2, "big") + name
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect({str(agent.trainer_socket)!r})
        sock.sendall(bytes((0x10, len(body) % 128 + 128, len(body) // 128 % 128 + 128)))
        sock.sendall(bytes((len(body) // 128 // 128,)) + body)
        assert sock.recv(100)[3] == 0
"""
    assert as_user(NOBODY, flood) == ""

    assert agent.broker() == pid
    assert [e["data"]["status"] for e in agent.events() if e["type"] == "agent.leg_a"] == ["up"]
    wait_until(trainers(agent).states)


def test_a_folder_full_of_links_makes_the_agent_change_no_other_file(
    agents: Callable[..., Running],
) -> None:
    """The broker's user owns the folder of the sockets; a link in it must lead root nowhere."""
    agent = agents()
    victim = agent.place / "victim"
    victim.write_text("mine")
    victim.chmod(0o600)
    agent.start().wait_ready()
    os.kill(agent.broker(), signal.SIGKILL)
    swap = f"""
os.chdir({str(agent.run_dir / "mqtt")!r})
end = time.monotonic() + 3
while time.monotonic() < end:
    for name in ("agent.sock", "broker.sock"):
        with contextlib.suppress(OSError):
            os.symlink({str(victim)!r}, "x")
            os.replace("x", name)
"""
    assert as_user((agent.run_dir / "mqtt").stat().st_uid, swap) == ""

    assert victim.stat().st_mode & 0o777 == 0o600
    assert victim.stat().st_uid == 0
    assert "is no socket" in agent.log() or "symbolic links" in agent.log(), agent.log()
    agent.wait_for(lambda s: agent_of(s)["leg_a"] == "up", 15)
