"""Notices over time: told once for each status, kept through odd answers, gone when withdrawn."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.decide.notices.values import Known
from linkhold.model import Moment, Notice

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.decide.notices.values import Announced, Judged

BLIND_ANSWERS = 3
"""So many answers in a row that say nothing, and the endpoint counts as blind."""
MAX_NOTICES = 32
"""A service that announces more is not believed further: nothing is unbounded."""
STARTED = "started"
LATE_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Polled:
    """One judged answer of one endpoint; ``asked_ns`` and now are the request's both ends."""

    endpoint: str
    judged: Judged
    asked_ns: int


@dataclass(frozen=True, slots=True)
class Seen:
    """A notice that stands, and what the service said of it last."""

    notice: Notice
    announced: Announced


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered: notices by endpoint and key, and odd answers in a row by endpoint.

    ``inherited`` are notices by source that the agent before this one knew: they stand until their
    endpoint is heard, and then keep the moment at which they were seen first. ``heard`` are the
    endpoints that told something believable.
    """

    seen: Mapping[tuple[str, str], Seen] = field(default_factory=dict)
    odd: Mapping[str, int] = field(default_factory=dict)
    why: Mapping[str, str] = field(default_factory=dict)
    inherited: Mapping[str, Notice] = field(default_factory=dict)
    heard: frozenset[str] = frozenset()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Every notice that stands, the earliest deadline first."""
        standing = [*(seen.notice for seen in self.seen.values()), *self.inherited.values()]
        return by_urgency(standing)

    @property
    def blind(self) -> Mapping[str, str]:
        """Endpoints that have said nothing believable for a while, and why."""
        return {name: self.why[name] for name, odd in self.odd.items() if odd >= BLIND_ANSWERS}


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from one answer. ``fresh`` are notices that are new or have a new status."""

    memory: Memory
    fresh: tuple[Notice, ...] = ()
    withdrawn: tuple[Notice, ...] = ()


def step(memory: Memory, polled: Polled, now: Moment) -> Step:
    """Take one answer in. Pure: equal arguments give an equal outcome.

    An odd answer changes no notice. A believable one replaces all of its endpoint: what is missing
    was withdrawn or is over. ``now`` is when the answer came.
    """
    judged, endpoint = polled.judged, polled.endpoint
    if judged.known is not Known.YES:
        odd = memory.odd.get(endpoint, 0) + 1
        changed = replace(
            memory,
            odd={**memory.odd, endpoint: odd},
            why={**memory.why, endpoint: judged.why},
        )
        return Step(changed)
    seen = {key: one for key, one in memory.seen.items() if key[0] != endpoint}
    fresh: list[Notice] = []
    left = {k: one for k, one in memory.inherited.items() if not k.startswith(f"{endpoint} ")}
    for announced in judged.announced[:MAX_NOTICES]:
        key = (endpoint, announced.key)
        before = memory.seen.get(key)
        known = memory.inherited.get(_source(endpoint, announced)) if before is None else None
        seen[key] = _see(before, polled, announced, now)
        if known is not None and known.action == announced.action:
            seen[key] = _go_on(seen[key], known)
        elif before is None or _told_of(before.announced) != _told_of(announced):
            fresh.append(seen[key].notice)
    sources = {one.notice.source for one in seen.values()}
    withdrawn = [one.notice for key, one in memory.seen.items() if key not in seen]
    gone = [one for one in memory.inherited.values() if one.source not in sources]
    withdrawn += [one for one in gone if one.source not in left]
    odd_now = {name: count for name, count in memory.odd.items() if name != endpoint}
    after = Memory(seen, odd_now, memory.why, left, memory.heard | {endpoint})
    return Step(after, tuple(fresh), tuple(withdrawn))


def _go_on(seen: Seen, known: Notice) -> Seen:
    """Return a notice that the agent before this one knew: what began then began then.

    One that names no time counts from when it was seen first.
    """
    named = seen.announced.at_s is not None and not seen.announced.now
    deadline = seen.notice.deadline if named else known.deadline
    return replace(seen, notice=replace(seen.notice, seen=known.seen, deadline=deadline))


def by_urgency(notices: Iterable[Notice]) -> tuple[Notice, ...]:
    """Return notices, the earliest deadline first."""
    return tuple(sorted(notices, key=_urgency))


def _told_of(announced: Announced) -> tuple[str, str, str]:
    """Return what makes an announcement news when it changes."""
    return announced.kind, announced.action, announced.status


def _source(endpoint: str, announced: Announced) -> str:
    return f"{endpoint} {announced.key}"[:120]


def _see(before: Seen | None, polled: Polled, announced: Announced, now: Moment) -> Seen:
    """Return a notice; one that did not change keeps the deadline that was found first."""
    if before is not None and before.announced == announced:
        return before
    deadline = _deadline(polled, announced, now, before)
    seen = before.notice.seen if before is not None else now
    source = _source(polled.endpoint, announced)
    return Seen(Notice(announced.kind, announced.action, source, seen, deadline), announced)


def _deadline(
    polled: Polled, announced: Announced, now: Moment, before: Seen | None
) -> Moment | None:
    """Return when it happens, on our clocks: by the distance to the service's own Date header.

    The node's wall clock may be wrong by more than a notice is long. Without a Date header it is
    all there is. The Date was written after the request left and is cut to whole seconds; counted
    from the request, the deadline is right to a second. What was held back for longer (a long poll,
    the first call of Azure) was dated when it was sent.
    """
    if announced.kind == "rebalance":
        return None  # its time is when the risk rose, not when something ends
    if announced.now or announced.at_s is None:
        if before is not None and announced.status != STARTED:
            return before.notice.deadline
        left_s = announced.min_notice_s if announced.status != STARTED else 0.0
        return None if left_s is None else _after(now, left_s, now.mono_ns)
    if polled.judged.date_s is None:
        return _after(now, announced.at_s - now.wall_s, now.mono_ns)
    from_ns = max(polled.asked_ns, now.mono_ns - LATE_NS)
    return _after(now, announced.at_s - polled.judged.date_s, from_ns)


def _after(now: Moment, left_s: float, from_ns: int) -> Moment:
    mono_ns = from_ns + int(left_s * 1e9)
    return Moment(mono_ns, now.wall_s + (mono_ns - now.mono_ns) / 1e9)


def _urgency(notice: Notice) -> tuple[bool, int, str]:
    deadline = notice.deadline
    return (deadline is None, deadline.mono_ns if deadline else 0, notice.source)
