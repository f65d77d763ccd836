"""What a round over all namespaces says: the state to show, and what happened since the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.decide.alert_tracking import Condition
from linkhold.decide.happening import Happening
from linkhold.decide.keepalive.sysctls import timers_of
from linkhold.model import Severity
from linkhold.model.keepalive import Drift, Keepalive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from linkhold.decide.keepalive.sysctls import Decided, Rules
    from linkhold.model import Moment
    from linkhold.model.keepalive import Values

SHOWN_MOST = 20


@dataclass(frozen=True, slots=True)
class Look:
    """One namespace in one round: what was read, what was decided, what is there afterwards.

    ``by`` names, per key, who seems to set it. ``failed`` is why a write failed, if that is news.
    """

    before: Values
    decided: Decided
    after: Values
    by: Mapping[str, str]
    failed: str = ""


def view(
    rules: Rules, looks: Sequence[Look], known: Keepalive, cloud: str, now: Moment
) -> Keepalive:
    """Return what the state shows after a round. The host's own namespace is the first look."""
    host = looks[0]
    want = rules.idle
    drifts = tuple(drift for look in looks for drift in _drifts(look, known, now))
    unread = [f"{look.after.name}: {look.after.error}" for look in looks if look.after.error]
    return Keepalive(
        profile=want.profile.value if want else "unmanaged",
        cloud=cloud,
        wanted=want.timers if want else None,
        present=timers_of(host.after.values),
        enough=host.decided.enough or not host.decided.differences,
        enforced=rules.enforce,
        drifts=drifts[:SHOWN_MOST],
        namespaces=len(looks),
        error="; ".join(unread[:SHOWN_MOST]),
    )


def _drifts(look: Look, known: Keepalive, now: Moment) -> Iterator[Drift]:
    for one in look.decided.differences:
        seen = look.after.values.get(one.key, one.seen)
        if seen == one.wanted:
            continue
        before = next(
            (d for d in known.drifts if (d.namespace, d.key) == (look.after.name, one.key)), None
        )
        yield Drift(
            look.after.name,
            one.key,
            one.wanted,
            seen,
            before.since if before else now,
            look.by.get(one.key) or (before.by if before else ""),
            one.conflict,
        )


def news(looks: Sequence[Look]) -> list[Happening]:
    """Return what happened in a round, each change once."""
    return [happening for look in looks for happening in _news(look)]


def _news(look: Look) -> Iterator[Happening]:
    subject = look.after.name
    for one in look.decided.differences:
        data = {
            "key": one.key,
            "wanted": one.wanted,
            "seen": one.seen,
            "by": look.by.get(one.key, ""),
        }
        if one.new_conflict:
            yield Happening("keepalive.config_conflict", subject, data, Severity.WARNING)
        elif one.news:
            yield Happening("keepalive.drift", subject, data)
    repaired = {
        key: {"from": look.before.values.get(key), "to": value}
        for key, value in look.decided.write.items()
        if look.after.values.get(key) == value
    }
    if repaired:
        yield Happening("keepalive.repaired", subject, {"values": repaired})
    if look.failed:
        data = {"reason": look.failed}
        yield Happening("keepalive.repair_failed", subject, data, Severity.WARNING)


def conditions(keepalive: Keepalive) -> Iterator[Condition]:
    """Yield what a person should know.

    A node whose values were never set is no alert: `linkhold status` says it.
    """
    for drift in keepalive.drifts:
        if not drift.conflict:
            continue
        by = drift.by or "who does is not known"
        text = (
            f"{drift.namespace}: net.ipv4.{drift.key} is set to {drift.seen} again and again "
            f"({by}), linkhold wants {drift.wanted} and has stopped. Make both agree, then: "
            "linkhold keepalive apply"
        )
        subject = f"{drift.namespace}:{drift.key}"
        yield Condition("keepalive.config_conflict", subject, Severity.WARNING, text)
