"""One step: take a reading in, ask, choose, tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.readings import UplinksReading
from linkhold.decide.uplinks import choice, lines
from linkhold.decide.uplinks.desk import SECOND, Desk
from linkhold.decide.uplinks.values import Answer, Placed, Sights, Step, Unsent
from linkhold.model import Severity, Uplinks, UplinkView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.uplinks.values import LineRules, Memory, Reading, Rules

QUIET_NS = SECOND
"""A death and the switch that follows it are told together, if that takes no longer."""


def step(rules: Rules, memory: Memory, reading: Reading, now_ns: int) -> Step:
    """Take one reading in and decide. Pure: equal arguments give an equal outcome."""
    desk = Desk(rules, memory, now_ns)
    before = desk.carrying
    if isinstance(reading, Sights):
        lines.see(desk, reading)
        _note_change(desk, before)
    elif isinstance(reading, Answer):
        lines.hear(desk, reading)
    elif isinstance(reading, Unsent):
        lines.unsent(desk, reading)
    elif isinstance(reading, Placed):
        choice.placed(desk, reading)
    lines.ask(desk)
    choice.choose(desk)
    report = _report(desk)
    return Step(desk.memory, tuple(desk.actions), report, _wake_ns(desk))


def _note_change(desk: Desk, before: str) -> None:
    """Tell that somebody else changed where default traffic goes."""
    after = desk.carrying
    if before and after != before and desk.memory.moving is None:
        data = {"previous": before, "active": after, "took_ms": None, "silence_s": None}
        reason = "the host's routes changed"
        desk.say("uplink.switched", after or before, Severity.WARNING, **data, reason=reason)


def _report(desk: Desk) -> UplinksReading | None:
    """Return what the core should know, None when that is nothing new."""
    memory = desk.memory
    if memory.moving is not None and desk.now_ns < memory.moving.began_ns + QUIET_NS:
        return None
    told = memory.told.uplinks if memory.told is not None else None
    uplinks = _view(desk)
    if not memory.news and told is not None and _essence(told) == _essence(uplinks):
        return None
    report = UplinksReading(uplinks, memory.news)
    desk.put(news=(), told=UplinksReading(uplinks))
    return report


def _view(desk: Desk) -> Uplinks:
    memory, rules = desk.memory, desk.rules
    problem = ""
    if not desk.carrying:
        problem = "there is no default route"
    elif desk.carrying not in rules.order:
        problem = f"default traffic goes over {desk.carrying}, which is none of the uplinks"
    views = tuple(_view_line(desk, rule) for rule in rules.lines)
    return Uplinks(views, memory.would, memory.locked, problem)


def _view_line(desk: Desk, rule: LineRules) -> UplinkView:
    line = desk.line(rule.link)
    return UplinkView(
        link=rule.link,
        verdict=line.verdict or "unknown",
        reason=line.reason,
        active=rule.link == desk.carrying,
        metered=rule.metered,
        since_ns=line.since_ns,
        rtt_ms=round(line.rtt_ns / 1e6, 2) if line.rtt_ns else None,
    )


def _essence(uplinks: Uplinks) -> Uplinks:
    """Return it without what changes all the time."""
    return replace(uplinks, lines=tuple(replace(line, rtt_ms=None) for line in uplinks.lines))


def _wake_ns(desk: Desk) -> int | None:
    """Return when time alone will change something."""
    return min((max(time, desk.now_ns + 1) for time in _times(desk)), default=None)


def _times(desk: Desk) -> Iterator[int]:
    memory, order = desk.memory, desk.rules.order
    yield from (
        lines.due_ns(desk, rule)
        for rule in desk.rules.lines
        if not desk.line(rule.link).sight.obstacle
    )
    if memory.moving is not None:
        yield memory.moving.began_ns + QUIET_NS
        return
    if desk.carrying in order:
        better = order[: order.index(desk.carrying)]
        yield from (t for t in (choice.back_ns(desk, b) for b in better) if t > desk.now_ns)
    if memory.retry_ns > desk.now_ns:
        yield memory.retry_ns
    if memory.moves and len(memory.moves) >= desk.rules.switches_per_hour - 1:
        yield memory.moves[0] + choice.HOUR_NS
