"""Who listens to the agent, and for whom a shutdown waits."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkhold.decide.notices.shutdown import QUIET_S, awaited
from linkhold.rtnl.exchange import Exchange
from linkhold.rtnl.framing import Malformed
from linkhold.rtnl.inet_diag import SOCK_DIAG_BY_FAMILY
from linkhold.rtnl.unix_diag import clients, request
from linkhold.survey.files import Reader
from linkhold.survey.listeners import NETLINK_SOCK_DIAG, Listeners, listeners

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

SECOND = 10**9
NOBODY: Mapping[int, int] = {}


def test_a_listener_is_known_by_its_connection(tmp_path: Path) -> None:
    """Of two processes the one that is connected to the broker listens, until it is not."""
    (tmp_path / "mqtt").mkdir()
    path = str(tmp_path / "mqtt/broker.sock")
    idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(path)
            server.listen()
            both = [os.getpid(), idle.pid]
            assert listeners(Reader(Path("/")), both) == Listeners()
            client.connect(path)
            accepted, _ = server.accept()
            assert listeners(Reader(Path("/")), both) == Listeners(frozenset({os.getpid()}))
            accepted.close()
            client.close()
            assert listeners(Reader(Path("/")), both) == Listeners()
    finally:
        idle.kill()
        idle.communicate()


@pytest.fixture
def connected(tmp_path: Path) -> Iterator[Callable[[str], None]]:
    """Return a function that connects this process to a socket of the broker, as it is named."""
    (tmp_path / "mqtt").mkdir()
    with contextlib.ExitStack() as stack:

        def connect(name: str) -> None:
            server, client = (stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in "sc")
            server.bind(str(tmp_path / "mqtt" / name))
            server.listen()
            client.connect(str(tmp_path / "mqtt" / name))
            stack.enter_context(server.accept()[0])

        yield connect


def test_one_that_may_not_be_looked_into_is_counted(
    tmp_path: Path, connected: Callable[[str], None]
) -> None:
    """In the unit's sandbox no process shows its descriptors: a connection stands for a listener.

    Those whom we may look into and who do not train are no listeners.
    """
    connected("broker.sock")

    assert listeners(Reader(tmp_path), []) == Listeners(unseen=1)
    assert listeners(Reader(Path("/")), []) == Listeners()


def test_a_broker_in_a_network_of_its_own(connected: Callable[[str], None]) -> None:
    """The kernel does not tell who listens there; the agent's connection to it shows that it is."""
    connected("agent.sock")

    assert listeners(Reader(Path("/")), [os.getpid()]) == Listeners()


def test_without_a_broker_nobody_knows() -> None:
    """No listening socket of that name: None, which is not the same as no listener."""
    with Exchange(NETLINK_SOCK_DIAG, "sock_diag") as kernel:
        assert (
            clients(kernel.dump(SOCK_DIAG_BY_FAMILY, request()), b"/no such socket", b"/nor this")
            is None
        )


def test_a_message_that_is_cut_off_is_refused() -> None:
    """Bytes that are no unix_diag_msg raise Malformed, nothing else."""
    with pytest.raises(Malformed):
        clients([b"\1\1\1"], b"x", b"y")


def test_listeners_are_awaited_for_as_long_as_they_listen() -> None:
    """A process that hears of the stop has all the time there is; a quiet one has ten seconds."""
    left, quiet = awaited({1, 2}, frozenset({1}), NOBODY, 0)
    assert left == {1, 2}
    left, quiet = awaited({1, 2}, frozenset({1}), quiet, int(QUIET_S * SECOND) - 1)
    assert left == {1, 2}
    left, quiet = awaited({1, 2}, frozenset({1}), quiet, int(QUIET_S * SECOND))
    assert left == {1}
    assert awaited({1, 2}, frozenset({1}), quiet, 10**6 * SECOND)[0] == {1}


def test_one_that_has_ended_its_hold_may_write_its_last_file() -> None:
    """Ten seconds count from when it listened last; one that listens again is awaited again."""
    _, quiet = awaited({1}, frozenset({1}), NOBODY, 0)
    left, quiet = awaited({1}, frozenset(), quiet, 60 * SECOND)
    assert left == {1}
    left, quiet = awaited({1}, frozenset(), quiet, 70 * SECOND)
    assert left == frozenset()
    assert awaited({1}, frozenset({1}), quiet, 71 * SECOND)[0] == {1}


def test_where_nobody_knows_who_listens_all_are_awaited() -> None:
    """A node without a broker of its own: trainers read the file, and that shows nowhere."""
    assert awaited({1, 2}, None, NOBODY, 10**6 * SECOND)[0] == {1, 2}
