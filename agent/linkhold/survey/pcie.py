"""PCIe width and speed of a NIC beside what it and its slot can, from sysfs.

``current_link_width`` and its like are read from the port's configuration space, which costs
microseconds and needs no rights (Documentation/ABI/testing/sysfs-bus-pci).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.survey.files import Reader

NET = "/sys/class/net"
_NUMBER = re.compile(r"\d{1,6}(?:\.\d{1,6})?")
NONSENSE = frozenset({63, 255})
"""Widths that a card shows which has fallen off the bus (all bits set)."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Speeds in GT/s and widths in lanes of a card and of the port above it; 0 where unknown."""

    speed: float = 0.0
    speed_most: float = 0.0
    width: int = 0
    width_most: int = 0
    slot_speed_most: float = 0.0
    slot_width_most: int = 0


def lanes(reader: Reader, name: str) -> Lanes:
    """Return what is known of the PCIe link of the interface ``name``; all 0 for none."""
    device = f"{NET}/{name}/device"
    slot = f"{device}/.."
    return Lanes(
        _number(reader, f"{device}/current_link_speed"),
        _number(reader, f"{device}/max_link_speed"),
        _width(reader, f"{device}/current_link_width"),
        _width(reader, f"{device}/max_link_width"),
        _number(reader, f"{slot}/max_link_speed"),
        _width(reader, f"{slot}/max_link_width"),
    )


def _number(reader: Reader, path: str) -> float:
    found = _NUMBER.match(reader.line(path))
    return float(found[0]) if found else 0.0


def _width(reader: Reader, path: str) -> int:
    width = int(_number(reader, path))
    return 0 if width in NONSENSE else width
