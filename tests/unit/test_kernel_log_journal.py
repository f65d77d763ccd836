"""The kernel's log from journald, with a journal of the test's own; and the place in a log."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.model import Unavailable
from linkhold.model.kernel_log import KernelLogReading, Position, Record
from linkhold.sensors.journal import JournalSensor
from linkhold.store.log_position import LogPosition

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOOT = "0a1b2c3d-0000-0000-0000-000000000001"
DOWN = "igb 0000:05:00.1 eth2: igb: eth2 NIC Link is Down"


def entry(number: int, message: str, **more: object) -> dict[str, Any]:
    """Return an entry as systemd-python gives it."""
    return {
        "__CURSOR": f"c{number}", "MESSAGE": message, "PRIORITY": 6, "SYSLOG_FACILITY": 0,
        "_SOURCE_MONOTONIC_TIMESTAMP": timedelta(seconds=number), **more,
    }  # fmt: skip


class Journal:
    """A journal with some entries; ``calls`` is how it was asked."""

    def __init__(self, entries: list[dict[str, Any]], error: OSError | None = None) -> None:
        self.entries = entries
        self.calls: list[object] = []
        self.error = error
        self.at = 0

    def Reader(self) -> Journal:  # noqa: N802 - the name in systemd.journal
        """Open, or fail as journald does."""
        if self.error is not None:
            raise self.error
        return self

    def add_match(self, **match: str) -> None:
        """Keep what is asked for."""
        self.calls.append(match)

    def seek_tail(self) -> None:
        """Go behind the last entry."""
        self.at = len(self.entries)

    def seek_head(self) -> None:
        """Go before the first entry."""
        self.at = 0

    def seek_cursor(self, cursor: str) -> None:
        """Go before an entry."""
        self.at = [one["__CURSOR"] for one in self.entries].index(cursor)

    def seek_monotonic(self, since_s: float) -> None:
        """Go before the first entry of a time."""
        stamps = [one["_SOURCE_MONOTONIC_TIMESTAMP"].total_seconds() for one in self.entries]
        self.at = sum(stamp < since_s for stamp in stamps)

    def get_previous(self) -> dict[str, Any]:
        """Position on the last entry, as is needed after seek_tail."""
        return self.entries[-1] if self.entries else {}

    def get_next(self) -> dict[str, Any]:
        """Return the next entry; an empty one when there is none."""
        self.at += 1
        return self.entries[self.at - 1] if self.at <= len(self.entries) else {}

    def wait(self, timeout_s: float) -> None:
        """Wait for nothing."""
        self.calls.append(timeout_s)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Journal], None]:
    """Let a journal of the test's own be the host's."""

    def put(journal: Journal) -> None:
        monkeypatch.setitem(sys.modules, "systemd", SimpleNamespace(journal=journal))
        monkeypatch.setitem(sys.modules, "systemd.journal", journal)

    return put


def follow(
    position: Position | None, since_s: float = 0.0
) -> tuple[list[KernelLogReading], JournalSensor]:
    """Follow for a moment and return what was reported."""
    readings: list[KernelLogReading] = []
    sensor = JournalSensor(BOOT, position, since_s)

    async def run() -> None:
        sensor.start(readings.append, asyncio.get_running_loop())
        await asyncio.sleep(0.05)
        sensor.stop()
        await asyncio.sleep(0.01)

    asyncio.run(run())
    return readings, sensor


def test_only_the_kernels_lines_of_this_boot_count(use: Callable[[Journal], None]) -> None:
    """Other facilities came from user space; lines that mean nothing are not handed on."""
    journal = Journal([
        entry(1, "usb 2-1: USB disconnect"),
        entry(2, DOWN, SYSLOG_FACILITY=1),
        entry(3, DOWN, _KERNEL_DEVICE="+pci:0000:05:00.1"),
    ])  # fmt: skip
    use(journal)

    readings, sensor = follow(Position("another boot"))

    assert [one.records for one in readings] == [
        (Record(2, 3_000_000, 6, 0, DOWN, "+pci:0000:05:00.1"),)
    ]
    assert readings[0].position == Position(BOOT, 2, "c3")
    assert sensor.counters["kernel_log_foreign"] == 1
    assert {"_BOOT_ID": BOOT.replace("-", "")} in journal.calls


def test_the_journal_is_resumed_behind_its_cursor(use: Callable[[Journal], None]) -> None:
    """Nothing is read twice; without a position only new entries count."""
    use(Journal([entry(1, DOWN), entry(2, DOWN)]))

    readings, _ = follow(Position(BOOT, 0, "c1"))
    nothing, _ = follow(None)

    assert [one.position.cursor for one in readings] == ["c2"]
    assert nothing == []


def test_a_journal_of_weeks_is_read_from_the_hour_that_is_asked_for(
    use: Callable[[Journal], None],
) -> None:
    """A million older lines would use up the time that there is, and the newest be missed."""
    use(Journal([entry(number, f"{DOWN} {number}") for number in (10, 20, 30, 40)]))
    readings, _ = follow(Position(""), since_s=25.0)

    assert [one.at_us for reading in readings for one in reading.records] == [30e6, 40e6]


def test_a_closed_journal_says_why(use: Callable[[Journal], None]) -> None:
    """Missing rights are a reason, no traceback."""
    use(Journal([], OSError(13, "Permission denied")))
    loop = asyncio.new_event_loop()

    with pytest.raises(Unavailable, match="journald: Permission denied"):
        JournalSensor(BOOT).start(lambda _: None, loop)
    loop.close()


def test_a_journal_without_a_line_of_the_kernel_is_none(use: Callable[[Journal], None]) -> None:
    """The library opens where no journald runs too: its silence must not pass for a quiet log."""
    use(Journal([]))
    loop = asyncio.new_event_loop()

    with pytest.raises(Unavailable, match="journald: has no line of the kernel"):
        JournalSensor(BOOT).start(lambda _: None, loop)
    loop.close()


def test_a_journal_that_fails_keeps_its_place(use: Callable[[Journal], None]) -> None:
    """After a restart reading goes on behind the last entry, not at the start of the boot."""

    class Failing(Journal):
        def wait(self, timeout_s: float) -> None:
            super().wait(timeout_s)
            raise OSError(74, "Bad message")

    use(Failing([entry(1, DOWN), entry(2, DOWN)]))

    readings, _ = follow(Position(BOOT, 7, "c1"))

    assert readings[-1].problem.startswith("journald: ")
    assert {one.position for one in readings} == {Position(BOOT, 8, "c2")}


def test_the_place_in_the_log_survives_a_restart(tmp_path: Path) -> None:
    """What is saved is loaded; an absent or damaged file is no position."""
    path = tmp_path / "kernel-log.json"
    assert LogPosition(path).load() is None
    LogPosition(path).save(Position(BOOT, 77, "c"))

    assert LogPosition(path).load() == Position(BOOT, 77, "c")
    for damaged in (b"", b"{", b"[]", b'{"boot_id": 1, "seq": 2, "cursor": ""}', b"\xff"):
        path.write_bytes(damaged)
        assert LogPosition(path).load() is None
