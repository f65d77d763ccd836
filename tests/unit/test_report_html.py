"""The page itself: nothing from outside gets into it but text, and it stays small."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.report.axis import MOST_TICKS, Axis
from linkhold.report.html import render
from linkhold.report.markup import Markup, el, text
from linkhold.report.page import compose
from linkhold.report.records import collate, read_record
from linkhold.report.spans import Period
from linkhold.report.story import tell
from linkhold.report.style import DARK, LIGHT, STYLE
from linkhold.wire import dumps, rfc3339
from support.days import Day
from support.html_page import Parsed

ALLOWED = {
    *("html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "p", "ul"),
    *("li", "b", "span", "section", "figure", "figcaption", "svg", "desc", "rect", "line", "text"),
    *("a", "path", "defs", "pattern", "div", "table", "caption", "thead", "tbody", "tr", "th"),
    *("td", "details", "summary", "footer"),
}
HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></svg></style><script src='https://evil.example/x.js'></script>",
    "' onload='alert(1)",
    "javascript:alert(1)",
    "&lt;b&gt; &#x3c;script&#x3e;",
    "]]><!--",
    "\x1b[31mred\x00\x08\u202egpj.exe",
    "x" * 5000,
]


def page_of(documents: list[dict[str, Any]], seconds: float = 86400.0) -> str:
    """Return the page about the last day of events."""
    records = [read_record(dumps(document)) for document in documents]
    until_s = max(record.at_s for record in records)
    period = Period(until_s - seconds, until_s)
    return render(compose(tell(collate(records), {}, period), period, until_s))


def eventful() -> list[dict[str, Any]]:
    """Return a day with every kind of fault that the core makes."""
    day = Day()
    day.wait(1000)
    day.lose_network(300)
    day.wait(500)
    day.lose_mains(300)
    day.lose_member(100)
    day.wait(1000)
    return day.documents


def spoilt(documents: list[dict[str, Any]], evil: str) -> list[dict[str, Any]]:
    """Return the events with ``evil`` wherever a node can write text."""

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoil(one) for key, one in value.items()}
        if isinstance(value, list):
            return [spoil(one) for one in value]
        kept = value in {"down", "hold", "newest", "degraded", "ok"}
        return evil if isinstance(value, str) and not kept else value

    name = evil.replace("/", "|")
    return [
        {
            **document,
            "source": f"linkhold/{name}/{name}",
            "subject": evil,
            "data": spoil(document["data"]),
        }
        for document in documents
    ]


@pytest.mark.parametrize("evil", HOSTILE)
@pytest.mark.parametrize("several", [False, True])
def test_texts_from_nodes_stay_text(evil: str, several: bool) -> None:  # noqa: FBT001
    """Names and causes may hold anything: no element, attribute or address comes of it."""
    documents = spoilt(eventful(), evil)
    if several:
        documents += eventful()
    page = page_of(documents)
    parsed = Parsed(page)

    assert set() == parsed.names - ALLOWED
    assert parsed.fetched == []
    assert not any(name.startswith("on") for _, found in parsed.elements for name in found)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", page)
    if evil.startswith("<script"):
        assert evil in parsed.text


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_shown_as_it_is(value: str) -> None:
    """An element with a text holds that text and no other element."""
    parsed = Parsed(el("p", value, title=value))

    assert [("p", {"title": parsed.text})] == parsed.elements
    assert isinstance(text(value), Markup)
    if value.isascii() and value.isprintable():
        assert value == parsed.text


def test_a_page_needs_nothing_from_outside() -> None:
    """No address, no script and no import in it; the policy forbids them besides."""
    page = page_of(eventful())

    assert Parsed(page).fetched == []
    assert "default-src 'none'" in page or "default-src &#x27;none&#x27;" in page
    assert not re.search(r"https?:|@import|url\((?!#)", page)


def test_every_picture_says_what_it_shows() -> None:
    """Pictures have title and description, bars have titles, tables captions and headings."""
    parsed = Parsed(page_of(eventful()))
    pictures = [found for name, found in parsed.elements if found.get("role") == "img"]
    ids = parsed.ids

    assert pictures
    assert len({*ids}) == len(ids)
    for found in pictures:
        assert {*found["aria-labelledby"].split()} <= {*ids}
    tables = sum(name == "table" for name, _ in parsed.elements)
    assert tables == sum(name == "caption" for name, _ in parsed.elements)
    assert all(found.get("scope") for name, found in parsed.elements if name == "th")
    assert ("html", {"lang": "en"}) in parsed.elements


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours (WCAG 2.2)."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("look", [LIGHT, DARK])
def test_contrast(look: dict[str, str]) -> None:
    """Texts have a contrast of 4.5 at least, bars one of 3 (WCAG 2.2, 1.4.3 and 1.4.11)."""
    for background in ("page", "card"):
        for name in ("ink", "soft", "link", "bad", "warn", "held", "good"):
            assert contrast(look[name], look[background]) >= 4.5, (name, background)
    for name in ("bad", "warn", "held", "note"):
        assert contrast(look[name], look["ground"]) >= 3, name
    assert contrast(look["soft"], look["ground"]) >= 4.5
    assert LIGHT.keys() == DARK.keys()
    assert {*re.findall(r"var\(--([a-z]+)\)", STYLE)} <= {*LIGHT, "own"}


def test_a_storm_draws_no_more_than_fits() -> None:
    """A link that flaps ten thousand times is a picture of some hundred bars."""
    day = Day()
    base = day.documents[0]
    start_s, documents = 1_800_000_000.0, []
    for seq in range(20_000):
        type_ = "link.down" if seq % 2 == 0 else "link.up"
        at = rfc3339(start_s + seq * 4)
        documents.append(
            {**base, "id": f"b-s-{seq + 1}", "type": type_, "subject": "eth0", "time": at}
            | {"data": {}, "monotime": 0}
        )
    page = page_of(documents)

    assert int(re.findall(r"same in words \((\d+)\)", page)[0]) == 10_000
    assert len(page) < 200_000


@given(st.floats(0, 4e9), st.floats(1, 1e9))
def test_the_axis(from_s: float, seconds: float) -> None:
    """Ticks are in order, inside, and not more than can be read; every moment is on the axis."""
    axis = Axis(Period(from_s, from_s + seconds), 190, 988)
    ticks = [at_s for at_s, _ in axis.ticks()]

    assert sorted(ticks) == ticks
    assert len(ticks) <= MOST_TICKS + 1
    assert all(from_s <= at_s <= from_s + seconds for at_s in ticks)
    assert (
        190 <= axis.x(from_s - 5) <= axis.x(from_s + seconds / 2) <= axis.x(from_s * 2 + 2e9) <= 988
    )


def test_a_node_without_trouble() -> None:
    """A quiet day is a page too, and says so."""
    day = Day()
    day.wait(1000)
    parsed = Parsed(page_of(day.documents))

    assert "None in this time." in parsed.text
    assert "0outages" in parsed.text
