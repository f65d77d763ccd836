"""Pictures of a page as inline SVG: pure, and bounded by their width, whatever happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.fleet_view.words import lasted, printable
from linkhold.report.axis import Axis, stamp
from linkhold.report.markup import Markup, el, joined, text
from linkhold.report.spans import Kind, Level, Mark, Period, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

WIDTH = 1000
LABEL = 190
RIGHT = WIDTH - 12
TOP = 22
LEAST_BAR = 2.0
"""A fault of a second must be seen in a week."""
SLICES = 200
MOST_LETTERS = 30
CLASSES = {
    Level.NOTE: "note",
    Level.UNSURE: "unsure",
    Level.HELD: "held",
    Level.WARN: "warn",
    Level.BAD: "bad",
}
HEIGHTS = {Level.NOTE: 0.3, Level.UNSURE: 0.3, Level.HELD: 0.7, Level.WARN: 0.55, Level.BAD: 1.0}
"""Share of a row's height: levels can be told apart without colours."""


@dataclass(frozen=True, slots=True)
class PictureRow:
    """One row of a timeline; ``strong`` rows begin a group, ``href`` is where a label leads."""

    label: str
    spans: Sequence[Span]
    marks: Sequence[Mark] = ()
    href: str = ""


def timeline(
    rows: Sequence[PictureRow], period: Period, *, name: str, title: str, described: str, high: int
) -> Markup:
    """Return rows of bars under one axis; ``high`` is the height of a row."""
    axis = Axis(period, LABEL, RIGHT)
    height = TOP + high * len(rows) + 6
    parts = [el("title", title, id=f"{name}-t"), el("desc", described, id=f"{name}-d")]
    parts += _ticks(axis, height - 4)
    for position, row in enumerate(rows):
        parts += _row(row, axis, TOP + high * position, high)
    return el(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
        class_="picture",
    )


def _ticks(axis: Axis, bottom: float) -> Iterator[Markup]:
    yield el("rect", x=LABEL, y=TOP, width=RIGHT - LABEL, height=_n(bottom - TOP), class_="ground")
    for at_s, label in axis.ticks():
        x = _n(axis.x(at_s))
        yield el("line", x1=x, y1=TOP, x2=x, y2=_n(bottom), class_="tick")
        anchor = "end" if axis.x(at_s) > RIGHT - 20 else "middle"
        yield el("text", label, x=x, y=14, text_anchor=anchor, class_="when")


def _row(row: PictureRow, axis: Axis, top: float, high: int) -> Iterator[Markup]:
    label = printable(row.label, MOST_LETTERS)
    drawn = el("text", label, x=LABEL - 8, y=_n(top + high * 0.72), text_anchor="end", class_="who")
    yield el("a", drawn, href=row.href) if row.href else drawn
    yield el("line", x1=LABEL, y1=_n(top + high), x2=RIGHT, y2=_n(top + high), class_="row")
    for level in sorted(CLASSES):
        spans = [span for span in row.spans if span.level is level]
        yield from _bars(spans, level, axis, top, high)
    yield from _moments(row.marks, axis, top, high)


def _bars(
    spans: Sequence[Span], level: Level, axis: Axis, top: float, high: int
) -> Iterator[Markup]:
    room = high - 3
    tall = max(2.0, room * HEIGHTS[level])
    for left, right, group in _grouped(spans, axis):
        title = el("title", bar_title(group))
        shape = {"x": _n(left), "y": _n(top + 1.5 + room - tall), "height": _n(tall)}
        width = _n(right - left)
        yield el("rect", title, width=width, class_=f"bar {CLASSES[level]}", **shape)


def _grouped(spans: Sequence[Span], axis: Axis) -> Iterator[tuple[float, float, list[Span]]]:
    """Yield bars of at least :data:`LEAST_BAR`; spans that would touch share one."""
    group: list[Span] = []
    left = right = 0.0
    for span in sorted(spans, key=lambda one: one.start_s):
        begin = axis.x(span.start_s)
        end = max(axis.x(span.end_s), begin + LEAST_BAR)
        if group and begin <= right:
            right = max(right, end)
            group.append(span)
            continue
        if group:
            yield left, right, group
        left, right, group = begin, end, [span]
    if group:
        yield left, right, group


def bar_title(group: Sequence[Span]) -> str:
    """Return what a bar says when it is pointed at."""
    first = group[0]
    if len(group) > 1:
        seconds = sum(span.seconds for span in group)
        return f"{first.subject}: {len(group)} times from {stamp(first.start_s)}, {lasted(seconds)}"
    still = ", and still" if first.lasting else ""
    since = "since before " if first.earlier else "from "
    cause = f": {first.cause}" if first.cause else ""
    length = lasted(first.seconds)
    return f"{first.subject} {first.word} {since}{stamp(first.start_s)} for {length}{still}{cause}"


def _moments(marks: Sequence[Mark], axis: Axis, top: float, high: int) -> Iterator[Markup]:
    drawn: dict[int, list[Mark]] = {}
    for mark in marks:
        drawn.setdefault(round(axis.x(mark.at_s) / 3), []).append(mark)
    for group in drawn.values():
        x, y = axis.x(group[0].at_s), top + high / 2
        title = f"{stamp(group[0].at_s)}: {group[0].text}"
        if len(group) > 1:
            title += f", and {len(group) - 1} more"
        size = min(4.0, high / 3)
        half = _n(size)
        path = f"M{_n(x)} {_n(y - size)}l{half} {half}l-{half} {half}l-{half} -{half}z"
        yield el("path", el("title", title), d=path, class_="mark")


def crowd(spans_of: Sequence[Sequence[Span]], period: Period, *, name: str) -> Markup:
    """Return how many nodes were how over time; ``spans_of`` are the spans of each node."""
    tall, bottom = 120, TOP + 120
    slices = _slices(spans_of, period)
    most = max((sum(counts.values()) for counts in slices), default=0)
    axis = Axis(period, LABEL, RIGHT)
    wide = (RIGHT - LABEL) / SLICES
    described = (
        f"At most {most} of {len(spans_of)} nodes were in trouble within "
        f"{lasted(period.seconds / SLICES)}."
    )
    title = "Nodes in trouble over time"
    parts = [el("title", title, id=f"{name}-t"), el("desc", described, id=f"{name}-d")]
    parts += _ticks(axis, bottom)
    for value in sorted({0, -(-most // 2), most}):
        at = bottom - value / max(1, most) * tall
        parts.append(el("line", x1=LABEL, y1=_n(at), x2=RIGHT, y2=_n(at), class_="row"))
        where = {"x": LABEL - 8, "y": _n(at + 4), "text_anchor": "end"}
        parts.append(el("text", str(value), class_="when", **where))
    for position, counts in enumerate(slices):
        y = float(bottom)
        for level in (Level.BAD, Level.HELD, Level.WARN):
            count = counts.get(level, 0)
            if not count:
                continue
            high = count / most * tall
            y -= high
            when = stamp(period.from_s + position * period.seconds / SLICES)
            said = el("title", f"{when}: {count} of {len(spans_of)} {WORDS[level]}")
            x = _n(LABEL + position * wide)
            shape = {"x": x, "y": _n(y), "width": _n(wide + 0.2), "height": _n(high)}
            parts.append(el("rect", said, class_=f"bar {CLASSES[level]}", **shape))
    return el(
        "svg",
        *parts,
        viewBox=f"0 0 {WIDTH} {bottom + 8}",
        role="img",
        aria_labelledby=f"{name}-t {name}-d",
        class_="picture",
    )


WORDS = {Level.BAD: "down or on battery", Level.HELD: "held", Level.WARN: "degraded"}
_COUNTED = frozenset({Kind.NETWORK, Kind.POWER, Kind.UPLOADS, Kind.TRAINING, Kind.AGENT})


def _slices(spans_of: Iterable[Sequence[Span]], period: Period) -> list[dict[Level, int]]:
    """Return for each slice of the period how many nodes were how, each by its worst."""
    slices: list[dict[Level, int]] = [{} for _ in range(SLICES)]
    for spans in spans_of:
        worst: dict[int, Level] = {}
        for span in spans:
            if span.kind not in _COUNTED or span.level not in WORDS:
                continue
            first, last = (_slice(at_s, period) for at_s in (span.start_s, span.end_s))
            for position in range(first, last + 1):
                worst[position] = max(worst.get(position, Level.NOTE), span.level)
        for position, level in worst.items():
            slices[position][level] = slices[position].get(level, 0) + 1
    return slices


def _slice(at_s: float, period: Period) -> int:
    share = (at_s - period.from_s) / max(period.seconds, 1e-9)
    return max(0, min(SLICES - 1, int(share * SLICES)))


def swatch(level: Level) -> Markup:
    """Return a small sample of a bar, for a legend."""
    tall = 14 * HEIGHTS[level]
    bar = el(
        "rect", x=0, y=_n(15 - tall), width=20, height=_n(tall), class_=f"bar {CLASSES[level]}"
    )
    return el("svg", bar, viewBox="0 0 20 16", class_="swatch", aria_hidden="true")


def patterns() -> Markup:
    """Return the hatching of what is held, to be put into a page once."""
    lines = joined(
        (
            el("rect", width=6, height=6, class_="hatch-ground"),
            el("path", d="M-1 1l2 -2M0 6l6 -6M5 7l2 -2", class_="hatch-line"),
        )
    )
    hatch = el("pattern", lines, id="hatch", width=6, height=6, patternUnits="userSpaceOnUse")
    return el("svg", el("defs", hatch), width=0, height=0, class_="defs", aria_hidden="true")


def _n(value: float) -> str:
    """Return a coordinate, to a tenth: a page of a thousand nodes has many."""
    return text(f"{value:.1f}".rstrip("0").rstrip("."))
