"""A plan's lines for people: of hundreds of a kind the first few, and how many more. Pure."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SHOWN, LONGEST = 3, 8
"""Of a kind, up to eight lines in a row are shown; of more, the first three."""
MANY = {
    "route": "routes",
    "address": "addresses",
    "neighbour": "neighbours",
    "rule": "rules",
    "nexthop": "nexthops",
}


def lines(texts: Iterable[str]) -> Iterator[str]:
    """Yield the lines, with a long run about objects of one kind cut short."""
    for kind, run in itertools.groupby(texts, key=_kind):
        found = list(run)
        if kind not in MANY or len(found) <= LONGEST:
            yield from found
            continue
        yield from found[:SHOWN]
        yield f"and {len(found) - SHOWN:,} more such lines about {MANY[kind]} (--json has all)"


def _kind(text: str) -> str:
    """Return what a line puts or drops: ``no route 10.0.0.0/8 on eth0`` is about a route."""
    return text.removeprefix("no ").partition(" ")[0]
