"""The page as HTML: self-contained, without a script, and without a single outside request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold import __version__
from linkhold.fleet_view.words import lasted
from linkhold.report import pictures
from linkhold.report.axis import stamp
from linkhold.report.markup import Markup, el, joined
from linkhold.report.page import MOST_NAMED, MOST_STORIES, MOST_STRIPS, counted_lanes, strip_level
from linkhold.report.spans import Kind, Level
from linkhold.report.style import STYLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from linkhold.report.costs import Outage
    from linkhold.report.page import Page
    from linkhold.report.spans import Span
    from linkhold.report.story import Offender, Story

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""Content security policy: whatever a text may try, the browser loads and runs nothing."""
LEGEND = (
    (Level.BAD, "down, on battery, away"),
    (Level.WARN, "degraded, a spare or a link lost"),
    (Level.HELD, "training or uploads held"),
    (Level.NOTE, "as asked: stopped, set down, newest uploads only"),
    (Level.UNSURE, "unknown"),
)
OPTIONAL: Mapping[str, Callable[[Outage], float]] = {
    "training held": lambda one: one.cost.training_s,
    "jobs that asked": lambda one: one.cost.asked_s,
}
"""Columns that stand there only when one of them says something."""
_STRIPPED = frozenset({Kind.NETWORK, Kind.POWER, Kind.UPLOADS, Kind.TRAINING, Kind.AGENT})


def render(page: Page) -> str:
    """Return the page."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="viewport", content="width=device-width, initial-scale=1"),
        el("meta", name="referrer", content="no-referrer"),
        el("title", page.title),
        el("style", Markup(STYLE)),
    )
    body = el("body", pictures.patterns(), el("main", *_main(page)))
    return f"<!DOCTYPE html>\n{el('html', head, body, lang='en')}\n"


def _main(page: Page) -> Iterator[Markup]:
    period = page.period
    between = f"{stamp(period.from_s)} to {stamp(period.until_s)} UTC ({lasted(period.seconds)})"
    yield el("header", el("h1", page.title), el("p", between, class_="soft"))
    yield el("ul", *(_tile(one.value, one.label, one.look) for one in page.tiles), class_="tiles")
    if page.several:
        yield _fleet(page)
    else:
        yield _story(page.stories[0], page, 0)
    yield _outages(page)
    yield _offenders(page)
    if page.several:
        for position, story in enumerate(page.troubled[:MOST_STORIES]):
            yield _story(story, page, position)
    if page.several:
        yield from _others(page)
    notes = [el("li", note) for note in page.notes]
    made = f"Made by linkhold {__version__} at {stamp(page.made_s)} UTC. Times are UTC."
    yield el("footer", el("ul", *notes) if notes else "", el("p", made))


def _tile(value: str, label: str, look: str) -> Markup:
    return el("li", el("b", value), el("span", label), class_=look or None)


def _legend() -> Markup:
    items = [el("li", pictures.swatch(level), label) for level, label in LEGEND]
    return el("ul", *items, class_="legend")


def _fleet(page: Page) -> Markup:
    shown = page.troubled[:MOST_STRIPS]
    parts = [el("h2", "The fleet over time"), _legend()]
    crowd = pictures.crowd([story.spans for story in page.troubled], page.period, name="crowd")
    parts.append(el("figure", crowd, el("figcaption", "nodes in trouble, of each slice of time")))
    if shown:
        rows = [
            _strip(story, page.name_of(story.key), position) for position, story in enumerate(shown)
        ]
        strips = pictures.timeline(
            rows,
            page.period,
            name="strips",
            title="Nodes that had trouble, the worst first",
            described="One row for each node; the tables below say the same in words.",
            high=13,
        )
        left = len(page.troubled) - len(shown)
        said = f"the worst first; {left} more are listed below" if left else "the worst first"
        parts.append(el("figure", strips, el("figcaption", said)))
    return el("section", *parts)


def _strip(story: Story, name: str, position: int) -> pictures.PictureRow:
    spans = [span for span in story.spans if span.kind in _STRIPPED and strip_level(span.level)]
    href = f"#node-{position}" if position < MOST_STORIES else ""
    return pictures.PictureRow(name, spans, href=href)


def _outages(page: Page) -> Markup:
    parts = [el("h2", "Outages, and what they cost")]
    if not page.outages:
        return el("section", *parts, el("p", "None in this time."))
    columns = ["began", "node", "what", "lasted", "cause", "uploads held"]
    columns += [name for name, cost in OPTIONAL.items() if any(cost(one) for one in page.outages)]
    if not page.several:
        columns.remove("node")
    caption = "the dearest first: held training, then held uploads, then length"
    if page.outages_left:
        caption += f"; {page.outages_left} more are left out"
    rows = [_outage(one, columns, page.name_of(one.span.key)) for one in page.outages]
    return el("section", *parts, _table(caption, columns, rows))


def _outage(one: Outage, columns: Sequence[str], node: str) -> Iterator[Markup]:
    span, cost = one.span, one.cost
    still = ", and still" if span.lasting else ""
    before = "before " if span.earlier else ""
    cells = {
        "began": el("td", f"{before}{stamp(span.start_s)}", class_="t"),
        "node": el("td", node, class_="name"),
        "what": el("td", _tag(span)),
        "lasted": el("td", f"{lasted(span.seconds)}{still}", class_="n"),
        "cause": el("td", span.cause or "-", class_="cause"),
        "uploads held": _held(cost.uploads_s),
        "training held": _held(cost.training_s),
        "jobs that asked": _held(cost.asked_s),
    }
    return (cells[name] for name in columns)


def _tag(span: Span) -> Markup:
    subject = "" if span.subject == span.kind.value else f" {span.subject}"
    return el(
        "span",
        f"{span.kind.value}{subject} {span.word}",
        class_=f"tag {pictures.CLASSES[span.level]}",
    )


def _held(seconds: float) -> Markup:
    return el("td", lasted(seconds) if seconds else "-", class_="n")


def _table(caption: str, columns: Sequence[str], rows: Iterable[Iterable[Markup]]) -> Markup:
    numbers = {
        "lasted",
        "uploads held",
        "training held",
        "jobs that asked",
        "times",
        "in sum",
    }
    heads = [
        el("th", name, scope="col", class_="n" if name in numbers else None) for name in columns
    ]
    body = el("tbody", *(el("tr", *cells) for cells in rows))
    table = el("table", el("caption", caption), el("thead", el("tr", *heads)), body)
    return el("div", table, class_="scroll")


def _offenders(page: Page) -> Markup:
    if not page.causes and not page.parts:
        return Markup()
    parts = []
    if page.causes:
        columns = ["cause", "times", "in sum", "uploads held", "training held"]
        rows = [_offender(one, costs=True) for one in page.causes]
        parts.append(el("div", _table("causes, the dearest first", columns, rows)))
    if page.parts:
        columns = ["part", "times", "in sum"]
        rows = [_offender(one, costs=False) for one in page.parts]
        parts.append(el("div", _table("parts that failed most often", columns, rows)))
    return el("section", el("h2", "Top offenders"), el("div", *parts, class_="columns"))


def _offender(one: Offender, *, costs: bool) -> Iterator[Markup]:
    yield el("td", one.name, class_="cause")
    yield el("td", str(one.times), class_="n")
    yield el("td", lasted(one.seconds), class_="n")
    if costs:
        yield _held(one.cost.uploads_s)
        yield _held(one.cost.training_s)


def _story(story: Story, page: Page, position: int) -> Markup:
    heading = el("h2", page.name_of(story.key) if page.several else "Timeline")
    parts = [heading, el("p", _summary(story), class_="soft")]
    shown, left = counted_lanes(story)
    if shown:
        if not page.several:
            parts.append(_legend())
        rows = [_lane(story, number) for number in shown]
        drawn = pictures.timeline(
            rows,
            page.period,
            name=f"node-{position}-picture",
            title=f"What happened on {story.key[1]}",
            described=_summary(story),
            high=24,
        )
        parts.append(el("figure", drawn))
        parts.append(_spans_table(story))
    if left:
        parts.append(el("p", f"{left} more links and paths are left out.", class_="soft"))
    return el("section", *parts, id=f"node-{position}")


def _lane(story: Story, number: int) -> pictures.PictureRow:
    lane = story.lanes[number]
    kind = lane.kind.value
    label = kind if lane.subject == kind else f"{kind} {lane.subject}"
    return pictures.PictureRow(label, lane.spans, lane.marks)


MOST_LISTED = 60


def _spans_table(story: Story) -> Markup:
    """Return the bars of a picture in words, for who does not see it and for who copies."""
    spans = sorted(story.spans, key=lambda span: (-span.level, -span.seconds, span.start_s))
    listed = sorted(spans[:MOST_LISTED], key=lambda span: span.start_s)
    columns = ["began", "what", "lasted", "cause"]
    rows = [
        (
            el("td", f"{'before ' if span.earlier else ''}{stamp(span.start_s)}", class_="t"),
            el("td", _tag(span)),
            el("td", lasted(span.seconds) + (", and still" if span.lasting else ""), class_="n"),
            el("td", span.cause or "-", class_="cause"),
        )
        for span in listed
    ]
    left = len(spans) - len(listed)
    caption = "what the picture shows" + (f"; {left} of the least are left out" if left else "")
    summary = el("summary", f"the same in words ({len(spans)})")
    return el("details", summary, _table(caption, columns, rows)) if rows else Markup()


def _summary(story: Story) -> str:
    parts = [
        f"{len(story.outages)} outage{'' if len(story.outages) == 1 else 's'}",
        f"{lasted(story.down_s)} without network" if story.down_s else "",
        f"{lasted(story.degraded_s)} degraded" if story.degraded_s else "",
        f"{lasted(story.battery_s)} on battery" if story.battery_s else "",
        f"uploads held for {lasted(story.held.uploads_s)}" if story.held.uploads_s else "",
        f"training held for {lasted(story.held.training_s)}" if story.held.training_s else "",
    ]
    told = ", ".join(part for part in parts if part)
    now = story.now
    if now is None:
        return f"{told}."
    present = now.present
    state = f", network {present.network}, power {present.power}" if present else ""
    return f"{told}. Now {now.presence}{state}."


def _others(page: Page) -> Iterator[Markup]:
    """Yield lists of the nodes that are in no picture, so that every node is on the page."""
    rest = page.troubled[MOST_STRIPS:]
    told = [f"{page.name_of(story.key)}: {_summary(story)}" for story in rest]
    if told:
        yield _named(f"{len(told)} more nodes had trouble", told, "rest")
    if page.quiet:
        names = [page.name_of(story.key) for story in page.quiet]
        yield _named(f"{len(names)} nodes without trouble", names, "quiet")


def _named(summary: str, names: Sequence[str], look: str) -> Markup:
    items = joined(el("li", name) for name in names[:MOST_NAMED])
    left = len(names) - MOST_NAMED
    more = el("p", f"and {left} more") if left > 0 else ""
    return el("section", el("details", el("summary", summary), el("ul", items, class_=look), more))
