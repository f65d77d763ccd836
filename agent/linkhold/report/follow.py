"""Events of one node -> spans and marks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.fleet_view.words import printable
from linkhold.report.rules import AWAY, BEGINS, ENDS, HELD, LEG_B, MARKS, SENSOR, End
from linkhold.report.spans import Condition, Kind, Level, Mark, Period, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.fleet_view.picture import Key
    from linkhold.report.records import History, Record

Slot = tuple[Kind, str, str]
MOST_MARKS = 200
"""Of one node; a storm has no end, and a page has."""
NETWORK_WORDS = {
    "down": BEGINS["network.down"],
    "degraded": BEGINS["network.degraded"],
    "unknown": BEGINS["network.unknown"],
}


def follow(history: History, period: Period) -> tuple[list[Span], list[Mark]]:
    """Return everything that was not well with a node in a period, in order of beginning."""
    follower = Follower(history.key, period)
    for record in history.records:
        if record.at_s <= period.until_s:
            follower.take(record)
    return follower.finish()


class Follower:
    """Follows one node from event to event."""

    def __init__(self, key: Key, period: Period) -> None:
        self._key = key
        self._period = period
        self._open: dict[Slot, Span] = {}
        self._seen: set[Slot] = set()
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._boot = ""
        self._last_s = float("-inf")

    def take(self, record: Record) -> None:
        """Take the next event in."""
        if record.type == "agent.started":
            self._started(record)
        elif record.type == "advice.changed":
            self._advice(record)
        elif record.type in {"agent.leg_b", "agent.sensor"}:
            self._health(record)
        elif record.type == "notice.withdrawn":
            self._end((Kind.NOTICE, record.subject, str(record.data.get("kind"))), record.at_s)
        elif record.type in BEGINS:
            self._condition(record, BEGINS[record.type])
        elif record.type in ENDS:
            self._ended(record, ENDS[record.type])
        if record.type in MARKS:
            kind, text = MARKS[record.type]
            self._marks.append(Mark(self._key, kind, record.subject, record.at_s, text))
        self._boot, self._last_s = record.boot, record.at_s

    def finish(self) -> tuple[list[Span], list[Mark]]:
        """Return what was found, cut to the period; what is open lasts to its end."""
        until_s = self._period.until_s
        for span in self._open.values():
            self._spans.append(replace(span, end_s=until_s, lasting=True))
        cut = [_cut(span, self._period) for span in self._spans if span.end_s > span.start_s]
        spans = [span for span in cut if span is not None]
        from_s = self._period.from_s
        marks = [mark for mark in self._marks if from_s <= mark.at_s <= until_s][-MOST_MARKS:]
        return sorted(spans, key=lambda span: (span.start_s, span.kind.value, span.subject)), marks

    def _begin(self, record: Record, condition: Condition, cause: str, start_s: float) -> None:
        slot = (condition.kind, record.subject, condition.track)
        self._end(slot, start_s)
        self._open[slot] = Span(
            self._key,
            condition.kind,
            record.subject,
            condition.word,
            condition.level,
            start_s,
            start_s,
            cause,
            condition.track,
        )

    def _end(self, slot: Slot, at_s: float) -> bool:
        self._seen.add(slot)
        span = self._open.pop(slot, None)
        if span is not None:
            self._spans.append(replace(span, end_s=max(span.start_s, at_s)))
        return span is not None

    def _condition(self, record: Record, condition: Condition) -> None:
        slot = (condition.kind, record.subject, condition.track)
        if record.data.get("initial") and condition.kind is Kind.LINK:
            self._seen.add(slot)  # a port that never carried is no fault
            return
        if slot not in self._seen and condition.kind is Kind.NETWORK:
            self._unseen_network(record)
        if condition.kind is Kind.NIC and record.severity == "critical":
            condition = replace(condition, level=Level.BAD)
        self._begin(record, condition, cause_of(record), record.at_s)

    def _ended(self, record: Record, end: End) -> None:
        slot = (end.kind, record.subject, end.track)
        known = slot in self._seen
        if self._end(slot, record.at_s) or known or record.data.get("initial"):
            return
        if end.kind is Kind.NETWORK:
            self._unseen_network(record)
        elif end.unseen is not None:
            self._unseen(record, end.unseen, record.data.get(end.field))

    def _unseen_network(self, record: Record) -> None:
        """Add what the network was before the first event that is known of it."""
        condition = NETWORK_WORDS.get(str(record.data.get("previous")))
        if condition is not None:
            self._unseen(record, condition, record.data.get("previous_s"))

    def _unseen(self, record: Record, condition: Condition, seconds: Any) -> None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or seconds <= 0:
            return
        self._begin(record, condition, "", record.at_s - min(float(seconds), 1e9))
        self._end((condition.kind, record.subject, condition.track), record.at_s)

    def _advice(self, record: Record) -> None:
        data = record.data
        wanted = {
            "uploads hold": data.get("uploads") == "hold",
            "uploads newest": data.get("uploads") == "newest",
            "training hold": data.get("training") == "hold",
            "training asked": bool(data.get("holds")),
            "training checkpoint": isinstance(data.get("checkpoint"), dict),
            "training stop": isinstance(data.get("stop"), dict),
        }
        for name, active in wanted.items():
            condition = HELD[name]
            about = replace(record, subject=name.partition(" ")[0])
            slot = (condition.kind, about.subject, condition.track)
            before = self._open.get(slot)
            same = before is not None and before.word == condition.word
            if active and not same:
                self._begin(about, condition, cause_of(record), record.at_s)
            elif same and not active:
                self._end(slot, record.at_s)

    def _health(self, record: Record) -> None:
        condition = LEG_B if record.type == "agent.leg_b" else SENSOR
        status = str(record.data.get("status"))
        bad = status in {"down", "blind"}
        slot = (condition.kind, record.subject, condition.track)
        if bad and slot not in self._open:
            self._begin(record, condition, printable(record.data.get("reason") or ""), record.at_s)
        elif not bad and status != "connecting":
            self._end(slot, record.at_s)

    def _started(self, record: Record) -> None:
        """Take in a start: what was open in another boot ended with it at the latest."""
        absent = record.data.get("absent_s")
        away_s = float(absent) if isinstance(absent, (int, float)) else 0.0
        gone_s = max(self._last_s, record.at_s - min(max(0.0, away_s), 1e9))
        if self._boot and record.boot != self._boot:
            for slot in list(self._open):
                if slot[0] is not Kind.AGENT:
                    self._end(slot, gone_s)
        self._end((Kind.AGENT, record.subject, LEG_B.track), gone_s)
        stopped = self._end((Kind.AGENT, record.subject, ""), record.at_s)
        if away_s > 0 and not stopped:
            rebooted = bool(self._boot) and record.boot != self._boot
            why = "the machine started again" if rebooted else "the agent ended without a word"
            self._begin(record, AWAY, why, gone_s)
            self._end((Kind.AGENT, record.subject, ""), record.at_s)


def cause_of(record: Record) -> str:
    """Return what an event says of why it happened, empty when it says nothing."""
    data: Mapping[str, Any] = record.data
    told = data.get("cause")
    if isinstance(told, (list, tuple)):
        return printable("; ".join(map(str, told)))
    if record.type.startswith("notice."):
        return printable(f"{data.get('action')} ({data.get('source')})")
    for name in ("cause", "why", "reason", "text", "because", "source"):
        if isinstance(data.get(name), str) and data[name]:
            told = record.type in {"hold.started", "maintenance.started"} and data.get("by")
            by = f" (by {data['by']})" if told else ""
            return printable(f"{data[name]}{by}")
    lost: Iterable[Any] = data.get("lost") or ()
    return printable(f"lost: {', '.join(map(str, lost))}") if lost else ""


def _cut(span: Span, period: Period) -> Span | None:
    if span.end_s <= period.from_s or span.start_s >= period.until_s:
        return None
    if span.start_s < period.from_s:
        span = replace(span, start_s=period.from_s, earlier=True)
    return span if span.end_s <= period.until_s else replace(span, end_s=period.until_s)
