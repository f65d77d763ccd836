"""One agent per run folder, state folder and network namespace; strangers cannot prevent it."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from support.broker import wait_until
from support.netns import Namespace
from support.places import NOBODY
from support.running import Running, run_cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NAME = "\\0linkhold/agent"


@pytest.mark.parametrize("same", ["run folder", "state folder", "namespace"])
def test_a_second_agent_refuses_and_names_the_first(agent: Running, place: Path, same: str) -> None:
    """Exit code 1 and one line with pid and command line of the first, which goes on."""
    run = agent.run_dir if same == "run folder" else place / "r2"
    state = agent.state_dir if same == "state folder" else place / "s2"
    folders = ("--run-dir", str(run), "--state-dir", str(state))
    with Namespace() as other:
        if same == "namespace":
            done = run_cli("agent", *folders)
        else:
            with other.enter():
                done = run_cli("agent", *folders)

    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert f"process {agent.pid} (" in done.stderr
    assert "linkhold agent" in done.stderr
    assert agent.alive
    assert agent.broker()


def test_a_stopped_agent_is_still_found_after_many_tries(agent: Running) -> None:
    """An agent that is stopped answers nobody, and the tenth try still names it."""
    agent.send(signal.SIGSTOP)
    for number in range(10):
        folders = ("--run-dir", str(agent.place / f"r{number}"), "--state-dir", "/dev/shm/none")
        done = run_cli("agent", *folders)

        assert done.returncode == 1
        assert f"process {agent.pid} (" in done.stderr
    agent.send(signal.SIGCONT)


def test_an_agent_answers_those_who_ask_who_it_is(agent: Running) -> None:
    """Thousands of connections to its lock do not stay in it."""
    script = f"""
import socket
for _ in range(3000):
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect("{NAME}")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=30)
    before = agent.state()["mono_ns"]
    agent.wait_for(lambda s: s["mono_ns"] > before)


@pytest.fixture(params=["listens", "bound only"])
def squatter(ns: Namespace, request: pytest.FixtureRequest) -> Iterator[int]:
    """An ordinary user's process that holds the name of the lock."""
    listen = "sock.listen(1)" if request.param == "listens" else ""
    script = f"""
import os, socket, time
os.setgroups([]); os.setuid({NOBODY})
sock = socket.socket(socket.AF_UNIX)
sock.bind("{NAME}")
{listen}
print("ready", flush=True)
time.sleep(100)
"""
    tied = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-c", script]
    with subprocess.Popen(tied, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.kill()


def test_an_ordinary_user_cannot_keep_roots_agent_from_starting(
    squatter: int, agents: Callable[..., Running]
) -> None:
    """Whoever holds the name without being root's: root's agent starts, with a warning."""
    agent = agents().start().wait_ready()

    wait_until(lambda: "namespace" in agent.log())
    assert agent.log().count("WARNING") == 1


def test_nobody_can_take_the_lock_of_roots_agent(agents: Callable[..., Running]) -> None:
    """An ordinary user cannot open the lock file, so cannot keep the next agent out with it."""
    agent = agents().start().wait_ready()
    lock = agent.run_dir / "agent.lock"
    code = f"import fcntl; fcntl.flock(open({str(lock)!r}), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "PermissionError" in done.stderr
