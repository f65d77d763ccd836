"""The sysctls of one network namespace against what is wanted: what to write, and when to stop.

A value is written at most twice after somebody took it back (:data:`UNDONE_MOST`): then the two
would fight for ever, so linkhold stops and says who seems to be the other one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.decide.keepalive import profiles
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.keepalive import BusySettings, KeepaliveSettings

TIME, INTERVAL, PROBES = "tcp_keepalive_time", "tcp_keepalive_intvl", "tcp_keepalive_probes"
IDLE = (TIME, INTERVAL, PROBES)
RETRIES, RTO_MAX, SYN_RETRIES = "tcp_retries2", "tcp_rto_max_ms", "tcp_syn_retries"
BUSY = (RETRIES, RTO_MAX, SYN_RETRIES)
KEYS = (*IDLE, *BUSY)
UNDONE_MOST = 2
FORGET_NS = 3_600_000_000_000
"""A value that stayed for an hour is not being fought over."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is wanted of every namespace; ``idle`` is None while keepalive is not managed."""

    idle: profiles.Wanted | None = None
    survive_s: float = 1200.0
    busy: Mapping[str, int] = field(default_factory=dict)
    enforce: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """How often a value that linkhold wrote was changed back, and when last."""

    times: int = 0
    last_ns: int = 0
    written: int | None = None
    gave_up: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of one namespace: per key what was written, and each difference told.

    ``error`` is why the last write failed, empty after one that succeeded.
    """

    keys: Mapping[str, Undone] = field(default_factory=dict)
    told: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that is not as wanted. ``news``: not told yet. ``conflict``: no longer repaired."""

    key: str
    wanted: int
    seen: int
    news: bool
    conflict: bool = False
    new_conflict: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """What follows from one look: what to write, what differs, and what is remembered."""

    memory: Memory
    write: Mapping[str, int]
    differences: tuple[Difference, ...]
    enough: bool


def rules_of(settings: KeepaliveSettings, cloud: str, *, enforce: bool) -> Rules:
    """Return what the configuration wants on a node in ``cloud``."""
    idle = profiles.wanted(settings, cloud)
    return Rules(idle, settings.survive, busy_wanted(settings.busy), enforce)


def busy_wanted(settings: BusySettings) -> dict[str, int]:
    """Return the values of ``busy:`` that are not left as they are."""
    return {key: value for key in BUSY if (value := int(getattr(settings, key)))}


def differing(rules: Rules, values: Mapping[str, int]) -> dict[str, int]:
    """Return the values to write.

    A key that is not in ``values`` does not exist in this kernel and is passed over; what is as
    good as wanted, or better, is left alone.
    """
    found = {}
    if rules.idle is not None and timers_of(values) is not None and not enough(rules, values):
        want = rules.idle.timers
        found = dict(zip(IDLE, (want.time_s, want.interval_s, want.probes), strict=True))
    found |= {k: want for k, want in rules.busy.items() if not _as_good(k, values.get(k), want)}
    return {key: want for key, want in found.items() if values.get(key) != want}


def enough(rules: Rules, values: Mapping[str, int]) -> bool:
    """Whether the idle values that are there meet both aims; True while nothing is managed."""
    present = timers_of(values)
    if rules.idle is None or present is None:
        return rules.idle is None
    return profiles.good_enough(present, rules.idle, rules.survive_s)


def timers_of(values: Mapping[str, int]) -> Timers | None:
    """Return the idle values as one, None when one of them was not read."""
    found = [values.get(key) for key in IDLE]
    if None in found:
        return None
    time_s, interval_s, probes = (int(value or 0) for value in found)
    return Timers(max(1, time_s), interval_s, probes)


def look(rules: Rules, memory: Memory, values: Mapping[str, int], now_ns: int) -> Decided:
    """Return what follows from the values that are there now."""
    wanted = differing(rules, values)
    keys = {k: undone for k, undone in memory.keys.items() if k in wanted or not undone.gave_up}
    told: dict[str, tuple[int, int]] = {}
    write: dict[str, int] = {}
    differences = []
    for key, want in wanted.items():
        seen = values[key]
        before = keys.get(key, Undone())
        after = _undone(before, seen, now_ns)
        may = rules.enforce and not after.gave_up
        if may:
            write[key] = want
            after = replace(after, written=want)
        keys[key] = after
        told[key] = (want, seen)
        differences.append(
            Difference(
                key,
                want,
                seen,
                # Who rewrites a value in a loop with ever new ones makes no event of each.
                news=memory.told.get(key) != (want, seen) and not before.gave_up,
                conflict=after.gave_up,
                new_conflict=after.gave_up and not before.gave_up,
            )
        )
    return Decided(
        Memory(keys, told, memory.error), write, tuple(differences), enough(rules, values)
    )


def written(memory: Memory, write: Mapping[str, int], error: str) -> Memory:
    """Return the memory after a write; a failed one is no value of ours that could be undone."""
    if not write:
        return memory
    if not error:
        return replace(memory, error="")
    failed = {key: replace(memory.keys[key], written=None) for key in write}
    return replace(memory, keys={**memory.keys, **failed}, error=error)


def _undone(before: Undone, seen: int, now_ns: int) -> Undone:
    """Return the record of a key that differs: after a write of ours, somebody took it back."""
    if before.written is None or seen == before.written or before.gave_up:
        return before
    times = before.times if now_ns - before.last_ns < FORGET_NS else 0
    return replace(before, times=times + 1, last_ns=now_ns, gave_up=times + 1 >= UNDONE_MOST)


def _as_good(key: str, seen: int | None, want: int) -> bool:
    """More retries survive longer; a shorter pause between them resumes sooner."""
    if seen is None:
        return True
    return seen <= want if key == RTO_MAX else seen >= want
