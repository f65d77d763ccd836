"""The feeds of a server's PSUs (hwmon): one lost is degraded, and they never tell of mains."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from linkhold.decide.power import Rules, SourceRules
from linkhold.decide.power.feeds import of_feeds
from linkhold.model.power_sources import PsuInput, SourceKind, Supply
from linkhold.sensors.hwmon import inputs
from linkhold.sensors.power_supply import PowerSupplySensor
from support.power_place import BATTERY, OK, SENSORS, UNKNOWN, UPS, Place

if TYPE_CHECKING:
    from pathlib import Path

FEEDS = SourceRules("feeds", SourceKind.FEEDS, max_age_s=100.0)
BOTH = (PsuInput("pmbus 3-0058", "pmbus", 231.0), PsuInput("pmbus 3-0059", "pmbus", 229.5))
ONE = (BOTH[0], PsuInput("pmbus 3-0059", "pmbus", 0.0))


def hear(place: Place, found: tuple[PsuInput, ...]) -> None:
    """Hear the PSUs."""
    place.take(of_feeds("feeds", found))


def psu(root: Path, number: int, millivolts: str, label: str = "vin") -> None:
    """Make one unit."""
    folder = root / f"hwmon{number}"
    folder.mkdir(parents=True, exist_ok=True)
    files = {"name": "pmbus", "in1_label": label, "in1_input": millivolts, "in2_label": "vout1"}
    for name, text in files.items():
        (folder / name).write_text(text + "\n")


def test_one_feed_of_two_lost_is_degraded_and_no_battery() -> None:
    """The UPS decides the state; the lost cable is named until it has voltage again."""
    place = Place(Rules((UPS, FEEDS)))
    place.ups("OL")
    hear(place, BOTH)
    assert place.news == []
    hear(place, ONE)
    assert place.outcome is not None
    assert place.outcome.power.state is OK
    assert place.data["degraded"]["reasons"] == ["feeds: feed lost: pmbus 3-0059"]
    hear(place, BOTH)
    place.sleep(10)
    place.ups("OL")
    hear(place, BOTH)
    for _ in range(4):
        place.sleep(10)
        place.ups("OL")
    assert place.news == ["degraded", "degraded_ended"]


def test_voltage_at_a_psu_hides_no_outage() -> None:
    """Behind a UPS that nobody asks it has voltage all the same: sensors of mains decide."""
    place = Place(Rules((FEEDS, *SENSORS)))
    hear(place, BOTH)
    for number in (1, 2):
        place.esp(b"0", number)
    place.sleep(2)
    assert place.outcome is not None
    assert place.outcome.power.state is BATTERY
    assert place.outcome.power.confirmed


def test_a_machine_with_psus_alone_is_told_of_nothing() -> None:
    """Without a source that could say where power comes from nobody is paged that none does."""
    place = Place(Rules((FEEDS,)))
    hear(place, BOTH)
    for _ in range(10):
        place.sleep(30)
        hear(place, BOTH)
    assert place.sleep(1) is UNKNOWN
    assert place.news == []


def test_regulators_of_the_board_are_no_feeds() -> None:
    """12 V on the board is no cable; nor is a unit without voltage beside no other of its make."""
    board = PsuInput("tps53679 1-0060", "tps53679", 12.1)
    assert of_feeds("feeds", (board, PsuInput("x 1-1", "tps53679", 0.0))) is None
    said = of_feeds("feeds", (*BOTH, board, PsuInput("y 1-2", "y", 0.0)))
    assert said is not None
    assert said.meaning.reason == ""


def test_the_files_of_the_kernel_are_read(tmp_path: Path) -> None:
    """Inputs labelled vin, in volts; what is no number, and other labels, are left out."""
    assert inputs(tmp_path / "none") == ()
    psu(tmp_path, 0, "231500")
    psu(tmp_path, 1, "0")
    psu(tmp_path, 2, "garbage")
    psu(tmp_path, 3, "12000", "vout1")

    assert [one.volts for one in inputs(tmp_path)] == [231.5, 0.0]


def test_they_are_read_beside_the_supplies(tmp_path: Path) -> None:
    """A machine without a supply in power_supply still has its feeds reported."""
    psu(tmp_path / "hwmon", 0, "231500")
    heard: list[tuple[PsuInput, ...]] = []
    supplies: list[tuple[Supply, ...]] = []

    async def play() -> None:
        told: asyncio.Queue[tuple[PsuInput, ...]] = asyncio.Queue()
        sensor = PowerSupplySensor(tmp_path / "power_supply")
        task = asyncio.create_task(sensor.run(supplies.append, told.put_nowait))
        heard.append(await told.get())
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(play(), 5))

    assert supplies == [()]
    assert heard[0][0].volts == 231.5
