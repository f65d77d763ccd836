"""What the probes beyond this host say over time: who is asked when, and what is dead.

A machine like the others: :func:`step` takes what was heard and gives back what to ask now, which
causes stand and when to come again. One lost answer is no death: ``down_after`` in a row are; and
two good ones in a row end it. What could not be asked, or answered nonsense, changes no verdict for
the worse or the better: an aim that was never heard stays ``unknown``, one that has been unknown
for long becomes it again, and one that died stays dead until it answers. A gateway or resolver of
the host's own configuration that never answered since the start is ``mute``: a fault, or something
that was never meant to answer; nobody knows which.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.dice import SIDES, rolled
from linkhold.decide.reach_causes import causes, probed
from linkhold.decide.reach_values import (
    SECOND,
    Aim,
    Heed,
    Kind,
    Line,
    Memory,
    Rules,
    Step,
    Verdict,
)
from linkhold.model.probes import CauseKind, Heard, without_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.model.probes import Cause, Probed

__all__ = [
    "SECOND",
    "Aim",
    "Heed",
    "Kind",
    "Line",
    "Memory",
    "Rules",
    "Step",
    "Verdict",
    "interrupted",
    "recall",
    "step",
]

REVIVED = 2
"""A dead aim lives again after so many good answers in a row."""
WIDTH = 0.1
"""Probes come up to this share early, by chance, so that a fleet does not ask in step."""
LOST_S = 15.0
"""An answer that is not there by then beyond the deadline never comes: the probe was lost."""
HASTE_S = 300.0
"""Trouble older than this no longer makes the gateways be asked fast: a thousand nodes behind one
dead gateway would keep it from coming back, and behind one dead storage they would load it."""
DOUBTFUL = (Heard.SILENT, Heard.UNREACHABLE)
MOST_HEARD = 128
"""So many names are remembered of those that have answered; more are not asked at once."""
NEVER_NS = 1 << 62
"""When a way out is asked that nobody can be asked about."""


def step(
    rules: Rules,
    memory: Memory,
    aims: tuple[Aim, ...],
    heard: Iterable[Heed],
    now_ns: int,
    *,
    default_route: bool | None,
) -> Step:
    """Take in what was heard, and decide. Pure: equal arguments give an equal outcome.

    ``aims`` are all things to ask as the host is now. ``default_route`` tells whether there is one;
    None where the host was not looked at.
    """
    by_name = {aim.name: aim for aim in aims}
    lines = {aim.name: memory.lines.get(aim.name, Line(since_ns=now_ns)) for aim in aims}
    for heed in heard:
        # An answer that nobody waits for is late, and of a probe that counts as lost already.
        if heed.name in by_name and lines[heed.name].waiting:
            lines[heed.name] = _hear(
                rules, by_name[heed.name], lines[heed.name], heed, now_ns, memory.heard
            )
    memory = replace(memory, lines=lines, heard=_remember(memory, aims, lines))
    memory = _see_route(memory, default_route, now_ns)
    memory = _give_up(rules, memory, now_ns)
    memory, ask = _ask(rules, memory, aims, now_ns)
    due = [_due_ns(rules, aim, memory) for aim in aims]
    return Step(memory, ask, tuple(causes(memory, aims)), _soonest(due), probed(memory, aims))


def recall(known: Iterable[Probed], causes_: Iterable[Cause]) -> Memory:
    """Return the memory that an agent of the same boot left, as its state document tells it.

    What was dead stays so until it answers: a restart must not end a hold.
    """
    told = tuple(known)
    lost_ns = next((one.since_ns for one in causes_ if one.kind is CauseKind.DEFAULT_ROUTE_LOST), 0)
    return Memory(
        lines={
            one.name: Line(Verdict(one.verdict), one.reason, one.since_ns)
            for one in told
            if one.verdict in _VERDICTS
        },
        had_route=lost_ns > 0,
        route_lost_ns=lost_ns,
        heard=tuple(one.name for one in told if one.heard)[-MOST_HEARD:],
    )


def interrupted(memory: Memory) -> Memory:
    """Return the memory where every probe under way was ended: no answer will come."""
    lines = {name: replace(line, waiting=False) for name, line in memory.lines.items()}
    return replace(memory, lines=lines)


_VERDICTS = frozenset(verdict.value for verdict in Verdict)


def _remember(memory: Memory, aims: tuple[Aim, ...], lines: Mapping[str, Line]) -> tuple[str, ...]:
    """Return who has answered so far."""
    news = [aim.name for aim in aims if lines[aim.name].good and aim.name not in memory.heard]
    return (*memory.heard, *news)[-MOST_HEARD:] if news else memory.heard


def _see_route(memory: Memory, there: bool | None, now_ns: int) -> Memory:  # noqa: FBT001 -- a fact
    """Note when a default route that was there is gone; a host that never had one lost none."""
    if there:
        return replace(memory, had_route=True, route_lost_ns=0)
    if there is None or not memory.had_route or memory.route_lost_ns:
        return memory
    return replace(memory, route_lost_ns=now_ns)


def _hear(
    rules: Rules, aim: Aim, line: Line, heed: Heed, now_ns: int, known: tuple[str, ...]
) -> Line:
    answer = heed.answer
    line = replace(line, waiting=False)
    if answer.heard is Heard.UNKNOWN:
        return _blind(rules, line, answer.detail or "the answer makes no sense", now_ns)
    if answer.heard in DOUBTFUL or (aim.strict and answer.heard is not Heard.ANSWERS):
        unheard = aim.given and aim.name not in known
        lost = Verdict.MUTE if unheard else Verdict.DEAD
        return _miss(rules, line, lost, f"{without_query(aim.target)}: {answer.detail}", now_ns)
    good = line.good + 1
    line = replace(line, misses=0, blind=0, good=good, rtt_ms=answer.rtt_ms)
    if line.verdict is Verdict.DEAD and good < REVIVED:
        return line
    refusal = answer.detail if answer.heard is Heard.REFUSED else ""
    return _judged(line, Verdict.ALIVE, refusal, now_ns)


def _miss(rules: Rules, line: Line, lost: Verdict, reason: str, now_ns: int) -> Line:
    line = replace(line, misses=line.misses + 1, good=0, blind=0, rtt_ms=None)
    return line if line.misses < rules.down_after else _judged(line, lost, reason, now_ns)


def _blind(rules: Rules, line: Line, reason: str, now_ns: int) -> Line:
    line = replace(line, blind=line.blind + 1, good=0)
    if line.verdict is Verdict.DEAD:
        return line
    if line.verdict is Verdict.ALIVE and line.blind < rules.down_after:
        return line
    return _judged(replace(line, misses=0, rtt_ms=None), Verdict.UNKNOWN, reason, now_ns)


def _judged(line: Line, verdict: Verdict, reason: str, now_ns: int) -> Line:
    if verdict is line.verdict:
        return replace(line, reason=reason)
    return replace(line, verdict=verdict, reason=reason, since_ns=now_ns)


def _give_up(rules: Rules, memory: Memory, now_ns: int) -> Memory:
    """Take a probe whose answer never came as one that could not run: unknown."""
    patience_ns = int((rules.timeout_s + LOST_S) * SECOND)
    lines = {
        name: _blind(rules, replace(line, waiting=False), "a probe was lost", now_ns)
        if line.waiting and now_ns - line.asked_ns >= patience_ns
        else line
        for name, line in memory.lines.items()
    }
    return replace(memory, lines=lines)


def _ask(
    rules: Rules, memory: Memory, aims: tuple[Aim, ...], now_ns: int
) -> tuple[Memory, tuple[Aim, ...]]:
    """Ask whoever is due. What is due within the width of the dice is asked as well.

    To wake once costs half of waking twice.
    """
    due = {aim.name: _due_ns(rules, aim, memory) for aim in aims}
    if min(due.values(), default=now_ns + 1) > now_ns:
        return memory, ()
    soon_ns = now_ns + int(rules.trouble_s * WIDTH * SECOND)
    asked = tuple(
        aim for aim in aims if due[aim.name] <= soon_ns and not memory.lines[aim.name].waiting
    )
    lines, dice = dict(memory.lines), memory.dice
    for aim in asked:
        dice = rolled(dice, rules.seed)
        stretch = 1.0 - WIDTH * dice / SIDES
        line = replace(lines[aim.name], asked_ns=now_ns, waiting=True, stretch=stretch)
        lines[aim.name] = line
    return replace(memory, lines=lines, dice=dice), asked


def _due_ns(rules: Rules, aim: Aim, memory: Memory) -> int:
    """Return when an aim is asked again; while an answer is awaited, when it counts as lost."""
    line = memory.lines[aim.name]
    if not aim.how:
        return NEVER_NS
    if line.waiting:
        return line.asked_ns + int((rules.timeout_s + LOST_S) * SECOND)
    if not line.asked_ns:
        return line.since_ns
    return line.asked_ns + int(_interval_s(rules, aim, memory) * line.stretch * SECOND)


def _interval_s(rules: Rules, aim: Aim, memory: Memory) -> float:
    line = memory.lines[aim.name]
    reviving = line.verdict is Verdict.DEAD and line.good > 0
    blinded = line.verdict is Verdict.ALIVE and line.blind > 0
    if 0 < line.misses < rules.down_after or reviving or blinded:
        return rules.trouble_s  # a doubt is settled soon, whatever the aim
    hasty = aim.kind is Kind.GATEWAY and _troubled(rules, memory, line.asked_ns)
    return rules.trouble_s if hasty else rules.ok_s


def _troubled(rules: Rules, memory: Memory, at_ns: int) -> bool:
    """Tell whether something went wrong lately, or may be going wrong."""
    lines = memory.lines.values()
    if any(0 < line.misses < rules.down_after for line in lines):
        return True
    began = [line.since_ns for line in lines if line.verdict is Verdict.DEAD]
    if memory.route_lost_ns:
        began.append(memory.route_lost_ns)
    return any(at_ns - since_ns < HASTE_S * SECOND for since_ns in began)


def _soonest(due: Iterable[int]) -> int | None:
    first = min(due, default=NEVER_NS)
    return None if first == NEVER_NS else first
