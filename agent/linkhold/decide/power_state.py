"""Power and notices in the node's state: what a reading changes, and what people are told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.alert_tracking import Condition
from linkhold.decide.happening import Happening
from linkhold.decide.policy import ENDING, HARMLESS
from linkhold.decide.power import earliest_deadline
from linkhold.decide.readings import NoticesReading
from linkhold.model import Moment, Network, Notice, PowerState, Severity
from linkhold.wire import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.readings import PowerReading
    from linkhold.model import NodeState

DARK = frozenset({PowerState.BATTERY, PowerState.LOW})
REASONS_SHOWN = 3


def see(
    state: NodeState, reading: PowerReading | NoticesReading, now: Moment
) -> tuple[NodeState, list[Happening]]:
    """Take in what all sources of power say, or every notice that stands."""
    if isinstance(reading, NoticesReading):
        return _see_notices(state, reading)
    since = state.power_since if reading.power.state is state.power.state else now
    deadline = earliest_deadline(reading.view.deadline, state.notices)
    seen = replace(
        state,
        power=reading.power,
        power_since=since,
        power_view=reading.view,
        deadline=deadline,
    )
    return seen, list(reading.news)


def _see_notices(state: NodeState, reading: NoticesReading) -> tuple[NodeState, list[Happening]]:
    """Take in every notice that stands; what is missing was withdrawn or is over."""
    standing = {_key(notice) for notice in reading.notices}
    news = [_announced(notice) for notice in reading.fresh]
    news += [_withdrawn(notice) for notice in state.notices if _key(notice) not in standing]
    deadline = earliest_deadline(state.power_view.deadline, reading.notices)
    seen = replace(state, notices=reading.notices, notices_view=reading.view, deadline=deadline)
    return seen, news


def _key(notice: Notice) -> tuple[str, str, str]:
    return notice.kind, notice.action, notice.source


def _announced(notice: Notice) -> Happening:
    data = {
        **_data(notice),
        "deadline": rfc3339(notice.deadline.wall_s) if notice.deadline else None,
        "planned": notice.planned,
    }
    return Happening(f"notice.{notice.kind}", notice.kind, data, severity(notice))


def _withdrawn(notice: Notice) -> Happening:
    return Happening("notice.withdrawn", notice.kind, {"kind": notice.kind, **_data(notice)})


def _data(notice: Notice) -> dict[str, Any]:
    return {"action": notice.action, "source": notice.source}


def severity(notice: Notice) -> Severity:
    """Return how much a notice matters to people; what they ordered themselves is information."""
    if notice.planned or notice.action in HARMLESS:
        return Severity.INFO
    urgent = notice.kind == "spot" and notice.action in ENDING
    return Severity.CRITICAL if urgent else Severity.WARNING


def conditions(state: NodeState) -> Iterator[Condition]:
    """Yield the alerts of power and notices. A planned shutdown is none."""
    yield from _power(state)
    view = state.power_view
    if view.degraded:
        text = "; ".join(view.degraded[:REASONS_SHOWN])
        yield Condition("power.degraded", "power", Severity.WARNING, f"power supply: {text}")
    seen = state.network is not Network.DOWN  # else it is the network's fault, which is told
    if seen and view.unknown and state.power.state is PowerState.UNKNOWN:
        silent = [f"{one.source} ({one.detail})" for one in view.sources][:REASONS_SHOWN]
        text = f"nobody knows whether this node has mains: {'; '.join(silent)}"
        yield Condition("power.unknown", "power", Severity.WARNING, text)
    for notice in state.notices:
        if not notice.planned:
            text = f"{notice.kind} notice: {notice.action} ({notice.source})"
            subject = f"{notice.kind}:{notice.source}"
            yield Condition("notice", subject, severity(notice), text, urgent=True)
    for name in state.notices_view.missed if seen else ():
        text = f"{name} tells no notices any more: {state.notices_view.blind.get(name, '')}"
        yield Condition("notice.unknown", name, Severity.WARNING, text)


def _power(state: NodeState) -> Iterator[Condition]:
    power = state.power
    asked = "training is asked to stop" if state.advice.stop else "training is asked to save"
    if power.state is PowerState.LOW or power.forced_shutdown:
        text = f"battery low ({power.source}): {asked}"
        yield Condition("power.low", "power", Severity.CRITICAL, text, urgent=True)
    elif power.state is PowerState.BATTERY:
        left = "" if power.runtime_s is None else f", about {power.runtime_s / 60:.0f} min left"
        lone = "" if power.confirmed else ", one sensor alone says so"
        text = f"on battery ({power.source}{left}{lone}): training is asked to save"
        yield Condition("power.battery", "power", Severity.CRITICAL, text, urgent=True)
