"""What grows: looks at a process over time become a verdict. Pure: no clock, no process.

The first part of every run is warm-up and counts for nothing: caches fill, histories come to
their bounds. After it memory is judged by its slope, the median of the slopes of all pairs of
looks (Theil and Sen: a third of the looks may be peaks and it does not move), and everything
that is counted by its floor: a diagnosis adds a child for some seconds, a leak one for good. The
floor is what nine looks of ten reach in the end, and it is held against what half of them reach in
the beginning: a moment between two lives, or without a connection that is made anew, is none.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WARM_UP_SHARE = 1 / 3
MOST_PAIRS_OF = 240
"""Slopes of so many looks at most: all pairs of them are 28,680."""
HOUR_S = 3600.0


@dataclass(frozen=True)
class Limit:
    """What may grow how much.

    ``per_hour`` None: it is counted, and its floor may rise by ``least``. Else nothing below
    ``least`` is called growth, whatever its slope: allocators work in pages. ``bound`` stands for
    both where the configuration promises one: it must never be passed, warm-up included.
    """

    unit: str
    least: float = 0.0
    per_hour: float | None = None
    bound: float | None = None


MEMORY = Limit("kB", least=3072.0, per_hour=1024.0)
"""What fills for longer than any warm-up, and is bounded: SQLite's cache of pages (2 MB), and the
interpreter's arenas, which are taken a MB at a time. Objects that are kept show in the blocks."""
BLOCKS = Limit("", least=1500.0, per_hour=60.0)
"""Of the interpreter: an object kept for each event would be thousands. ``least`` is for bounded
memories that fill late, with names that come once: 64 packed properties of publications (950
blocks, each replay asked for has its own) and a job's 32 ended processes (140)."""
DISK = Limit("kB", bound=8192.0)
"""A MB of events, their indexes and free pages, and 4 MB of SQLite's write-ahead log."""
COUNT = Limit("")
SPOOL = Limit("", least=6 * 4)
"""A network that is away fills the spool to its bound of six uploads, each with four files."""
LIMITS: Mapping[str, Limit] = {
    "memory blocks": BLOCKS,
    "PSS": MEMORY,
    "own memory": MEMORY,
    "database": DISK,
    "descriptors": COUNT,
    "threads": COUNT,
    "children": COUNT,
    "files": COUNT,
    "spooled files": SPOOL,
}


@dataclass(frozen=True)
class Look:
    """The figures of one part of the service at one moment, by the names of :data:`LIMITS`."""

    at_s: float
    figures: Mapping[str, float]


@dataclass(frozen=True)
class Verdict:
    """One line of the table. ``rise`` is what was gained after the warm-up."""

    what: str
    unit: str
    first: float
    last: float
    most: float
    rise: float
    slope_per_hour: float
    allowed: str
    ok: bool


def judge(part: str, looks: Sequence[Look]) -> list[Verdict]:
    """Return a verdict for each figure of a part; raises ValueError for too few looks."""
    names = [name for name in LIMITS if any(name in look.figures for look in looks)]
    points = {
        name: [(one.at_s, one.figures[name]) for one in looks if name in one.figures]
        for name in names
    }
    return [_verdict(f"{part}: {name}", LIMITS[name], points[name]) for name in names]


def settled(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the looks after the warm-up."""
    if points:
        begun_s = points[0][0] + (points[-1][0] - points[0][0]) * WARM_UP_SHARE
        after = [point for point in points if point[0] >= begun_s]
        if len(after) >= 4:
            return after
    raise ValueError(f"{len(points)} looks are too few to see growth; let it run longer")


def _verdict(what: str, limit: Limit, seen: list[tuple[float, float]]) -> Verdict:
    points = settled(seen)
    values = [value for _, value in points]
    most = max(value for _, value in seen)
    third = max(2, len(values) // 3)
    level = floor if limit.per_hour is None else median
    first, last = float(median(values[:third])), float(level(values[-third:]))
    slope = slope_per_hour(points)
    if limit.bound is not None:
        ok, allowed = most <= limit.bound, f"{limit.bound:g} {limit.unit} in all"
    elif limit.per_hour is None:
        ok, allowed = last - first <= limit.least, f"floor +{limit.least:g}"
    else:
        ok = slope <= limit.per_hour or last - first <= limit.least
        allowed = f"{limit.per_hour:g} {limit.unit}/h, or +{limit.least:g}"
    return Verdict(what, limit.unit, first, last, most, last - first, slope, allowed, ok)


def floor(values: Sequence[float]) -> float:
    """Return what nine looks of ten reach."""
    return sorted(values)[len(values) // 10]


def slope_per_hour(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope of all pairs, in units an hour."""
    step = math.ceil(len(points) / MOST_PAIRS_OF)
    slopes = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in itertools.combinations(points[::step], 2)
        if after[0] > before[0]
    ]
    return median(slopes) * HOUR_S if slopes else 0.0


def table(verdicts: Sequence[Verdict]) -> str:
    """Return the verdicts as text for people."""
    head = ("", "first", "last", "most", "rise", "per hour", "allowed", "")
    rows = [head, *map(_cells, verdicts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            f"{cell:{'<' if column in {0, 6, 7} else '>'}{widths[column]}}"
            for column, cell in enumerate(row)
        ).rstrip()
        for row in rows
    )


def _cells(one: Verdict) -> tuple[str, ...]:
    unit = f" {one.unit}" if one.unit else ""
    numbers = (one.first, one.last, one.most, one.rise, one.slope_per_hour)
    shown = (f"{number:,.0f}" for number in numbers)
    return (f"{one.what}{unit and ','}{unit}", *shown, one.allowed, "ok" if one.ok else "GROWS")
