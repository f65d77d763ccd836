"""One step: take a message in, look at all sources, tell what is new.

The state is raw: a loss counts at once and so does its end. What is told as events is damped:
mains are called back after ``mains_back_s`` only, and flapping mains are one outage.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.debounce import Debounced, Delays
from linkhold.decide.happening import Happening
from linkhold.decide.power import source as sources
from linkhold.decide.power.combine import Combined, combine
from linkhold.decide.power.meaning import What
from linkhold.decide.power.source import DARK, SECOND
from linkhold.decide.power.values import Memory, Rules, Said, Source, Step
from linkhold.model import Moment, Notice, Power, PowerState, Severity
from linkhold.model.power_sources import SourceKind
from linkhold.model.power_view import Deadline, PowerView
from linkhold.wire import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.model.power_sources import SourceReading

RUNTIME_STEP_S, RUNTIME_SHARE = 10.0, 0.1
"""A runtime that moved by less than both is not told again."""
QUIET_MAX_S = 900.0
"""A source that was never heard is told of after this, however rarely it may speak."""
CHARGE_STEP = 10.0
"""A charge in percent is told again when it reaches another tenth."""


def step(rules: Rules, memory: Memory, said: Said | None, now: Moment) -> Step:
    """Take one message in, or none, and decide. Pure: equal arguments give an equal outcome.

    A message of a source that is not configured changes nothing.
    """
    known = {one.name: memory.sources.get(one.name, Source()) for one in rules.sources}
    for one in rules.sources:
        if said is not None and said.source == one.name:
            known[one.name] = sources.hear(one, known[one.name], said, now)
        known[one.name] = sources.look(one, known[one.name], now)
    found = combine(rules, known, now)
    after = _observed(rules, replace(memory, sources=known), found, now)
    news = tuple(_news(memory, after, found, now))
    view = PowerView(
        tuple(sources.reading(one, known[one.name], now) for one in rules.sources),
        _deadline(found, now),
        found.degraded,
        after.unknown.active,
    )
    is_new = _is_new(memory, found, now) or _coarse(view) != memory.shown
    report = bool(news) or (is_new and not _waits(after, found, now))
    low_told = after.outage.active and (memory.low_told or found.power.state is PowerState.LOW)
    after = replace(after, low_told=low_told)
    if report:
        after = replace(after, told=found.power, told_end_ns=found.end_ns, shown=_coarse(view))
    return Step(after, found.power, view, report, news, _wake_ns(rules, after, now))


def repeated(rules: Rules, memory: Memory, said: Said, now: Moment) -> Memory | None:
    """Return what is remembered after a calm source said the same again, None for all else.

    It only stays alive. Most messages are of this kind, for months, and a step costs ten times it.
    """
    known = memory.sources.get(said.source)
    if known is None or known.last != said or said.meaning.what is not What.OK:
        return None
    one = next((one for one in rules.sources if one.name == said.source), None)
    if one is None or known.raw is not known.state or sources.is_silent(one, known, now):
        return None
    alive = replace(known, heard_ns=now.mono_ns, at=now)
    return replace(memory, sources={**memory.sources, said.source: alive})


def _waits(memory: Memory, found: Combined, now: Moment) -> bool:
    """Tell whether nothing is known only because the agent has just started."""
    early = now.mono_ns < memory.first_until_ns and found.power.state is PowerState.UNKNOWN
    known = memory.sources.values()
    return early and any(one.heard_ns is None and not one.offline for one in known)


def _coarse(view: PowerView) -> PowerView:
    """Return a view without what moves while nothing happens."""
    return replace(view, sources=tuple(map(_coarse_source, view.sources)), deadline=None)


def _coarse_source(reading: SourceReading) -> SourceReading:
    charge = None if reading.charge is None else reading.charge // CHARGE_STEP
    calm = reading.state is PowerState.OK
    return replace(
        reading, at=None, runtime_s=None, charge=charge, detail="" if calm else reading.detail
    )


def earliest_deadline(power: Deadline | None, notices: tuple[Notice, ...]) -> Deadline | None:
    """Return the earliest end over power and notices; what harms nothing has none."""
    ends = [power] if power is not None else []
    ends += [
        Deadline(notice.deadline, notice.source)
        for notice in notices
        if notice.deadline is not None and notice.action not in {"freeze", "migrate"}
    ]
    return min(ends, key=lambda end: end.at.mono_ns, default=None)


def _observed(rules: Rules, memory: Memory, found: Combined, now: Moment) -> Memory:
    state = found.power.state
    # Losing sight neither ends an outage nor begins one.
    dark = state in DARK or (memory.outage.raw and state is PowerState.UNKNOWN)
    known = memory.seen or state is not PowerState.UNKNOWN
    return replace(
        memory,
        seen=known,
        outage=memory.outage.observe(dark, now.mono_ns, _outage_delays(rules)),
        unknown=memory.unknown.observe(
            state is PowerState.UNKNOWN and _asks_for_power(rules),
            now.mono_ns,
            _unknown_delays(rules, seen=known),
        ),
        degraded=memory.degraded.observe(bool(found.degraded), now.mono_ns, _outage_delays(rules)),
    )


def _asks_for_power(rules: Rules) -> bool:
    """Tell whether a source is named that could say where power comes from."""
    return any(one.kind is not SourceKind.FEEDS for one in rules.sources)


def _outage_delays(rules: Rules) -> Delays:
    return Delays(on_s=0.0, off_s=rules.mains_back_s)


def _unknown_delays(rules: Rules, *, seen: bool) -> Delays:
    """Return how long nothing may be known: at the start as long as the slowest source is quiet."""
    quiet_s = min(QUIET_MAX_S, max((one.max_age_s for one in rules.sources), default=0.0))
    return Delays(on_s=rules.unknown_s if seen else max(rules.unknown_s, quiet_s), off_s=0.0)


def _news(before: Memory, after: Memory, found: Combined, now: Moment) -> Iterator[Happening]:
    power = found.power
    data = _data(found, now)
    if after.outage.active and not before.outage.active:
        first = {} if before.seen else {"initial": True}
        yield _event("power.mains_lost", Severity.CRITICAL, data | first)
    if power.state is PowerState.LOW and not (before.low_told and before.outage.active):
        low = data | {"forced_shutdown": power.forced_shutdown}
        yield _event("power.low", Severity.CRITICAL, low)
    if before.outage.active and not after.outage.active:
        lasted_s = (now.mono_ns - before.outage.began_ns) / SECOND
        yield _event(
            "power.restored", Severity.INFO, {"lasted_s": round(lasted_s, 1), **_by(power)}
        )
    if after.unknown.active and not before.unknown.active:
        yield _event("power.unknown", Severity.WARNING, _by(power))
    if after.degraded.active and not before.degraded.active:
        yield _event("power.degraded", Severity.WARNING, {"reasons": list(found.degraded)})
    if before.degraded.active and not after.degraded.active:
        yield _event("power.degraded_ended", Severity.INFO, {})


def _event(type_: str, severity: Severity, data: dict[str, Any]) -> Happening:
    return Happening(type_, "power", data, severity)


def _by(power: Power) -> dict[str, Any]:
    return {"source": power.source}


def _data(found: Combined, now: Moment) -> dict[str, Any]:
    runtime_s, end = found.power.runtime_s, _deadline(found, now)
    return {
        "source": found.power.source,
        "confirmed": found.power.confirmed,
        "runtime_s": None if runtime_s is None else round(runtime_s, 1),
        "deadline": None if end is None else rfc3339(end.at.wall_s),
    }


def _deadline(found: Combined, now: Moment) -> Deadline | None:
    if found.end_ns is None or found.power.state not in DARK:
        return None
    wall_s = now.wall_s + (found.end_ns - now.mono_ns) / SECOND
    return Deadline(Moment(found.end_ns, wall_s), found.power.source)


def _is_new(memory: Memory, found: Combined, now: Moment) -> bool:
    told, power = memory.told, found.power
    if told is None or replace(told, runtime_s=None) != replace(power, runtime_s=None):
        return True
    if memory.told_end_ns is None or found.end_ns is None:
        return memory.told_end_ns != found.end_ns
    moved_s = abs(found.end_ns - memory.told_end_ns) / SECOND
    left_s = max(0.0, (found.end_ns - now.mono_ns) / SECOND)
    return moved_s >= min(RUNTIME_STEP_S, RUNTIME_SHARE * left_s) and moved_s > 0


def _wake_ns(rules: Rules, memory: Memory, now: Moment) -> int | None:
    times = [sources.due_ns(one, memory.sources[one.name], now) for one in rules.sources]
    times += [
        _due(memory.outage, _outage_delays(rules)),
        _due(memory.degraded, _outage_delays(rules)),
    ]
    times.append(_due(memory.unknown, _unknown_delays(rules, seen=memory.seen)))
    times.append(memory.first_until_ns)
    return min((time for time in times if time is not None and time > now.mono_ns), default=None)


def _due(condition: Debounced, delays: Delays) -> int | None:
    return condition.due_ns(delays)
