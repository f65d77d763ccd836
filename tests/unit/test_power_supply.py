"""The kernel's supplies, in a folder of a test's own; and its uevents, in a namespace."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from linkhold.model.power_sources import Supply
from linkhold.sensors.power_supply import PowerSupplySensor, supplies
from support.supplies import Poke, write

AGENT = Path(__file__).resolve().parents[2] / "agent"


def test_every_supply_is_read_and_what_is_missing_is_nothing(tmp_path: Path) -> None:
    """Files that are not there, or hold nonsense, are None or empty."""
    assert supplies(tmp_path) == ()
    write(tmp_path, "AC", type="Mains", online="0")
    write(
        tmp_path, "BAT0", type="Battery", status="Discharging", capacity="x", scope="System",
        time_to_empty_now="600",
    )  # fmt: skip

    assert supplies(tmp_path) == (
        Supply("AC", "Mains", online=False),
        Supply("BAT0", "Battery", scope="System", status="Discharging", runtime_s=600.0),
    )
    assert supplies(tmp_path / "none") == ()


def test_an_event_is_read_at_once(tmp_path: Path) -> None:
    """Mains that go are reported with the event, not with the next slow reading."""
    write(tmp_path, "AC", type="Mains", online="1")
    states: list[bool | None] = []

    async def play() -> None:
        told: asyncio.Queue[tuple[Supply, ...]] = asyncio.Queue()
        poke = Poke()
        sensor = PowerSupplySensor(tmp_path, poke)  # type: ignore[arg-type]
        task = asyncio.create_task(sensor.run(told.put_nowait))
        states.append((await told.get())[0].online)
        write(tmp_path, "AC", online="0")
        os.write(poke.outer, b"!")
        states.append((await asyncio.wait_for(told.get(), 2))[0].online)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(play())

    assert states == [True, False]


def test_a_storm_of_events_is_few_readings(tmp_path: Path) -> None:
    """The first event is read at once, those that follow together; the last word is what counts."""
    write(tmp_path, "AC", type="Mains", online="1")
    told: list[bool | None] = []

    async def play() -> None:
        poke = Poke()
        sensor = PowerSupplySensor(tmp_path, poke)  # type: ignore[arg-type]
        task = asyncio.create_task(sensor.run(lambda found: told.append(found[0].online)))
        await asyncio.sleep(0.1)
        for number in range(400):
            write(tmp_path, "AC", online="0" if number else "1")
            os.write(poke.outer, b"!")
            await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(play())

    assert told[0] is True
    assert told[-1] is False
    assert len(told) < 100


UEVENTS = """
import pathlib, select, socket, subprocess, sys
from linkhold.sensors.power_supply import Uevents
events = Uevents("net")
subprocess.run(["mount", "-t", "sysfs", "sys", sys.argv[1]], check=True)
stranger = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
stranger.bind((0, 0))
stranger.sendto(b"change@/x\\0SUBSYSTEM=net\\0", (0, 1))
assert select.select([events], [], [], 5)[0]
print(events.changed())
pathlib.Path(sys.argv[1], "class/net/lo/uevent").write_text("change")
assert select.select([events], [], [], 5)[0]
print(events.changed(), events.changed())
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root")
def test_only_the_kernel_is_believed(tmp_path: Path) -> None:
    """A real uevent counts once; the same words from a process do not (in namespaces)."""
    run = subprocess.run(
        ["unshare", "-n", "-m", sys.executable, "-c", UEVENTS, str(tmp_path)],
        capture_output=True, text=True, timeout=30, check=False,
        env=os.environ | {"PYTHONPATH": str(AGENT)},
    )  # fmt: skip

    assert run.stdout.split() == ["False", "True", "False"], run.stderr
