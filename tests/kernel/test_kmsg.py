"""The kernel log sensor on the real /dev/kmsg, with test lines of user space."""

from __future__ import annotations

import asyncio
import os
import secrets
import select
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkhold.model import Unavailable
from linkhold.model.kernel_log import KernelLogReading, Position, Record
from linkhold.sensors import kernel_log
from linkhold.sensors.kmsg import DEVICE, KmsgSensor, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BOOT = "b"
PRIORITY = 1 << 3 | 7
"""Facility user, level debug: no console shows it."""
PER_OPEN = 10
"""printk.devkmsg=ratelimit lets through 10 lines of one open file in 5 s (devkmsg_write)."""
FLOOD = 100_000
RESTARTS = 50

pytestmark = pytest.mark.skipif(
    not os.access(DEVICE, os.R_OK | os.W_OK), reason=f"{DEVICE} may not be read and written"
)


def write(lines: Iterable[str]) -> None:
    """Put lines into the kernel's log as user space may.

    A line without its newline may be continued, and is not shown before the next one is there
    (prb_commit without prb_final_commit, kernel/printk).
    """
    fd = -1
    for count, line in enumerate(lines):
        if count % PER_OPEN == 0:
            if fd >= 0:
                os.close(fd)
            fd = os.open(DEVICE, os.O_WRONLY)
        os.write(fd, f"<{PRIORITY}>{line}\n".encode())
    os.close(fd)


def fault(token: str, number: int) -> str:
    """Return a line that matters, told from others by its token."""
    return f"igb 0000:05:00.1 eth2: igb: eth2 NIC Link is Down {token} {number} end"


def numbers(token: str, records: Iterable[Record]) -> list[int]:
    """Return the numbers of our own lines among records."""
    return [int(one.text.split()[-2]) for one in records if token in one.text]


def drain(sensor: KmsgSensor) -> list[Record]:
    """Read until nothing waits."""
    found: list[Record] = []
    while select.select([sensor.fileno()], [], [], 0)[0]:
        reading = sensor.read()
        found += reading.records if reading is not None else ()
    return found


def opened(position: Position | None) -> KmsgSensor:
    """Return an open sensor that listens to user space too."""
    sensor = KmsgSensor(BOOT, position, any_facility=True)
    sensor.open()
    return sensor


def test_user_space_is_not_believed() -> None:
    """A line of another facility than the kernel's is counted and dropped."""
    sensor = KmsgSensor(BOOT)
    sensor.open()
    token = secrets.token_hex(8)
    write([fault(token, 1)])

    assert numbers(token, drain(sensor)) == []
    assert sensor.counters["kernel_log_foreign"] >= 1
    sensor.close()


def test_reading_starts_now_and_goes_on_where_it_ended() -> None:
    """Without a position only new lines count; with one nothing is read twice or left out."""
    token = secrets.token_hex(8)
    write([fault(token, 1)])
    first = opened(None)
    write([fault(token, 2)])
    assert numbers(token, drain(first)) == [2]
    first.close()
    write([fault(token, 3)])

    second = opened(first.position)

    assert numbers(token, drain(second)) == [3]
    second.close()


def test_a_quiet_log_has_a_place_too() -> None:
    """An agent that read nothing yet goes on behind what was there when it began."""
    token = secrets.token_hex(8)
    write([fault(token, 1)])
    first = opened(None)
    place = first.position
    first.close()
    write([fault(token, 2)])

    second = opened(place)

    assert place is not None
    assert numbers(token, drain(second)) == [2]
    second.close()


def test_the_log_of_another_boot_is_read_from_its_start() -> None:
    """After a reboot every line is new, also those before the agent started."""
    token = secrets.token_hex(8)
    write([fault(token, 1)])

    sensor = opened(Position("another boot", 10**9))

    assert numbers(token, drain(sensor)) == [1]
    sensor.close()


def test_overwritten_records_are_counted() -> None:
    """A ring that went round under the reader is EPIPE, no fault: the gap is counted."""
    token = secrets.token_hex(8)
    sensor = opened(None)
    write([fault(token, 0)])
    drain(sensor)
    write(f"filling {token} {number} {'x' * 900}" for number in range(6000))
    write([fault(token, 1)])

    reading = sensor.read()
    found = drain(sensor)

    assert reading is not None
    assert sensor.counters["kernel_log_overruns"] >= 1
    assert reading.lost == sensor.counters["kernel_log_lost"] > 0
    assert numbers(token, [*reading.records, *found])[-1] == 1
    sensor.close()


def test_a_flood_starves_nobody_and_hides_nothing() -> None:
    """100,000 lines in seconds: the loop runs on, and no line that was read is overlooked."""
    token = secrets.token_hex(8)
    every = FLOOD // 20
    lines = (
        fault(token, n) if n % every == 0 else f"usb 2-1: flood {token} {n}" for n in range(FLOOD)
    )
    writer = threading.Thread(target=write, args=(lines,))

    async def follow() -> tuple[KmsgSensor, list[KernelLogReading], float]:
        readings: list[KernelLogReading] = []
        sensor = KmsgSensor(BOOT, any_facility=True)
        sensor.start(readings.append, asyncio.get_running_loop())
        writer.start()
        worst_s = 0.0
        while writer.is_alive() or select.select([sensor.fileno()], [], [], 0)[0]:
            began = time.monotonic()
            await asyncio.sleep(0.001)
            worst_s = max(worst_s, time.monotonic() - began)
        sensor.stop()
        return sensor, readings, worst_s

    sensor, readings, worst_s = asyncio.run(follow())
    writer.join()

    lost = sensor.counters["kernel_log_lost"]
    seen = numbers(token, [record for reading in readings for record in reading.records])
    assert sensor.counters["kernel_log_records"] + lost >= FLOOD
    assert seen == sorted(set(seen))
    assert 20 - lost <= len(seen) <= 20
    assert len(seen) > 0
    assert sum(reading.lost for reading in readings) == lost
    assert worst_s < 0.5  # 5 ms by itself; other tests share the machine


WRITER = """
import sys, time
sys.path[0] = sys.argv[1]
from kernel.test_kmsg import fault, write
count = 0
print("up", flush=True)
while count < int(sys.argv[3]):
    write([*(f"usb 2-1: flood {count}" for _ in range(19)), fault(sys.argv[2], count)])
    count += 1
    time.sleep(0.002)
"""


def _follow(journal: Path, token: str, start: Position) -> None:
    """Do what an agent does: keep what was read durably, its place in the log beside it."""
    kept = [line for line in journal.read_text().splitlines() if line.endswith(".")]
    sensor = opened(Position(BOOT, int(kept[-1].split()[0])) if kept else start)
    out = os.open(journal, os.O_WRONLY | os.O_APPEND)
    while True:
        select.select([sensor.fileno()], [], [])
        reading = sensor.read()
        for record in () if reading is None else reading.records:
            if token in record.text:
                os.write(out, f"{record.sequence} {record.text.split()[-2]}.\n".encode())
        if reading is not None and reading.lost:
            os.write(out, f"{reading.position.sequence} lost.\n".encode())


def test_restarts_in_a_flood_lose_and_double_nothing(tmp_path: Path) -> None:
    """Killed 50 times under a flood, each start goes on behind the last record that was kept."""
    token = secrets.token_hex(8)
    journal = tmp_path / "journal"
    journal.write_text("")
    first = opened(None)
    write(["usb 2-1: a line to begin with"])
    drain(first)
    assert first.position is not None
    faults = 400
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, "-c", WRITER, tests, token, str(faults)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"up\n"
        for round_ in range(RESTARTS):
            with _follower(journal, token, first.position):
                time.sleep(0.004 * (round_ % 5))
        writer.wait()
    with _follower(journal, token, first.position):
        _wait_for(journal, faults - 1)
    first.close()

    told = [line.split()[1] for line in journal.read_text().splitlines()]
    if "lost." in told:
        pytest.skip("the ring of this kernel went round while the reader was away")
    assert told == [f"{number}." for number in range(faults)]


@contextmanager
def _follower(journal: Path, token: str, start: Position) -> Iterator[None]:
    """Follow in a process of its own, which is killed when the ``with`` ends."""
    pid = os.fork()
    if pid == 0:
        try:
            _follow(journal, token, start)
        finally:
            os._exit(1)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _wait_for(journal: Path, number: int) -> None:
    for _ in range(500):
        if f" {number}.\n" in journal.read_text():
            return
        time.sleep(0.01)


def test_rest_costs_nothing() -> None:
    """Nobody is woken while the log is quiet: poll, not a timer."""
    sensor = opened(None)
    drain(sensor)
    began = time.process_time()
    with suppress(TimeoutError):
        select.select([sensor.fileno()], [], [], 0.2)

    assert time.process_time() - began < 0.05
    sensor.close()


def test_a_closed_log_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without /dev/kmsg and without journald both reasons are named."""
    with pytest.raises(Unavailable, match="nothing: No such file"):
        KmsgSensor(BOOT, path=tmp_path / "nothing").open()
    monkeypatch.setattr(kernel_log, "KmsgSensor", lambda *_: KmsgSensor(BOOT, path=tmp_path / "no"))
    monkeypatch.setitem(sys.modules, "systemd.journal", None)
    loop = asyncio.new_event_loop()
    with pytest.raises(Unavailable, match="No such file or directory; journald: the module"):
        kernel_log.start(BOOT, None, lambda _: None, loop)
    loop.close()


@pytest.mark.parametrize("device", ["/dev/null", "/dev/zero"])
@pytest.mark.parametrize("position", [None, Position(BOOT, 5), Position("")])
def test_what_stands_in_its_place_in_a_container_is_no_log(
    device: str, position: Position | None
) -> None:
    """The agent says that it cannot read the log, and goes on without it."""
    sensor = KmsgSensor(BOOT, position, path=Path(device))
    loop = asyncio.new_event_loop()
    with pytest.raises(Unavailable, match=f"{device}: is no log of the kernel"):
        sensor.start(lambda _: None, loop)
    loop.close()

    assert sensor.fileno() == -1


def test_a_record_is_its_first_line() -> None:
    """Text, level and facility are of the first line, DEVICE= of the lines after it."""
    data = (
        b"29,7,123456,-,caller=T1;a \\x1b text; more\n SUBSYSTEM=pci\n DEVICE=+pci:0000:01:00.0\n"
    )

    assert parse(data) == Record(7, 123456, 5, 3, "a \\x1b text; more", device="+pci:0000:01:00.0")
    assert parse(b"garbage") is None
