"""What the probes beyond this host say over time: who is asked when, and what is dead.

A machine like the others: :func:`step` takes what was heard and gives back what to ask now, which
causes stand and when to come again. One lost answer is no death: ``down_after`` in a row are; and
two good ones in a row end it. What could not be asked, or answered nonsense, changes no verdict for
the worse or the better: an aim that was never heard stays ``unknown``, one that has been unknown
for long becomes it again, and one that died stays dead until it answers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from linkhold.decide.dice import SIDES, rolled
from linkhold.model.probes import Cause, CauseKind, Heard

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from linkhold.model.probes import Answer

SECOND = 1_000_000_000
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


class Kind(str, Enum):
    """What an aim stands for."""

    GATEWAY = "gateway"
    PATH = "path"
    DNS = "dns"
    STORAGE = "storage"


class Verdict(str, Enum):
    """What is known of an aim."""

    ALIVE = "alive"
    DEAD = "dead"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Aim:
    """One thing to ask; ``name`` tells it from all others.

    ``how`` is ``gateway``, ``icmp``, ``tcp``, ``http`` or ``dns``; ``target`` is the address,
    host:port, URL or resolver; ``query`` what a resolver is asked for. ``strict``: only the thing
    itself will do, not that something refuses in its place.
    """

    name: str
    kind: Kind
    how: str
    target: str
    link: str = ""
    query: str = ""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """When to ask and when to believe. ``seed`` differs by node."""

    ok_s: float = 10.0
    trouble_s: float = 1.0
    timeout_s: float = 1.0
    down_after: int = 3
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Heed:
    """One answer to one aim."""

    name: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Line:
    """What is remembered of an aim. Times are CLOCK_MONOTONIC in ns, 0 for never.

    ``misses``, ``good`` and ``blind`` count in a row. ``since_ns`` is when the verdict began.
    """

    verdict: Verdict = Verdict.UNKNOWN
    reason: str = "not asked yet"
    since_ns: int = 0
    asked_ns: int = 0
    waiting: bool = False
    stretch: float = 1.0
    misses: int = 0
    good: int = 0
    blind: int = 0
    rtt_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """All aims by name, the dice, whether a default route was there and since when it is gone."""

    lines: Mapping[str, Line] = field(default_factory=dict)
    dice: int = 0
    had_route: bool = False
    route_lost_ns: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What follows: whom to ask now, every cause that stands, and when to come again."""

    memory: Memory
    ask: tuple[Aim, ...]
    causes: tuple[Cause, ...]
    due_ns: int | None


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
            lines[heed.name] = _hear(rules, by_name[heed.name], lines[heed.name], heed, now_ns)
    memory = _see_route(replace(memory, lines=lines), default_route, now_ns)
    memory = _give_up(rules, memory, now_ns)
    memory, ask = _ask(rules, memory, aims, now_ns)
    due = [_due_ns(rules, aim, memory) for aim in aims]
    return Step(memory, ask, tuple(_causes(memory, aims)), min(due, default=None))


def _see_route(memory: Memory, there: bool | None, now_ns: int) -> Memory:  # noqa: FBT001 -- a fact
    """Note when a default route that was there is gone; a host that never had one lost none."""
    if there:
        return replace(memory, had_route=True, route_lost_ns=0)
    if there is None or not memory.had_route or memory.route_lost_ns:
        return memory
    return replace(memory, route_lost_ns=now_ns)


def _hear(rules: Rules, aim: Aim, line: Line, heed: Heed, now_ns: int) -> Line:
    answer = heed.answer
    line = replace(line, waiting=False)
    if answer.heard is Heard.UNKNOWN:
        return _blind(rules, line, answer.detail or "the answer makes no sense", now_ns)
    if answer.heard in DOUBTFUL or (aim.strict and answer.heard is not Heard.ANSWERS):
        return _miss(rules, aim, line, answer.detail, now_ns)
    good = line.good + 1
    line = replace(line, misses=0, blind=0, good=good, rtt_ms=answer.rtt_ms)
    if line.verdict is Verdict.DEAD and good < REVIVED:
        return line
    refusal = answer.detail if answer.heard is Heard.REFUSED else ""
    return _judged(line, Verdict.ALIVE, refusal, now_ns)


def _miss(rules: Rules, aim: Aim, line: Line, detail: str, now_ns: int) -> Line:
    line = replace(line, misses=line.misses + 1, good=0, blind=0, rtt_ms=None)
    if line.misses < rules.down_after:
        return line
    return _judged(line, Verdict.DEAD, f"{aim.target}: {detail}" if detail else aim.target, now_ns)


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
    if line.waiting:
        return line.asked_ns + int((rules.timeout_s + LOST_S) * SECOND)
    if not line.asked_ns:
        return line.since_ns
    return line.asked_ns + int(_interval_s(rules, aim, memory) * line.stretch * SECOND)


def _interval_s(rules: Rules, aim: Aim, memory: Memory) -> float:
    line = memory.lines[aim.name]
    reviving = line.verdict is Verdict.DEAD and line.good > 0
    if 0 < line.misses < rules.down_after or reviving:
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


def _causes(memory: Memory, aims: tuple[Aim, ...]) -> Iterator[Cause]:
    """Yield every cause that stands, those that explain others first."""
    if memory.route_lost_ns:
        text = "the default route is gone"
        yield Cause(CauseKind.DEFAULT_ROUTE_LOST, "default route", text, memory.route_lost_ns)
    for kind in Kind:
        group = [aim for aim in aims if aim.kind is kind]
        dead = [aim for aim in group if memory.lines[aim.name].verdict is Verdict.DEAD]
        others = any(memory.lines[aim.name].verdict is Verdict.ALIVE for aim in group)
        for aim in dead:
            line = memory.lines[aim.name]
            because = "" if kind is Kind.GATEWAY else _root(memory, aims, aim)
            text = _TEXTS[kind].format(aim.name, line.reason)
            partial = others and kind in _SHARED
            first_hop = kind is Kind.GATEWAY
            yield Cause(_CAUSES[kind], aim.name, text, line.since_ns, because, partial, first_hop)


def _root(memory: Memory, aims: tuple[Aim, ...], aim: Aim) -> str:
    """Return what explains that ``aim`` is dead: its gateways are, or the default route is lost.

    One gateway that is alive leaves a way; a gateway nobody knows of explains nothing.
    """
    if memory.route_lost_ns and not aim.link:
        return "default route"
    ways = [
        one for one in aims if one.kind is Kind.GATEWAY and (not aim.link or one.link == aim.link)
    ]
    dead = [way.name for way in ways if memory.lines[way.name].verdict is Verdict.DEAD]
    return dead[0] if ways and len(dead) == len(ways) else ""


_CAUSES = {
    Kind.GATEWAY: CauseKind.PATH_DEAD,
    Kind.PATH: CauseKind.PATH_DEAD,
    Kind.DNS: CauseKind.DNS_DEAD,
    Kind.STORAGE: CauseKind.STORAGE_DEAD,
}
_TEXTS = {
    Kind.GATEWAY: "{} does not answer ({})",
    Kind.PATH: "the path to {} is dead ({})",
    Kind.DNS: "{} does not resolve ({})",
    Kind.STORAGE: "storage {} cannot be reached ({})",
}
_SHARED = frozenset({Kind.GATEWAY, Kind.DNS})
"""One of these can stand in for another."""
