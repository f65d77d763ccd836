"""The inputs of power supply units, where the kernel has a driver for them (PMBus, hwmon).

Servers with two PSUs have one cable in each, and no entry in /sys/class/power_supply: their input
voltage is ``inN_input`` in millivolts with the label ``vin`` (Documentation/hwmon/pmbus.rst). A
reading blocks: it asks the unit over its bus.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.model.power_sources import PsuInput

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/class/hwmon")
LABEL = "vin"
MAX_DEVICES = 128
MAX_FILE_BYTES = 256


def inputs(root: Path = ROOT) -> tuple[PsuInput, ...]:
    """Read every input voltage; a file that cannot be read is not there. Blocking."""
    try:
        folders = sorted(root.iterdir())[:MAX_DEVICES]
    except OSError:
        return ()
    return tuple(one for folder in folders for one in _inputs(folder))


def _inputs(folder: Path) -> Iterator[PsuInput]:
    try:
        labels = sorted(folder.glob("in*_label"))
    except OSError:
        return
    for label in labels:
        if _text(label) != LABEL:
            continue
        millivolts = _text(label.with_name(label.name.replace("_label", "_input")))
        if re.fullmatch("-?[0-9]{1,9}", millivolts):
            driver, device = _text(folder / "name"), _device(folder)
            yield PsuInput(f"{driver} {device}", driver, int(millivolts) / 1000)


def _device(folder: Path) -> str:
    """Return the unit's address on its bus, such as 3-0058, which survives a restart."""
    try:
        return (folder / "device").resolve(strict=True).name
    except OSError:
        return folder.name


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""
