"""One source over time: what it says now, how long that is believed, what silence means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.power.meaning import Meaning, What
from linkhold.decide.power.tokens import TESTS, by_tokens
from linkhold.model import Moment, PowerState
from linkhold.model.power_sources import SourceKind, SourceReading

if TYPE_CHECKING:
    from linkhold.decide.power.values import Said, Source, SourceRules

SECOND = 1_000_000_000
LB_HOLD_S = 5.0
"""So long a low battery is not believed that its own charge contradicts (nut#1942, #3087)."""
LB_FULL_PERCENT, LB_MARGIN_PERCENT = 50.0, 20.0
"""A charge above both this and the UPS's own limit with a margin contradicts a low battery."""
FORCED_S = 40.0
"""What a forced shutdown leaves at least, whatever the battery has, by NUT's defaults: upsmon's
HOSTSYNC 15 s and FINALDELAY 5 s, then the UPS's offdelay 20 s."""
OFF_HOLD_S = 30.0
"""An output that is told off is believed after this, as by upsmon (OFFDURATION)."""
TEST_MAX_S = 7200.0
"""A test or calibration that takes longer is a word that got stuck (nut#817)."""
LATCH_MIN_S = 3600.0
"""A battery whose UPS is silent counts for this long, or twice its runtime if that is more."""

STATES = {
    What.OK: PowerState.OK,
    What.RESTORED: PowerState.OK,
    What.DEGRADED: PowerState.OK,
    What.OUTLET_OFF: PowerState.OK,  # a plug that can say so has mains itself
    What.LOST: PowerState.BATTERY,
    What.LOW: PowerState.LOW,
    What.SHUTDOWN: PowerState.LOW,
}
DARK = frozenset({PowerState.BATTERY, PowerState.LOW})


def hear(rules: SourceRules, source: Source, said: Said, now: Moment) -> Source:
    """Take one message in."""
    found = said.meaning
    if found.what in {What.IGNORED, What.UNKNOWN}:
        # Not even a sign of life: words of no meaning age until the source is unknown.
        notes = (found.reason,) if found.what is What.IGNORED and found.reason else source.notes
        return replace(source, detail=found.why, notes=notes)
    if found.what in {What.COMM_LOST, What.SENSOR_OFFLINE}:
        gone = found.what is What.SENSOR_OFFLINE
        return replace(_without_old(source), offline=found.why, gone=gone, detail=found.why)
    if source.gone and said.retained and found.alive is None:
        return source  # what a dead sensor said before its will is nobody's word any more
    alive = replace(source, heard_ns=now.mono_ns, offline="", gone=False, detail=found.why)
    if not said.retained:
        alive = replace(alive, live=True)
    elif source.last is None or source.last.meaning.what is not found.what:
        alive = replace(alive, live=False)  # it changed while nobody listened, who knows when
    if rules.kind is SourceKind.FEEDS:
        return replace(alive, at=now, degraded=(found.reason,) if found.reason else ())
    if found.what in {What.NONE, What.COMM_OK}:
        return alive
    return look(rules, _taken(alive, said, now), now)


def _without_old(source: Source) -> Source:
    """Return a source without a retained word that has not counted yet: its author is gone."""
    if source.last is None or not source.last.retained or source.raw is source.state:
        return source
    return replace(source, last=None, raw=source.state)


def _taken(source: Source, said: Said, now: Moment) -> Source:
    """Return the source with the words and figures of a message; words that are gone are gone."""
    found, now_ns = said.meaning, now.mono_ns
    runtime_s = _plausible(said)
    dark = STATES.get(found.what) in DARK
    forced = found.what is What.SHUTDOWN
    forced_since_ns = _since(source.forced_since_ns, forced, now_ns)
    ends = [now_ns + int(runtime_s * SECOND)] if dark and runtime_s is not None else []
    if _within(forced_since_ns, FORCED_S, now_ns):  # an order that ended nothing tells no time
        ends.append((forced_since_ns or 0) + int(FORCED_S * SECOND))
    return replace(
        source,
        at=now,
        last=said,
        forced=forced,
        forced_since_ns=forced_since_ns,
        charge=said.charge,
        runtime_s=runtime_s,
        end_ns=min(ends, default=None),
        tokens=found.tokens,
        low_since_ns=_since(source.low_since_ns, found.what is What.LOW, now_ns),
        test_since_ns=_since(source.test_since_ns, found.what is What.CALIBRATION, now_ns),
        off_since_ns=_since(source.off_since_ns, _is_off(found), now_ns),
    )


def _since(before: int | None, holds: bool, now_ns: int) -> int | None:  # noqa: FBT001
    return (now_ns if before is None else before) if holds else None


def _plausible(said: Said) -> float | None:
    """Return the runtime; None for the zero that a UPS with a full battery tells."""
    runtime_s, charge = said.runtime_s, said.charge
    if runtime_s is None or runtime_s < 0 or (not runtime_s and (charge or 0) >= LB_FULL_PERCENT):
        return None
    return runtime_s


def look(rules: SourceRules, source: Source, now: Moment) -> Source:
    """Judge again what was said last: holds and debounces end with time alone."""
    if source.last is None:
        return source
    raw, excused, degraded = _judged(source, source.last, now.mono_ns)
    since_ns = source.raw_ns if raw is source.raw else now.mono_ns
    settled = now.mono_ns >= since_ns + int(rules.debounce_s * SECOND)
    return replace(
        source,
        state=raw if settled else source.state,
        raw=raw,
        raw_ns=since_ns,
        excused=excused,
        degraded=degraded,
    )


def _judged(
    source: Source, said: Said, now_ns: int
) -> tuple[PowerState, PowerState | None, tuple[str, ...]]:
    """Return the state, what a test excuses, and what somebody should look after."""
    found = said.meaning
    if (
        found.what is What.LOW
        and _contradicts(said)
        and _within(source.low_since_ns, LB_HOLD_S, now_ns)
    ):
        return PowerState.BATTERY, None, (f"UPS claims LB at {said.charge:g} %",)
    if found.what is What.CALIBRATION:
        real = _without_test(found)
        if _within(source.test_since_ns, TEST_MAX_S, now_ns):
            return PowerState.OK, real, ("calibration or self-test",)
        return real or PowerState.OK, None, ("a test that does not end",)
    if _is_off(found):
        held = _within(source.off_since_ns, OFF_HOLD_S, now_ns)
        return (source.raw if held else PowerState.UNKNOWN), None, ("output off",)
    worth_a_look = found.what in {What.DEGRADED, What.OUTLET_OFF}
    return STATES[found.what], None, (found.reason or found.why,) if worth_a_look else ()


def _is_off(found: Meaning) -> bool:
    """Tell whether a UPS says that its output is off."""
    return found.what is What.DEGRADED and "OFF" in found.tokens


def _contradicts(said: Said) -> bool:
    low = (said.charge_low or 0.0) + LB_MARGIN_PERCENT
    return said.charge is not None and said.charge >= max(LB_FULL_PERCENT, low)


def _without_test(found: Meaning) -> PowerState | None:
    """Return what the words say without those of a test, None when they say nothing bad."""
    words = [word for word in found.tokens if word not in TESTS]
    state = STATES.get(by_tokens(words).what)
    return state if state in DARK else None


def _within(since_ns: int | None, limit_s: float, now_ns: int) -> bool:
    return since_ns is not None and now_ns < since_ns + int(limit_s * SECOND)


def is_silent(rules: SourceRules, source: Source, now: Moment) -> bool:
    """Tell whether nothing of use comes any more."""
    if source.offline or source.heard_ns is None:
        return True
    return now.mono_ns >= source.heard_ns + int(rules.max_age_s * SECOND)


def effective(rules: SourceRules, source: Source, now: Moment) -> PowerState:
    """Return what counts: a silent source is unknown, unless it was on battery.

    A network that fails in an outage is no dead UPS (nut#2454), and no mains that are back.
    """
    if not is_silent(rules, source, now):
        return source.state
    if source.state in DARK and now.mono_ns < _latched_until_ns(source):
        return source.state
    return PowerState.UNKNOWN


def _latched_until_ns(source: Source) -> int:
    since_ns = source.heard_ns or 0
    return since_ns + int(max(LATCH_MIN_S, 2 * (source.runtime_s or 0.0)) * SECOND)


def reading(rules: SourceRules, source: Source, now: Moment) -> SourceReading:
    """Return the source as the state shows it."""
    silent = is_silent(rules, source, now)
    return SourceReading(
        source=rules.name,
        kind=rules.kind,
        state=effective(rules, source, now),
        at=source.at,
        stale=silent and source.at is not None,
        charge=source.charge,
        runtime_s=source.runtime_s,
        forced_shutdown=source.forced,
        tokens=source.tokens,
        degraded=source.degraded + source.notes,
        detail=source.offline or _detail(source, silent=silent),
    )


def _detail(source: Source, *, silent: bool) -> str:
    if not source.detail:
        return "not heard of yet"
    return f"silent; the last word was: {source.detail}" if silent else source.detail


def due_ns(rules: SourceRules, source: Source, now: Moment) -> int | None:
    """Return when time alone changes something, None for never."""
    times = []
    if source.raw is not source.state:
        times.append(source.raw_ns + int(rules.debounce_s * SECOND))
    if source.heard_ns is not None:
        times += [source.heard_ns + int(rules.max_age_s * SECOND), _latched_until_ns(source)]
    for since_ns, hold_s in (
        (source.low_since_ns, LB_HOLD_S),
        (source.test_since_ns, TEST_MAX_S),
        (source.off_since_ns, OFF_HOLD_S),
    ):
        if since_ns is not None:
            times.append(since_ns + int(hold_s * SECOND))
    return min((time for time in times if time > now.mono_ns), default=None)
