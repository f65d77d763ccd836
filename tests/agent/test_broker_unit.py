"""An agent whose broker is somebody else's process, as under systemd; `linkhold broker`."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from linkhold.children import Outcome
from linkhold.legs import broker_process
from linkhold.legs.broker import BrokerFiles
from linkhold.paths import NODE_RUN_DIR
from support.broker import MOSQUITTO, wait_until
from support.running import agent_of, brokers_of, run_cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.running import Running
    from support.trainer import Trainer


class Unit:
    """Does what linkhold-broker.service does."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Unit:
        """Prepare, start mosquitto, open its sockets."""
        environment = {**os.environ, "LINKHOLD_RUN_DIR": str(self.run_dir)}
        for step in ("prepare", "open"):
            done = run_cli("broker", step, env=environment)
            assert done.returncode == 0, done.stderr
            if step == "prepare":
                configuration = self.run_dir / "broker-unit/mosquitto.conf"
                command = ["setpriv", "--pdeathsig", "KILL", "--", MOSQUITTO, "-c"]
                self.process = subprocess.Popen(
                    [*command, str(configuration)], stderr=subprocess.DEVNULL, umask=0o077
                )
        return self

    def end(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture
def unit(place: Path) -> Iterator[Unit]:
    """A broker that is not the agent's."""
    (place / "run").mkdir(mode=0o755)
    made = Unit(place / "run")
    yield made
    made.end()


@pytest.fixture
def served(agents: Callable[..., Running], place: Path, unit: Unit) -> Running:
    """An agent that uses it, ready."""
    folders = ("--run-dir", str(place / "run"), "--state-dir", str(place / "state"))
    unit.start()
    return agents(arguments=(*folders, "--broker-by-unit")).start().wait_ready()


def test_the_agent_starts_no_broker(
    served: Running, unit: Unit, trainers: Callable[..., Trainer]
) -> None:
    """Trainers hear the agent by the unit's broker, which the agent neither starts nor ends."""
    trainer = trainers(served)
    wait_until(trainer.states)
    assert brokers_of(served.run_dir) == []

    served.stop()

    assert unit.process is not None
    assert unit.process.poll() is None
    heard = len(trainer.messages)
    served.start().wait_ready()
    wait_until(lambda: trainer.messages[heard:], what="the next agent by the same connection")


def test_the_sockets_are_as_the_agent_makes_them(served: Running) -> None:
    """`broker open` gives the agent's socket to root alone; the other is the listeners'."""
    ours, theirs = served.agent_socket.stat(), served.trainer_socket.stat()

    assert (stat.S_IMODE(ours.st_mode), ours.st_uid) == (0o600, os.geteuid())
    assert stat.S_IMODE(theirs.st_mode) in {0o660, 0o666}


def test_a_broker_that_ends_is_waited_for(served: Running, unit: Unit) -> None:
    """While it is away leg A is down and says why; once it is back, leg A is up."""
    unit.end()
    served.wait_for(lambda state: agent_of(state)["leg_a"].startswith("down"))
    for name in ("agent", "broker"):  # the unit's RuntimeDirectory= goes with it
        (served.run_dir / f"mqtt/{name}.sock").unlink()
    served.wait_for(
        lambda state: "linkhold-broker.service has made no sockets" in agent_of(state)["leg_a"], 15
    )

    unit.start()

    served.wait_for(lambda state: agent_of(state)["leg_a"] == "up", 20)


def test_a_frozen_broker_is_left_to_systemd(served: Running, unit: Unit) -> None:
    """A broker that does not answer is told as such and not killed: it is not our child."""
    assert unit.process is not None
    unit.process.send_signal(signal.SIGSTOP)
    served.wait_for(lambda state: "does not answer" in agent_of(state)["leg_a"], 15)
    assert unit.process.poll() is None
    unit.process.send_signal(signal.SIGCONT)

    served.wait_for(lambda state: agent_of(state)["leg_a"] == "up", 20)


@pytest.mark.parametrize(
    ("active", "calls"), [(0, ["is-active", "try-restart"]), (3, ["is-active"])]
)
def test_a_start_is_not_broken_off(
    monkeypatch: pytest.MonkeyPatch, active: int, calls: list[str]
) -> None:
    """A broker that does not answer is started anew; a start that takes its time is not."""
    asked = []

    def run(argv: list[str], *, timeout_s: float) -> Outcome:
        assert timeout_s
        asked.append(argv[1] if argv[1] != "--no-block" else argv[2])
        return Outcome(active)

    monkeypatch.setattr(broker_process, "run", run)
    unit = broker_process.UnitBroker(BrokerFiles(NODE_RUN_DIR))

    asyncio.run(unit.end(broken=True))
    assert asked == calls


def test_open_without_a_broker(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mosquitto that makes no sockets fails the unit's start in words."""
    from linkhold.cli import broker, main

    monkeypatch.setattr(broker, "SOCKETS_S", 0.1)
    monkeypatch.setenv("LINKHOLD_RUN_DIR", str(place))
    assert main(["broker", "open"]) == 1
