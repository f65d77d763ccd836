"""The story of one node in a period, and those of a fleet: what a page is made of."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.report.costs import Cost, Outage, covered_s, outages, total
from linkhold.report.follow import follow
from linkhold.report.spans import Kind, Level, Mark, Period, Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkhold.fleet_view.picture import Key, NodeView
    from linkhold.report.records import History

KINDS = tuple(Kind)
FLAPPING = "flapping"
"""The track of what is told of losses that are counted by themselves."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One row of a timeline: all that was the matter with one subject."""

    kind: Kind
    subject: str
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """One node. ``down_s`` is without network, ``battery_s`` on battery; ``now`` is its present.

    ``first_s`` is when what is known of it begins, None when nothing is known.
    """

    key: Key
    lanes: tuple[Lane, ...]
    outages: tuple[Outage, ...]
    held: Cost
    unexplained: Cost
    down_s: float
    degraded_s: float
    battery_s: float
    first_s: float | None
    events: int
    stepped: int
    now: NodeView | None = None

    @property
    def spans(self) -> list[Span]:
        """Everything that was the matter, in no order."""
        return [span for lane in self.lanes for span in lane.spans]

    @property
    def quiet(self) -> bool:
        """Whether nothing worse than a note is told of it."""
        return not self.outages and all(span.level <= Level.UNSURE for span in self.spans)

    @property
    def badness(self) -> tuple[float, ...]:
        """Sort key: the worst node has the largest."""
        lost_s = self.down_s + self.battery_s
        return (self.held.weight + 3 * lost_s, float(len(self.outages)), self.degraded_s)


def tell(
    histories: Mapping[Key, History], present: Mapping[Key, NodeView], period: Period
) -> list[Story]:
    """Return the story of each node, the worst first."""
    keys = sorted({*histories, *present})
    stories = [_story(key, histories.get(key), present.get(key), period) for key in keys]
    return sorted(stories, key=lambda story: (tuple(-x for x in story.badness), story.key))


def _story(key: Key, history: History | None, now: NodeView | None, period: Period) -> Story:
    spans, marks = follow(history, period) if history is not None else ([], [])
    spans += _of_present(key, spans, history, now, period)
    found, unexplained = outages(spans)
    network = [span for span in spans if span.kind is Kind.NETWORK]
    power = [span for span in spans if span.kind is Kind.POWER and span.level is Level.BAD]
    records = history.records if history is not None else ()
    return Story(
        key=key,
        lanes=_lanes(spans, marks),
        outages=tuple(found),
        held=total((*(one.cost for one in found), unexplained)),
        unexplained=unexplained,
        down_s=covered_s(span for span in network if span.level is Level.BAD),
        degraded_s=covered_s(span for span in network if span.level is Level.WARN),
        battery_s=covered_s(power),
        first_s=records[0].at_s if records else None,
        events=len(records),
        stepped=history.stepped if history is not None else 0,
        now=now,
    )


def _of_present(
    key: Key,
    spans: Sequence[Span],
    history: History | None,
    now: NodeView | None,
    period: Period,
) -> list[Span]:
    """Return what the present state tells where no event does: what began before all of them."""
    present = now.present if now is not None else None
    if present is None or present.network not in {"down", "degraded"}:
        return []
    records = history.records if history is not None else ()
    told = any(record.type.startswith("network.") for record in records)
    if told or any(span.kind is Kind.NETWORK for span in spans):
        return []
    start_s = max(present.since_s, period.from_s)
    if start_s >= period.until_s:
        return []
    level = Level.BAD if present.network == "down" else Level.WARN
    return [
        Span(
            key,
            Kind.NETWORK,
            "network",
            present.network,
            level,
            start_s,
            period.until_s,
            "; ".join(present.causes),
            lasting=True,
            earlier=present.since_s < period.from_s,
        )
    ]


def _lanes(spans: Iterable[Span], marks: Iterable[Mark]) -> tuple[Lane, ...]:
    by_lane: dict[tuple[int, str], tuple[list[Span], list[Mark]]] = defaultdict(lambda: ([], []))
    for span in spans:
        by_lane[KINDS.index(span.kind), span.subject][0].append(span)
    for mark in marks:
        by_lane[KINDS.index(mark.kind), mark.subject][1].append(mark)
    return tuple(
        Lane(KINDS[kind], subject, tuple(found), tuple(moments))
        for (kind, subject), (found, moments) in sorted(by_lane.items())
    )


@dataclass(frozen=True, slots=True)
class Offender:
    """What comes back again and again: how often, for how long in sum, and what it cost."""

    name: str
    times: int
    seconds: float
    cost: Cost


def worst_causes(stories: Iterable[Story], most: int) -> list[Offender]:
    """Return the causes of outages, the dearest first."""
    return _ranked(
        ((one.span.cause or one.span.word, one) for story in stories for one in story.outages),
        most,
    )


def worst_parts(stories: Iterable[Story], most: int, named: Callable[[Key], str]) -> list[Offender]:
    """Return links, bonds, uplinks and paths by how often they failed.

    ``named`` gives the name of a node, empty where there is but one.
    """
    kinds = {Kind.LINK, Kind.BOND, Kind.UPLINK, Kind.PATH, Kind.NIC}
    found = (
        (_part(named(story.key), span), Outage(span))
        for story in stories
        for span in story.spans
        if span.kind in kinds and span.level >= Level.WARN and span.track != FLAPPING
    )
    ranked = _ranked(found, None)
    return sorted(ranked, key=lambda one: (-one.times, -one.seconds, one.name))[:most]


def _part(node: str, span: Span) -> str:
    part = f"{span.kind.value} {span.subject}"
    return f"{node}: {part}" if node else part


def _ranked(found: Iterable[tuple[str, Outage]], most: int | None) -> list[Offender]:
    times: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    costs: dict[str, Cost] = {}
    for name, one in found:
        times[name] += 1
        seconds[name] += one.span.seconds  # type: ignore[assignment]
        costs[name] = costs.get(name, Cost()) + one.cost
    ranked = [Offender(name, times[name], seconds[name], costs[name]) for name in times]
    ranked.sort(key=lambda one: (-one.cost.weight, -one.seconds, -one.times, one.name))
    return ranked[:most]
