"""Alerts over time: when the alert of a condition begins, changes and ends."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.decide.debounce import Debounced, Delays
from linkhold.decide.happening import Happening
from linkhold.model import Alert, Identity, Moment, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from linkhold.config.settings import AlertSettings


@dataclass(frozen=True, slots=True)
class Condition:
    """Something wrong right now. ``urgent`` conditions alert without waiting.

    ``faults`` tells apart what one condition may stand for, so that each has its own beginning.
    """

    type: str
    subject: str
    severity: Severity
    text: str
    urgent: bool = False
    faults: tuple[str, ...] = ()


RECOVERING = " (over; closes if it stays so)"


@dataclass(frozen=True, slots=True)
class Tracked:
    """A condition over time: the alert it makes and whether it counts yet.

    ``faults`` says since when each of them is there; empty when only the alert's beginning is
    known (after a restart).
    """

    alert: Alert
    phase: Debounced
    urgent: bool = False
    faults: Mapping[str, Moment] = field(default_factory=dict)

    @property
    def shown(self) -> Alert:
        """The alert as people see it: a fault that is over but not closed yet says so."""
        if self.phase.raw:
            return self.alert
        return replace(self.alert, text=self.alert.text + RECOVERING)


def fingerprint(identity: Identity, type_: str, subject: str) -> str:
    """Return what identifies an alert over time, restarts and brokers."""
    name = f"{identity.site}/{identity.node}/{type_}/{subject}"
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def track(
    identity: Identity,
    settings: AlertSettings,
    tracked: Mapping[str, Tracked],
    found: Iterator[Condition],
    now: Moment,
) -> tuple[dict[str, Tracked], list[Happening]]:
    """Return what is tracked after a look at the conditions, and which alerts began or ended."""
    present = {fingerprint(identity, c.type, c.subject): c for c in found}
    kept: dict[str, Tracked] = {}
    news: list[Happening] = []
    for print_ in [*tracked, *(p for p in present if p not in tracked)]:
        condition = present.get(print_)
        before = tracked.get(print_) or _new(print_, present[print_], now)
        after = _look(before, condition, delays(settings, urgent=before.urgent), now)
        news += _edges(before, after, now)
        if after.phase.raw or after.phase.active:
            kept[print_] = after
    return kept, news


def delays(settings: AlertSettings, *, urgent: bool) -> Delays:
    """Return how long a condition waits to alert and to close; urgent ones do not wait."""
    return Delays(0.0 if urgent else settings.fire_after_s, settings.close_after_s)


def _new(print_: str, condition: Condition, now: Moment) -> Tracked:
    alert = Alert(
        print_, condition.type, condition.severity, condition.subject, now, condition.text
    )
    faults = dict.fromkeys(condition.faults, now)
    return Tracked(alert, Debounced(since_ns=now.mono_ns), condition.urgent, faults)


def _look(before: Tracked, condition: Condition | None, wait: Delays, now: Moment) -> Tracked:
    phase = before.phase.observe(condition is not None, now.mono_ns, wait)
    alert, faults = before.alert, before.faults
    if condition is not None:
        faults = _faults(before, condition, now)
        since = min(faults.values(), key=_mono_ns, default=alert.since)
        told = (condition.text, condition.severity, since)
        if (alert.text, alert.severity, alert.since) != told:
            alert = replace(alert, text=told[0], severity=told[1], since=since)
    if phase is before.phase and alert is before.alert and faults == before.faults:
        return before
    return Tracked(alert, phase, before.urgent, faults)


def _faults(before: Tracked, condition: Condition, now: Moment) -> Mapping[str, Moment]:
    """Return since when each fault is there: an alert is as old as the oldest that is left."""
    if not before.faults:
        return dict.fromkeys(condition.faults, before.alert.since)
    return {key: before.faults.get(key, now) for key in condition.faults}


def _mono_ns(moment: Moment) -> int:
    return moment.mono_ns


def _edges(before: Tracked, after: Tracked, now: Moment) -> Iterator[Happening]:
    alert = after.alert
    data: dict[str, object] = {
        "fingerprint": alert.fingerprint,
        "alert": alert.type,
        "text": alert.text,
    }
    if after.phase.active and not before.phase.active:
        age_s = round(now.seconds_since(alert.since), 3)
        data |= {"severity": alert.severity.value, "since_s": age_s}
        yield Happening("alert.opened", alert.subject, data, alert.severity)
    elif before.phase.active and not after.phase.active:
        ended = Moment(after.phase.since_ns, now.wall_s)
        data["lasted_s"] = round(ended.seconds_since(alert.since), 3)
        yield Happening("alert.closed", alert.subject, data)
