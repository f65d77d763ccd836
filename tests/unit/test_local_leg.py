"""Leg A from the inside: a real broker, and faults at moments that a whole agent seldom meets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from linkhold import children
from linkhold.children import Child
from linkhold.legs import broker, broker_process
from linkhold.legs.broker_process import OwnBroker
from linkhold.legs.local import MAX_WAITING_EVENTS, LocalLeg
from support.broker import MOSQUITTO
from support.places import Place
from support.trainer import Trainer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from linkhold.decide.readings import LegReading, Reading

pytestmark = pytest.mark.skipif(not os.path.exists(MOSQUITTO), reason="mosquitto not installed")  # noqa: PTH110
PREFIX = "linkhold/v1/lab/n1"
WARNING = "does not contain"
"""What mosquitto says about our ACL at each start."""


@pytest.fixture
def place() -> Iterator[Path]:
    """A short folder that every user can reach."""
    with Place() as path:
        yield path


class Watched:
    """A leg whose readings are kept."""

    def __init__(self, place: Path, birth: Callable[[], bytes] | None = None) -> None:
        self.readings: list[LegReading] = []
        self.run_dir = place
        self.leg = LocalLeg(place, PREFIX, self.report, birth)

    def report(self, reading: Reading) -> None:
        """Keep a reading."""
        self.readings.append(reading)  # type: ignore[arg-type]

    async def until(self, *statuses: str, timeout_s: float = 8.0) -> None:
        """Wait until exactly these statuses were reported."""
        until_s = time.monotonic() + timeout_s
        while [r.status for r in self.readings] != list(statuses):
            assert time.monotonic() < until_s, self.readings
            await asyncio.sleep(0.01)

    def heard(self, part: str) -> list[bytes]:
        """Return what a new trainer hears, retained, on topics with ``part``."""
        trainer = Trainer(self.run_dir / "mqtt/broker.sock")
        try:
            until_s = time.monotonic() + 3
            while not trainer.on(part) and time.monotonic() < until_s:
                time.sleep(0.01)
            return [m.payload for m in trainer.on(part) if m.retained]
        finally:
            trainer.close()

    def kill_broker(self) -> None:
        """Kill the broker and return when it is dead; the loop sees nothing of it yet."""
        assert isinstance(self.leg._broker, OwnBroker)
        assert self.leg._broker.child is not None
        pid = self.leg._broker.child.pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


@contextlib.asynccontextmanager
async def started(place: Path, birth: Callable[[], bytes] | None = None) -> AsyncIterator[Watched]:
    """Start a leg, and end it."""
    watched = Watched(place, birth)
    watched.leg.start()
    try:
        yield watched
    finally:
        await watched.leg.stop()
        await asyncio.sleep(0.1)  # the loop waits for the killed broker


def publish_all(leg: LocalLeg) -> None:
    """Do all that an agent does in one go."""
    leg.publish_state(b"{}")
    leg.publish_events([("link.down", b"{}")])
    leg.beat()


def publish_events_alone(leg: LocalLeg) -> None:
    """Publish an event that waits for no state: the broker had taken the last one."""
    leg._state_mid = 0
    leg.publish_events([("link.down", b"{}")])


FAULTS: dict[str, Callable[[LocalLeg], None]] = {
    "state": lambda leg: leg.publish_state(b"{}"),
    "events": publish_events_alone,
    "beat": LocalLeg.beat,
    "all": publish_all,
}


def is_open(number: int) -> bool:
    """Tell whether a descriptor is open."""
    with contextlib.suppress(OSError):
        return bool(os.fstat(number))
    return False


def socketpair_on(number: int) -> tuple[socket.socket, socket.socket]:
    """Return a pair of sockets, the first of them on the free descriptor ``number``."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    if ours.fileno() == number:
        return ours, theirs
    assert theirs.fileno() != number
    os.dup2(ours.fileno(), number)
    ours.close()
    return socket.socket(fileno=number), theirs


@pytest.mark.parametrize("how", FAULTS)
def test_whoever_meets_the_dead_broker_first_the_leg_comes_back(place: Path, how: str) -> None:
    """The descriptor that paho gives up is another's at once: it keeps it, and the leg its life."""

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("up")
            for round_ in (1, 2):
                watched.leg.publish_state(b"first")
                assert watched.leg._connection is not None
                number = watched.leg._connection.fileno()
                watched.kill_broker()
                while is_open(number):  # the broker's last answers are read first
                    FAULTS[how](watched.leg)
                ours, theirs = socketpair_on(number)
                reader, writer = await asyncio.open_connection(sock=ours)
                await watched.until("up", *["down", "up"] * round_)
                watched.leg.publish_state(b"second")
                theirs.send(b"still here\n")
                assert await asyncio.wait_for(reader.readline(), 2) == b"still here\n"
                writer.close()
                await writer.wait_closed()
                theirs.close()
                assert await asyncio.to_thread(watched.heard, "/state") == [b"second"]

    asyncio.run(body())


def test_a_report_that_fails_does_not_end_the_leg(place: Path) -> None:
    """Whatever the agent makes of a reading, the broker is started again."""

    async def body() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        async with started(place) as watched:
            await watched.until("up")

            def failing(reading: Reading) -> None:
                watched.report(reading)
                raise RuntimeError("surprise")

            watched.leg._report = failing
            watched.kill_broker()
            await watched.until("up", "down", "up")

    asyncio.run(body())


def lose(watched: Watched) -> None:
    """Cut the connection and leave the broker alone."""
    assert watched.leg._connection is not None
    sock = watched.leg._connection._client.socket()
    assert isinstance(sock, socket.socket)
    sock.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [(Watched.kill_broker, "the broker ended"), (lose, "the connection to the broker was lost: ")],
)
def test_the_reason_is_what_happened(
    place: Path, fault: Callable[[Watched], None], reason: str
) -> None:
    """A broker that ended and a connection that was lost are two things; no warning is either."""

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("up")
            fault(watched)
            await watched.until("up", "down", "up")
            assert watched.readings[1].reason.startswith(reason)
            assert WARNING not in watched.readings[1].reason

    asyncio.run(body())


def test_names_that_hang_stop_nothing_but_the_leg(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory service that is away: the loop ticks, the reason is said, one thread waits."""
    answers = threading.Event()
    monkeypatch.setattr(broker_process, "NAMES_WAIT_S", 0.2)
    real = pwd.getpwnam

    def slow(name: str) -> pwd.struct_passwd:
        answers.wait(30)
        return real(name)

    monkeypatch.setattr(pwd, "getpwnam", slow)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("down")
            gaps = []
            for _ in range(100):  # as a heartbeat would
                before = time.monotonic()
                await asyncio.sleep(0.01)
                gaps.append(time.monotonic() - before)
            assert max(gaps) < 2  # the names hang for 30 s
            assert "does not answer" in watched.readings[0].reason
            assert watched.leg.counters["leg_a_restarts"] >= 2
            waiting = [t for t in threading.enumerate() if t.name == "linkhold-call"]
            assert len(waiting) == 1
            answers.set()
            await watched.until("down", "up")
            answers.clear()
            watched.kill_broker()
            # With what was known, and soon.
            await watched.until("down", "up", "down", "up", timeout_s=3)
            answers.set()

    try:
        asyncio.run(body())
    finally:
        answers.set()


def test_files_that_hang_stop_nothing_but_the_leg(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run folder that does not answer is said and tried again."""
    answers = threading.Event()
    monkeypatch.setattr(broker_process, "FILES_WAIT_S", 0.2)
    real = broker.write_files

    def slow(files: broker.BrokerFiles, user: tuple[int, int] | None) -> None:
        answers.wait(30)
        real(files, user)

    monkeypatch.setattr(broker_process, "write_files", slow)

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("down")
            assert watched.readings[0].reason == "writing its files took more than 0.2 s"
            answers.set()
            await watched.until("down", "up")

    asyncio.run(body())


def test_missing_setpriv_is_said(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it the broker works, and the reading says what is not as it should be."""
    real = shutil.which

    def which(name: str, path: str | None = None) -> str | None:
        return None if name == "setpriv" else real(name, path=path)

    monkeypatch.setattr(shutil, "which", which)

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("up")
            assert watched.readings[0].reason.startswith("without setpriv ")

    asyncio.run(body())


def test_the_birth_is_retained_on_every_broker(place: Path) -> None:
    """It is made anew and published at each connection."""

    async def body() -> None:
        births = iter([b"one", b"two"])
        async with started(place, lambda: next(births)) as watched:
            await watched.until("up")
            assert await asyncio.to_thread(watched.heard, "/birth") == [b"one"]
            watched.kill_broker()
            await watched.until("up", "down", "up")
            assert await asyncio.to_thread(watched.heard, "/birth") == [b"two"]

    asyncio.run(body())


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user's socket is open to no other")
@pytest.mark.parametrize(("group", "mode"), [(None, 0o666), (12345, 0o660)])
def test_the_trainers_socket_is_open_to_the_group_or_to_all(
    place: Path, monkeypatch: pytest.MonkeyPatch, group: int | None, mode: int
) -> None:
    """Mode and group of the socket are as looked up."""
    monkeypatch.setattr(broker, "listeners", lambda: group)

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("up")
            found = (place / "mqtt/broker.sock").stat()
            assert found.st_mode & 0o777 == mode
            assert group is None or found.st_gid == group

    asyncio.run(body())


def test_a_child_that_was_waited_for_is_not_signalled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process group may be somebody else's by then."""
    signalled: list[int] = []
    monkeypatch.setattr(os, "killpg", lambda pid, _number: signalled.append(pid))

    async def body() -> None:
        ended = asyncio.Event()
        child = Child(["true"], lambda _code: ended.set())
        child.kill()
        assert signalled == [child.pid]
        await asyncio.wait_for(ended.wait(), 5)
        assert child.ended
        child.kill()
        assert signalled == [child.pid]

    asyncio.run(body())


def test_nothing_is_missing_where_setpriv_is() -> None:
    """On a complete machine there is nothing to say."""
    assert bool(children.missing_tools()) == (shutil.which("setpriv") is None)


def test_events_follow_the_state_and_are_bounded(place: Path) -> None:
    """Events wait until the broker has taken the state; what does not fit is counted."""

    async def body() -> None:
        async with started(place) as watched:
            await watched.until("up")
            watched.leg.publish_state(b"state")
            watched.leg.publish_events([("link.down", b"%d" % number) for number in range(300)])
            assert watched.leg.counters["leg_a_dropped_events"] >= 300 - MAX_WAITING_EVENTS
            assert len(watched.leg._events) <= MAX_WAITING_EVENTS
            for _ in range(100):
                await asyncio.sleep(0.01)
            assert not watched.leg._events

    asyncio.run(body())
