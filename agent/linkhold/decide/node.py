"""The core: one pure step from what was known and a reading to what is known and what happened.

``step(context, memory, reading, now) -> Decision``. The agent calls it for every reading and
whenever the time that a decision asked for has come; a scripted world calls it for days of
simulated time. Nothing here knows a clock, a socket or a file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold.decide import (
    alert_tracking,
    alerts,
    bond_paths,
    keep_view,
    links,
    maintenance,
    operator_hold,
    paths,
    policy,
    reach_view,
    uplink_view,
)
from linkhold.decide.absorb import absorb
from linkhold.decide.debounce import Debounced, Delays, flap_end_ns, is_flapping
from linkhold.decide.happening import Happening
from linkhold.decide.memory import Context, Memory
from linkhold.decide.readings import NetworkReading, PowerReading
from linkhold.model import (
    Advice,
    Event,
    HostNetwork,
    Moment,
    Network,
    NodeState,
    PowerState,
    Severity,
    WayOut,
)
from linkhold.wire import advice_document

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.settings import PolicySettings, Settings
    from linkhold.decide.readings import Reading

__all__ = ["Context", "Decision", "Memory", "step"]


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of a step. ``wake_ns`` is when time alone may change something, or None.

    ``changed`` tells whether the state document differs from the one before.
    """

    memory: Memory
    events: tuple[Event, ...]
    wake_ns: int | None
    changed: bool


def step(context: Context, memory: Memory, reading: Reading, now: Moment) -> Decision:
    """Take one reading in and decide. Pure: equal arguments give an equal decision."""
    absorbed, news = absorb(context, memory, reading, now)
    absorbed, ended = operator_hold.expire(absorbed, now)
    absorbed, worked = maintenance.expire(absorbed, now)
    seen = now if isinstance(reading, PowerReading) else memory.power_seen
    derived = _derive(context, memory, absorbed, seen, now)
    events = tuple(
        Event(memory.next_seq + offset, h.type, h.subject, h.severity, now, h.data)
        for offset, h in enumerate([*news, *ended, *worked, *derived.news])
    )
    changed = derived.state != memory.state
    after = Memory(
        state=derived.state if changed else memory.state,
        next_seq=memory.next_seq + len(events),
        restored=memory.restored and not isinstance(reading, NetworkReading),
        network_downs=derived.downs,
        uploads_held=derived.damped.uploads_held,
        settled_down=derived.damped.settled_down,
        on_battery=derived.damped.on_battery,
        power_seen=seen,
        alerts=derived.alerts,
    )
    return Decision(after, events, _wake_ns(context.settings, after, now), changed)


@dataclass(frozen=True, slots=True)
class _Derived:
    """What follows from a state that took a reading in: all of it, put together once."""

    state: NodeState
    downs: tuple[int, ...]
    damped: _Damped
    alerts: Mapping[str, alert_tracking.Tracked]
    news: list[Happening]


def _derive(
    context: Context, memory: Memory, state: NodeState, power_seen: Moment, now: Moment
) -> _Derived:
    """Derive network, flaps, advice and alerts from ``state``. Runs for every event."""
    epoch = memory.state.epoch + 1  # counts only if something changed
    if state.host is None:
        damped = _Damped(memory.uploads_held, memory.settled_down, memory.on_battery)
        state = replace(state, epoch=epoch)
        return _Derived(state, memory.network_downs, damped, memory.alerts, [])
    rules = context.settings.policy
    view = _judge_network(context, state, state.host)
    since, downs, news = _network_edge(context, memory, view, now)
    histories, flap_news = links.flaps(state.host, state.histories, now, rules)
    bonds, bond_news = bond_paths.flaps(
        state.bonds, memory.state.bonds, state.bond_changes, now, rules
    )
    damped = _damp(rules, memory, state, view.network, now)
    judged = replace(
        state,
        epoch=epoch,
        bonds=bonds,
        ways=view.ways,
        network=view.network,
        cause=(*view.cause, *operator_hold.causes(state.holds)),
        network_since=since,
        histories=histories,
        advice=_advise(rules, state, damped, downs, power_seen, now),
    )
    tracked, alert_news = alert_tracking.track(
        context.identity,
        context.settings.alerts,
        memory.alerts,
        alerts.conditions(context.settings, judged),
        now,
    )
    active = tuple(t.shown for t in tracked.values() if t.phase.active)
    shown = judged if active == judged.alerts else replace(judged, alerts=active)
    news = [*news, *flap_news, *bond_news, *_advice_news(state, judged), *alert_news]
    return _Derived(shown, downs, damped, tracked, news)


@dataclass(frozen=True, slots=True)
class _View:
    """What the ways out make of the network."""

    ways: tuple[WayOut, ...]
    network: Network
    cause: tuple[str, ...]


def _judge_network(context: Context, state: NodeState, host: HostNetwork) -> _View:
    ways = paths.ways_out(context.settings, host, state.ways)
    ways = bond_paths.obstruct(host, ways, state.bonds)
    blind = state.agent.unavailable.get("links")
    if blind:  # what was seen last may long be wrong
        return _View(ways, Network.UNKNOWN, (f"the agent does not see the links: {blind}",))
    network, cause = paths.judge(context.settings, host, ways, state.bonds)
    network, cause = uplink_view.judge(state.uplinks, network, cause)
    network, cause = keep_view.judge(state.keeps, network, cause)
    return _View(ways, *reach_view.judge(state.reach, network, cause))


def _network_edge(
    context: Context, memory: Memory, view: _View, now: Moment
) -> tuple[Moment, tuple[int, ...], list[Happening]]:
    """Return since when the network is as it is, its latest downs, and the news of a change."""
    state, downs = memory.state, memory.network_downs
    first = state.network_since.mono_ns == 0
    if view.network is state.network and not first:
        return state.network_since, downs, []
    data: dict[str, Any] = {"previous": state.network.value, "cause": list(view.cause)}
    if first:
        data |= {"previous": None, "initial": True}
    else:
        data["previous_s"] = round(now.seconds_since(state.network_since), 3)
    if view.network is Network.DOWN and not first:
        downs = (*downs, now.mono_ns)[-context.settings.policy.flap_downs :]
    kind = f"network.{view.network.value}"
    return now, downs, [Happening(kind, "network", data, _SEVERITY[view.network])]


_SEVERITY = {
    Network.OK: Severity.INFO,
    Network.DEGRADED: Severity.WARNING,
    Network.DOWN: Severity.CRITICAL,
    Network.UNKNOWN: Severity.INFO,
}


@dataclass(frozen=True, slots=True)
class _Damped:
    """The conditions that must last before they count."""

    uploads_held: Debounced
    settled_down: Debounced
    on_battery: Debounced


def _damp(
    settings: PolicySettings, memory: Memory, state: NodeState, network: Network, now: Moment
) -> _Damped:
    down = network is Network.DOWN
    dark = state.power.state in {PowerState.BATTERY, PowerState.LOW}
    held, settled, battery = _delays(settings)
    return _Damped(
        memory.uploads_held.observe(
            down or reach_view.storage_dead(state.reach), now.mono_ns, held
        ),
        memory.settled_down.observe(down, now.mono_ns, settled),
        memory.on_battery.observe(dark, now.mono_ns, battery),
    )


def _delays(settings: PolicySettings) -> tuple[Delays, Delays, Delays]:
    """Return the delays of held uploads, of a settled network and of mains power."""
    return (
        Delays(settings.settle_s, settings.resume_s),
        Delays(settings.settle_s, settings.settle_s),
        Delays(0.0, settings.mains_back_s),
    )


def _advise(
    settings: PolicySettings,
    state: NodeState,
    damped: _Damped,
    downs: tuple[int, ...],
    power_seen: Moment,
    now: Moment,
) -> Advice:
    conditions = policy.Conditions(
        network_held=damped.uploads_held.active,
        network_settled_down=damped.settled_down.active,
        flapping=_network_flaps(settings, downs, now),
        on_battery=damped.on_battery.active,
        battery_since_ns=damped.on_battery.began_ns,
        power=state.power,
        power_since=state.power_since,
        power_seen=power_seen,
        notices=state.notices,
        operator_uploads=operator_hold.holds_uploads(state.holds),
        operator_training=operator_hold.holds_training(state.holds),
    )
    advice = policy.advise(settings, conditions, now)
    return state.advice if advice == state.advice else advice


def _advice_news(before: NodeState, after: NodeState) -> list[Happening]:
    if after.advice is before.advice:
        return []
    data = {**advice_document(after.advice), "cause": list(after.cause)}
    return [Happening("advice.changed", "training", data)]


def _network_flaps(settings: PolicySettings, downs: tuple[int, ...], now: Moment) -> bool:
    return is_flapping(
        downs,
        now.mono_ns,
        count=settings.flap_downs,
        window_s=settings.flap_window_s,
        quiet_s=settings.flap_quiet_s,
    )


def _wake_ns(settings: Settings, memory: Memory, now: Moment) -> int | None:
    """Return the next time at which a timer of the memory runs out."""
    rules = settings.policy
    held, settled, battery = _delays(rules)
    times = [
        memory.uploads_held.due_ns(held),
        memory.settled_down.due_ns(settled),
        memory.on_battery.due_ns(battery),
        policy.next_change_ns(rules, memory.state.notices, now),
        operator_hold.next_end_ns(memory.state.holds),
        maintenance.end_ns(memory.state),
    ]
    times += [
        tracked.phase.due_ns(alert_tracking.delays(settings.alerts, urgent=tracked.urgent))
        for tracked in memory.alerts.values()
    ]
    times += [
        flap_end_ns(history.downs, rules.flap_quiet_s)
        for history in memory.state.histories.values()
        if history.flapping
    ]
    state = memory.state
    times += bond_paths.flap_ends_ns(state.bonds, state.bond_changes, rules)
    if _network_flaps(rules, memory.network_downs, now):
        times.append(flap_end_ns(memory.network_downs, rules.flap_quiet_s))
    return min((time for time in times if time is not None), default=None)
