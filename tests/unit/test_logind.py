"""logind on a real bus: the delay lock, a shutdown, one that is called off, a bus that restarts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.decide.notices.shutdown import LogindReport, shutdown_notice
from linkhold.model import Moment
from linkhold.sensors import logind

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from support.fake_logind import Daemon

jeepney = pytest.importorskip("jeepney")


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    """A message bus."""
    from support.fake_logind import Daemon

    if not shutil.which("dbus-daemon"):
        pytest.skip("dbus-daemon is not installed")
    made = Daemon(tmp_path).start()
    yield made
    made.stop()


class Heard:
    """Reports, and a wait for one."""

    def __init__(self) -> None:
        self.all: list[LogindReport] = []

    async def until(self, check: Callable[[LogindReport], object]) -> LogindReport:
        """Return the newest report when it passes, within 10 s."""
        end = time.monotonic() + 10
        while not self.all or not check(self.all[-1]):
            assert time.monotonic() < end, self.all
            await asyncio.sleep(0.01)
        return self.all[-1]


def listen(daemon: Daemon, scene: Callable[[Heard, logind.LogindSensor], Awaitable[None]]) -> None:
    """Run the sensor while ``scene`` plays."""

    async def play() -> None:
        sensor, heard = logind.LogindSensor(bus=str(daemon.path)), Heard()
        task = asyncio.create_task(sensor.run(heard.all.append))
        try:
            await scene(heard, sensor)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    asyncio.run(play())


def test_a_shutdown_waits_for_us_and_a_called_off_one_is_delayed_again(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is held from the start, let go when asked, taken again; also by a new bus."""
    from support.fake_logind import FakeLogind

    monkeypatch.setattr(logind, "RETRY_S", 0.05)
    monkeypatch.setattr(logind, "LOOK_S", 0.1)
    fakes = [FakeLogind(daemon)]

    async def scene(heard: Heard, sensor: logind.LogindSensor) -> None:
        await heard.until(lambda r: r.locked)
        assert fakes[0].asked[0] == ("shutdown", "linkhold", "training saves a checkpoint", "delay")
        assert fakes[0].held

        fakes[0].scheduled = ("reboot", 2_000_000_000_000_000)
        planned = await heard.until(lambda r: r.scheduled == "reboot")
        assert planned.at_s == 2_000_000_000.0
        fakes[0].scheduled = ("", 0)
        await heard.until(lambda r: not r.scheduled)

        fakes[0].prepare(down=True, forged=True)
        await asyncio.sleep(0.2)
        assert not any(report.preparing for report in heard.all)

        fakes[0].prepare(down=True)
        going = await heard.until(lambda r: r.preparing)
        assert going.delay_s == 60.0
        assert fakes[0].held
        sensor.release()
        assert not fakes[0].held

        fakes[0].prepare(down=False)
        await heard.until(lambda r: r.locked and not r.preparing)
        assert fakes[0].held

        daemon.stop()
        await heard.until(lambda r: r.error)
        fakes[0].close()
        daemon.start()
        fakes.append(FakeLogind(daemon))
        await heard.until(lambda r: r.locked and not r.error)

    try:
        listen(daemon, scene)
        assert not fakes[-1].held
    finally:
        daemon.stop()
        fakes[-1].close()


def test_what_other_users_send_us_costs_no_connection(daemon: Daemon) -> None:
    """Signals of 2 MB, of odd forms and with descriptors: left out, and logind is heard on."""
    from support.fake_logind import FakeLogind

    fake = FakeLogind(daemon)

    async def scene(heard: Heard, sensor: logind.LogindSensor) -> None:
        await heard.until(lambda r: r.locked)
        fake.pester(os.devnull)
        fake.prepare(down=True)
        await heard.until(lambda r: r.preparing)
        assert not any(report.error for report in heard.all)
        assert sensor.counters == {"logind_connects": 1, "logind_failures": 0}

    try:
        listen(daemon, scene)
    finally:
        daemon.stop()
        fake.close()


def test_without_logind_the_reason_is_told(daemon: Daemon) -> None:
    """A bus without logind, as in a container, is unknown with a reason; no crash."""

    async def scene(heard: Heard, _: logind.LogindSensor) -> None:
        report = await heard.until(lambda r: r.error)
        assert "org.freedesktop.login1" in report.error

    listen(daemon, scene)


NOW = Moment(1_000_000_000_000, 1_000.0)


def test_a_planned_reboot_is_a_notice_with_its_time() -> None:
    """Planned: the deadline is when it was planned for; a look later changes nothing."""
    report = LogindReport(scheduled="reboot", at_s=1_600.0)
    notice = shutdown_notice(report, None, NOW)

    assert notice is not None
    assert (notice.kind, notice.action, notice.source) == ("shutdown", "reboot", "logind: planned")
    assert notice.deadline is not None
    assert notice.deadline.mono_ns == NOW.mono_ns + 600_000_000_000
    assert shutdown_notice(report, notice, Moment(NOW.mono_ns + 5, 1_005.0)) is notice
    assert shutdown_notice(LogindReport(), notice, NOW) is None


def test_a_shutdown_that_began_ends_with_the_delay() -> None:
    """Going down: as long as logind waits; a bus that dies on the way keeps the notice."""
    notice = shutdown_notice(LogindReport(preparing=True, delay_s=60.0), None, NOW)

    assert notice is not None
    assert notice.action == "stop"
    assert notice.deadline is not None
    assert notice.deadline.mono_ns == NOW.mono_ns + 60_000_000_000
    assert shutdown_notice(LogindReport(error="gone"), notice, NOW) is notice
