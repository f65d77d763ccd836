"""All sources together: where the node's power comes from, and when it ends.

Supplies are counted: the node lives while ``supplies_needed`` UPSes do, so one feed of two lost is
degraded, no outage. The kernel sees the near end of the cable: behind a UPS its "mains are there"
only says that the UPS still feeds it, so beside UPSes it counts when it says dark and no more.
Sensors only watch: they decide where no supply is known, and one alone is never certain.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.decide.power.source import DARK, SECOND, effective, is_silent
from linkhold.decide.power.values import Rules, Source, SourceRules
from linkhold.model import Moment, Power, PowerState
from linkhold.model.power_sources import SourceKind

if TYPE_CHECKING:
    from collections.abc import Mapping

CERTAIN_SENSORS = 2
"""One sensor alone never stops training, whatever is configured."""

_BEST = {PowerState.OK: 0, PowerState.BATTERY: 1, PowerState.LOW: 2, PowerState.UNKNOWN: 3}
"""Which supplies carry the node to the last."""
_WORST = {PowerState.OK: 0, PowerState.UNKNOWN: 1, PowerState.BATTERY: 2, PowerState.LOW: 3}
"""Which of the supplies that are all needed decides."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One source and what counts of it now."""

    rules: SourceRules
    source: Source
    state: PowerState
    silent: bool


@dataclass(frozen=True, slots=True)
class Combined:
    """What all say together; ``end_ns`` is when the node's last needed supply is empty."""

    power: Power
    end_ns: int | None = None
    degraded: tuple[str, ...] = ()


def combine(rules: Rules, sources: Mapping[str, Source], now: Moment) -> Combined:
    """Return what all sources together say at ``now``."""
    voices = [_voice(one, sources.get(one.name, Source()), now) for one in rules.sources]
    sensors = [voice for voice in voices if voice.rules.kind is SourceKind.SENSOR]
    supplies = [v for v in voices if v.rules.kind in {SourceKind.UPS, SourceKind.SUPPLY}]
    found = _combined(rules, sensors, supplies, now)
    feeds = (v for v in voices if v.rules.kind is SourceKind.FEEDS and not v.silent)
    lost = tuple(f"{v.rules.name}: {text}" for v in feeds for text in v.source.degraded)
    return replace(found, degraded=found.degraded + lost)


def _combined(rules: Rules, sensors: list[Voice], supplies: list[Voice], now: Moment) -> Combined:
    dark = [voice for voice in sensors if voice.state in DARK]
    certain = _certain(rules, dark)
    if certain or any(voice.state in DARK for voice in supplies):
        # While somebody else is dark too, no test explains a battery that drains.
        supplies = [_unexcused(voice) for voice in supplies]
    carrying = _carrying(rules, supplies)
    state = max((v.state for v in carrying), key=_WORST.__getitem__, default=PowerState.UNKNOWN)
    if state is PowerState.UNKNOWN:
        return _by_sensors(sensors, supplies, now, certain=certain)
    return _by_supplies(state, carrying, supplies, dark, now)


def _voice(rules: SourceRules, source: Source, now: Moment) -> Voice:
    return Voice(rules, source, effective(rules, source, now), is_silent(rules, source, now))


def _certain(rules: Rules, dark: list[Voice]) -> bool:
    """Tell whether enough sensors agree; what was retained only may be hours old."""
    live = [voice for voice in dark if voice.source.live]
    return len(live) >= max(CERTAIN_SENSORS, rules.sensors_needed)


def _unexcused(voice: Voice) -> Voice:
    if voice.source.excused is None or voice.silent:
        return voice
    return Voice(voice.rules, voice.source, voice.source.excused, voice.silent)


def _carrying(rules: Rules, supplies: list[Voice]) -> list[Voice]:
    """Return the supplies that the node needs, the best of all, and a cable that is out."""
    feeds = [v for v in supplies if v.rules.kind is SourceKind.UPS] or supplies
    unfed = [v for v in supplies if v not in feeds and v.state in DARK]
    best = sorted(feeds, key=lambda v: (_BEST[v.state], -(v.source.end_ns or 0), v.rules.name))
    return best[: max(1, rules.supplies_needed)] + unfed


def _by_supplies(
    state: PowerState, carrying: list[Voice], supplies: list[Voice], dark: list[Voice], now: Moment
) -> Combined:
    deciding = [voice for voice in carrying if voice.state is state]
    ends = [(v.source.end_ns, v.rules.name) for v in deciding if v.source.end_ns is not None]
    end_ns, source = min(ends, default=(None, deciding[0].rules.name))
    power = Power(
        state=state,
        runtime_s=None if end_ns is None else max(0.0, (end_ns - now.mono_ns) / SECOND),
        forced_shutdown=state is PowerState.LOW and any(v.source.forced for v in deciding),
        source=source,
    )
    return Combined(power, end_ns, _degraded(state, supplies, dark))


def _degraded(state: PowerState, supplies: list[Voice], dark: list[Voice]) -> tuple[str, ...]:
    reasons = [f"{v.rules.name}: {text}" for v in supplies for text in v.source.degraded]
    if state is PowerState.OK:
        reasons += [f"{v.rules.name}: {v.state.value}" for v in supplies if v.state is not state]
        reasons += [f"{v.rules.name}: says dark, the supply says otherwise" for v in dark]
    return tuple(reasons)


def _by_sensors(
    sensors: list[Voice], supplies: list[Voice], now: Moment, *, certain: bool
) -> Combined:
    dark = [voice for voice in sensors if voice.state in DARK]
    reasons = tuple(
        f"{v.rules.name}: {text}" for v in [*supplies, *sensors] for text in v.source.degraded
    )
    if dark:
        ends = [v.source.end_ns for v in dark if v.source.end_ns is not None]
        end_ns = min(ends, default=None)
        power = Power(
            state=max((v.state for v in dark), key=_WORST.__getitem__),
            confirmed=certain,
            runtime_s=None if end_ns is None else max(0.0, (end_ns - now.mono_ns) / SECOND),
            source=", ".join(sorted(v.rules.name for v in dark)),
        )
        return Combined(power, end_ns, reasons)
    calm = [v.rules.name for v in sensors if v.state is PowerState.OK]
    if calm and all(voice.silent for voice in supplies):
        # Mains are there; that nobody looks after the supplies is for people, not for training.
        reasons += tuple(f"{v.rules.name}: tells nothing" for v in supplies)
        return Combined(Power(PowerState.OK, source=", ".join(calm)), None, reasons)
    silent = ", ".join(v.rules.name for v in [*supplies, *sensors] if v.silent)
    return Combined(Power(PowerState.UNKNOWN, source=silent), None, reasons)
