"""What each outage cost: the time for which uploads or training were held because of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from linkhold.report.spans import Kind, Level

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from linkhold.report.spans import Span

AFTER_S = 15.0
"""A hold that begins so long after the end of something may still be because of it: the policy
settles for 2 s before it holds, and resumes after 10 s (``settle_s``, ``resume_s``)."""
SLACK_S = 1.0
CAUSES = frozenset(
    {Kind.NETWORK, Kind.POWER, Kind.PATH, Kind.NOTICE, Kind.OPERATOR, Kind.UPLINK, Kind.AGENT}
)
"""What may hold training or uploads. Links and bonds do it by the network that they carry."""
OUTAGES = frozenset({Kind.NETWORK, Kind.POWER, Kind.PATH, Kind.NOTICE, Kind.AGENT, Kind.BOND})
ASKED = "asked"


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds held. ``asked_s``: training of jobs that asked to be held, and of no others."""

    uploads_s: float = 0.0
    training_s: float = 0.0
    asked_s: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.uploads_s + other.uploads_s,
            self.training_s + other.training_s,
            self.asked_s + other.asked_s,
        )

    @property
    def weight(self) -> float:
        """What outages are ranked by: held training counts before held uploads."""
        return 10 * self.training_s + 2 * self.asked_s + self.uploads_s


@dataclass(frozen=True, slots=True)
class Outage:
    """Something that was not well, and what it cost."""

    span: Span
    cost: Cost = Cost()


def outages(spans: Sequence[Span]) -> tuple[list[Outage], Cost]:
    """Return the outages of one node in order, and the held time that none of them explains.

    An outage is what is bad for the node, and whatever else held something. No second of a hold
    is counted twice.
    """
    causes = [span for span in spans if span.kind in CAUSES and span.level > Level.UNSURE]
    costs: dict[int, Cost] = {}
    unexplained = Cost()
    for hold in spans:
        if hold.kind not in {Kind.UPLOADS, Kind.TRAINING}:
            continue
        for cause, seconds in _shared(hold, causes):
            cost = _cost(hold, seconds)
            if cause is None:
                unexplained += cost
            else:
                costs[id(cause)] = costs.get(id(cause), Cost()) + cost
    found = [
        Outage(span, costs.get(id(span), Cost()))
        for span in spans
        if costs.get(id(span), Cost()).weight or (span.level is Level.BAD and span.kind in OUTAGES)
    ]
    return _without_echoes(found), unexplained


def _cost(hold: Span, seconds: float) -> Cost:
    if hold.track == ASKED:
        return Cost(asked_s=seconds)
    if hold.level is not Level.HELD:
        return Cost()
    if hold.kind is Kind.UPLOADS:
        return Cost(uploads_s=seconds)
    return Cost(training_s=seconds)


def _shared(hold: Span, causes: Sequence[Span]) -> Iterator[tuple[Span | None, float]]:
    """Yield the parts of a hold, each with the cause that began last before it."""
    near = [
        cause
        for cause in causes
        if cause.start_s < hold.end_s and cause.end_s + AFTER_S >= hold.start_s
    ]
    begins = {cause.start_s for cause in near if hold.start_s < cause.start_s < hold.end_s}
    edges = [hold.start_s, *sorted(begins), hold.end_s]
    for first_s, last_s in pairwise(edges):
        begun = [cause for cause in near if cause.start_s <= first_s + SLACK_S]
        yield max(begun, key=lambda one: _claim(one, first_s), default=None), last_s - first_s


def _claim(cause: Span, at_s: float) -> tuple[bool, bool, float]:
    """Sort key of causes: what lasts now, then what is bad, then what began last."""
    return (cause.end_s >= at_s, cause.level is not Level.WARN, cause.start_s)


def _without_echoes(found: list[Outage]) -> list[Outage]:
    """Drop bonds that were down while the network was: one fault, and the network names it."""
    down = [one.span for one in found if one.span.kind is Kind.NETWORK]
    return [
        one
        for one in found
        if one.span.kind is not Kind.BOND or not any(_overlap(one.span, span) for span in down)
    ]


def _overlap(one: Span, other: Span) -> bool:
    return one.start_s < other.end_s and other.start_s < one.end_s


def total(costs: Iterable[Cost]) -> Cost:
    """Return the sum."""
    result = Cost()
    for cost in costs:
        result += cost
    return result


def covered_s(spans: Iterable[Span]) -> float:
    """Return for how many seconds at least one of the spans lasted."""
    seconds, reached = 0.0, float("-inf")
    for span in sorted(spans, key=lambda span: span.start_s):
        begins = max(span.start_s, reached)
        if span.end_s > begins:
            seconds += span.end_s - begins
            reached = span.end_s
    return seconds
