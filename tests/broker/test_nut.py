"""A real upsd with dummy-ups, and one of our own for what Debian's build cannot do in a test."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import time
from typing import TYPE_CHECKING

import pytest
import trustme

from linkhold.decide.power import Memory, Rules, SourceRules, step
from linkhold.decide.power.reports import of_ups
from linkhold.model import Moment
from linkhold.model.power_sources import SourceKind, UpsReport
from linkhold.sensors.nut import NutSensor, NutServer
from support.nut import UPSD, Nut

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from typing_extensions import Self

POLL_S = 0.1


@pytest.fixture
def nut(tmp_path: Path) -> Iterator[Nut]:
    """Two UPSes on line."""
    if not shutil.which(UPSD):
        pytest.skip("nut-server is not installed")
    made = Nut(tmp_path, "ups1", "ups2")
    yield made
    made.stop()


class Heard:
    """What a sensor reported, newest by UPS, and a wait for it."""

    def __init__(self) -> None:
        self.newest: dict[str, UpsReport] = {}

    def __call__(self, report: UpsReport) -> None:
        self.newest[report.ups] = report

    async def until(self, ups: str, check: Callable[[UpsReport], bool]) -> UpsReport:
        """Return the first report of ``ups`` that passes, within 10 s."""
        end = time.monotonic() + 10
        while ups not in self.newest or not check(self.newest[ups]):
            assert time.monotonic() < end, self.newest
            await asyncio.sleep(0.01)
        return self.newest[ups]


def listen(server: NutServer, scene: Callable[[Heard, NutSensor], Awaitable[None]]) -> None:
    """Run a sensor while ``scene`` plays."""

    async def play() -> None:
        sensor, heard = NutSensor(server), Heard()
        task = asyncio.create_task(sensor.run(heard))
        try:
            await scene(heard, sensor)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(play())


def test_a_real_upsd_tells_status_figures_and_its_own_faults(nut: Nut) -> None:
    """OL, OB with figures, passwords, a driver that dies, upsd that dies and comes back."""
    nut.start()
    _knock(nut)

    async def scene(heard: Heard, sensor: NutSensor) -> None:
        await heard.until("ups1", lambda r: r.status == "OL")
        await heard.until("ups2", lambda r: r.status == "OL")

        nut.set("ups1", "OB DISCHRG LB", battery_charge="8", battery_runtime="120")
        report = await heard.until("ups1", lambda r: "OB" in r.status)
        assert report == UpsReport("ups1", "OB DISCHRG LB", 8.0, 10.0, 120.0)
        rules = Rules((SourceRules("ups1", SourceKind.UPS),))
        outcome = step(rules, Memory(), of_ups("ups1", report), Moment(0, 0.0))
        assert [news.type for news in outcome.news] == ["power.mains_lost", "power.low"]

        nut.kill("ups2")
        gone = await heard.until("ups2", lambda r: bool(r.error))
        assert gone.error in {"DRIVER-NOT-CONNECTED", "DATA-STALE"}
        assert not heard.newest["ups1"].error

        nut.kill("upsd")
        lost = await heard.until("ups1", lambda r: bool(r.error))
        assert f"127.0.0.1:{nut.port}" in lost.error

        nut.restart_server()
        await heard.until("ups1", lambda r: "OB" in r.status)
        assert sensor.counters["nut_failures"] >= 1

    listen(NutServer(port=nut.port, poll_s=POLL_S), scene)


def _knock(nut: Nut) -> None:
    """LOGIN with the right password is accepted; a wrong one is refused, and in no text."""

    async def welcome(heard: Heard, _: NutSensor) -> None:
        await heard.until("ups1", lambda r: r.status in {"OL", "WAIT"})

    async def refused(heard: Heard, _: NutSensor) -> None:
        report = await heard.until("ups1", lambda r: bool(r.error))
        assert report.error == "ACCESS-DENIED"

    for password, scene in (("secret", welcome), ("wrong", refused)):
        listen(
            NutServer(
                port=nut.port, upses=("ups1",), login=True, user="trainer", password=password
            ),
            scene,
        )


class FakeUpsd:
    """An upsd that misbehaves: ``answers`` maps a command to the bytes of its answer."""

    def __init__(self, answers: dict[str, bytes], tls: ssl.SSLContext | None = None) -> None:
        self.answers, self.tls = answers, tls
        self.heard: list[str] = []
        self.port = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Talk(self), "127.0.0.1", 0
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()


class _Talk(asyncio.Protocol):
    def __init__(self, fake: FakeUpsd) -> None:
        self.fake, self.transport = fake, asyncio.Transport()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        for command in data.decode().splitlines():
            self.fake.heard.append(command)
            self.transport.write(self.fake.answers.get(command, b"ERR UNKNOWN-COMMAND\n"))
            if command == "STARTTLS" and self.fake.tls is not None:
                self._upgrade = asyncio.ensure_future(self._secure(self.fake.tls))

    async def _secure(self, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            secured = await loop.start_tls(self.transport, self, context, server_side=True)
            assert secured is not None
            self.transport = secured


STATUS = b'BEGIN LIST VAR a\nVAR a ups.status "OL"\nEND LIST VAR a\n'


@pytest.mark.parametrize("trusted", [True, False])
def test_tls_is_made_and_a_stranger_refused(trusted: bool) -> None:  # noqa: FBT001
    """After STARTTLS all goes encrypted; a certificate of a stranger ends it before a password."""
    authority, stranger = trustme.CA(), trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    (authority if trusted else stranger).issue_cert("127.0.0.1").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    answers = {
        "STARTTLS": b"OK STARTTLS\n",
        "USERNAME u": b"OK\n",
        "PASSWORD p": b"OK\n",
        "LIST VAR a": STATUS,
    }

    async def play() -> None:
        async with FakeUpsd(answers, server_side) as fake:
            server = NutServer(
                port=fake.port, upses=("a",), user="u", password="p", tls=client_side
            )
            heard = Heard()
            task = asyncio.create_task(NutSensor(server).run(heard))
            report = await heard.until("a", lambda r: bool(r.status or r.error))
            assert (report.status == "OL") is trusted
            assert ("PASSWORD p" in fake.heard) is trusted
            task.cancel()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"x" * 10_000, "a line without end"),
        (b"BEGIN LIST VAR b\n", "an answer that is no list"),
        (b"ERR DATA-STALE\n", "DATA-STALE"),
        (b"", "does not answer within"),
        (b"BEGIN LIST VAR a\n" + b'VAR a x "y"\n' * 1100, "a list without end"),
    ],
)
def test_what_a_server_does_wrong_is_said(answer: bytes, text: str) -> None:
    """Each misbehaviour becomes an error of the UPS within the deadline, never a status."""

    async def play() -> None:
        async with FakeUpsd({"LIST VAR a": answer}) as fake:
            heard = Heard()
            server = NutServer(port=fake.port, upses=("a",), timeout_s=0.3)
            task = asyncio.create_task(NutSensor(server).run(heard))
            report = await heard.until("a", lambda r: bool(r.error))
            assert text in report.error
            assert report.status == ""
            task.cancel()

    asyncio.run(play())
