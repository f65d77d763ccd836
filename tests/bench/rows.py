"""What a bench measures: rows with a target, percentiles, the machine they were read on."""

from __future__ import annotations

import math
import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

PERCENTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class Row:
    """One figure. ``reference`` is the limit read in the same run, ``ratio`` value to it.

    ``ok`` is None where no ``target`` is set.
    """

    what: str
    unit: str
    value: float
    reference: float | None = None
    ratio: float | None = None
    target: str | None = None
    ok: bool | None = None


def row(
    what: str,
    unit: str,
    value: float,
    *,
    reference: float | None = None,
    most: float | None = None,
    most_ratio: float | None = None,
) -> Row:
    """Return a row that must stay below ``most``, or below ``most_ratio`` times the reference."""
    ratio = value / reference if reference else None
    target: str | None = None
    ok: bool | None = None
    if most_ratio is not None and ratio is not None:
        target, ok = f"ratio <= {most_ratio:g}", ratio <= most_ratio
    elif most is not None:
        target, ok = f"< {most:g} {unit}".rstrip(), value < most
    return Row(what, unit, _short(value), _known(reference), _known(ratio), target, ok)


def _known(value: float | None) -> float | None:
    return None if value is None else _short(value)


def _short(value: float) -> float:
    """Round to four significant digits: more would pretend a precision that is not there."""
    return round(value, max(0, 3 - math.floor(math.log10(abs(value))))) if value else value


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that ``share`` of all values do not exceed (nearest rank)."""
    assert values, "nothing was seen"
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def machine() -> str:
    """Return in one line what the figures were read on, and how busy it was."""
    load = "/".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{_processor()} x{os.cpu_count()}, Linux {platform.release()}, "
        f"Python {platform.python_version()}, {_mosquitto()}, load {load}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _mosquitto() -> str:
    path = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if path is None:
        return "no mosquitto"
    done = subprocess.run([path, "-h"], capture_output=True, text=True, check=False)
    return " ".join(done.stdout.split()[:3]).replace(" version", "")
