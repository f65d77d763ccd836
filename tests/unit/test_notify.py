"""What systemd hears of the agent, and when the watchdog is fed."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.daemon.notify import Service, status_line
from linkhold.model import NodeState
from linkhold.model.node import AgentHealth
from linkhold.sd_notify import Systemd, Turns, watchdog_s

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Manager:
    """The end of the socket that systemd has."""

    def __init__(self, address: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.setblocking(False)

    def heard(self) -> list[str]:
        """Return what was said since the last call."""
        found = []
        while True:
            try:
                found.append(self.socket.recv(4096).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A NOTIFY_SOCKET of each kind."""
    return str(tmp_path / "n") if request.param == "path" else f"@linkhold-test-{os.getpid()}"


@pytest.fixture
def manager(address: str) -> Iterator[Manager]:
    """The end of systemd of ``address``."""
    made = Manager("\0" + address[1:] if address.startswith("@") else address)
    yield made
    made.socket.close()


def test_life(address: str, manager: Manager) -> None:
    """Ready with a status, reloading and ready again, stopping: each once, in this order."""

    async def body() -> list[str]:
        service = Service(asyncio.get_running_loop(), {"NOTIFY_SOCKET": address})
        state = NodeState()
        service.ready(state)
        service.show(state)  # the same, so nothing
        service.reloading()
        service.reloaded()
        service.show(NodeState(agent=AgentHealth(leg_a="up")))
        service.stopping()
        return manager.heard()

    heard = asyncio.run(body())

    heads = [line.partition("\n")[0].partition("=")[0] for line in heard]
    assert heads == ["READY", "STATUS", "RELOADING", "READY", "STATUS", "STOPPING"]
    assert "MONOTONIC_USEC=" in heard[2]
    assert "leg A up" in heard[4]


def test_turns_of_a_plain_loop(manager: Manager, address: str) -> None:
    """The first turn says ready, later ones feed the watchdog a third of its time apart."""
    turns = Turns(Systemd({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "60000"}))
    end_s = time.monotonic() + 0.09
    while time.monotonic() < end_s:
        turns.turn()
    turns.end()

    heard = manager.heard()
    assert (heard[0], heard[-1]) == ("READY=1", "STOPPING=1")
    assert 2 <= heard.count("WATCHDOG=1") <= 4


def test_turns_without_a_watchdog(manager: Manager, address: str) -> None:
    """Where the unit has none, nothing is fed."""
    turns = Turns(Systemd({"NOTIFY_SOCKET": address}))
    for _ in range(3):
        turns.turn()

    assert manager.heard() == ["READY=1"]


def test_a_hung_loop_feeds_no_watchdog(tmp_path: Path) -> None:
    """The watchdog is fed within a third of its time while the loop turns, and only then."""
    manager = Manager(str(tmp_path / "n"))
    environment = {"NOTIFY_SOCKET": str(tmp_path / "n"), "WATCHDOG_USEC": "150000"}

    async def body() -> tuple[int, int, int]:
        service = Service(asyncio.get_running_loop(), environment)
        service.ready(NodeState())
        await asyncio.sleep(0.32)
        turning = manager.heard().count("WATCHDOG=1")
        time.sleep(0.3)  # noqa: ASYNC251 - the loop hangs
        hung = manager.heard().count("WATCHDOG=1")
        service.stopping()
        manager.heard()
        await asyncio.sleep(0.15)
        return turning, hung, len(manager.heard())

    turning, hung, after = asyncio.run(body())
    manager.socket.close()

    assert turning >= 3
    assert (hung, after) == (0, 0)


@pytest.mark.parametrize("address", ["", "relative", "/nowhere/at/all", "@nobody-listens"])
def test_without_systemd_nothing_happens(address: str) -> None:
    """Without a socket, or with one that nobody reads, the agent runs all the same."""

    async def body() -> None:
        service = Service(asyncio.get_running_loop(), {"NOTIFY_SOCKET": address})
        service.ready(NodeState())
        service.stopping()

    asyncio.run(body())


def test_a_full_socket_does_not_block(tmp_path: Path) -> None:
    """A systemd that does not read holds nothing up."""
    manager = Manager(str(tmp_path / "n"))

    async def body() -> float:
        service = Service(asyncio.get_running_loop(), {"NOTIFY_SOCKET": str(tmp_path / "n")})
        began = time.monotonic()
        for _ in range(2000):
            service.reloaded()
        return time.monotonic() - began

    assert asyncio.run(body()) < 5
    manager.socket.close()


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, 0.0),
        ({"WATCHDOG_USEC": "10000000"}, 10.0),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "7"}, 10.0),
        ({"WATCHDOG_USEC": "10000000", "WATCHDOG_PID": "8"}, 0.0),
        ({"WATCHDOG_USEC": "soon"}, 0.0),
    ],
)
def test_watchdog_time(environment: dict[str, str], wanted: float) -> None:
    """The watchdog is ours only if its variables say so (sd_watchdog_enabled(3))."""
    assert watchdog_s(environment, 7) == wanted


@given(st.text(), st.text())
def test_status_is_one_line(leg: str, outbox: str) -> None:
    """Whatever a part gives as its reason, the status is one line: a second would be a command."""
    line = status_line(NodeState(agent=AgentHealth(leg_a=leg, outbox=outbox)))

    assert "\n" not in line
    assert line.startswith("network unknown, power unknown; no alerts; leg A")
