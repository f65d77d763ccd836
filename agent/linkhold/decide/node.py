"""The core: one pure step from what was known and a reading to what is known and what happened.

``step(context, memory, reading, now) -> Decision``. The agent calls it for every reading and
whenever the time that a decision asked for has come; a scripted world calls it for days of
simulated time. Nothing here knows a clock, a socket or a file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold.decide import alerts, links, paths, policy
from linkhold.decide.absorb import absorb
from linkhold.decide.debounce import Delays, flap_end_ns, is_flapping
from linkhold.decide.happening import Happening
from linkhold.decide.memory import Context, Memory
from linkhold.model import Event, HostNetwork, Moment, Network, PowerState, Severity
from linkhold.wire import advice_document

if TYPE_CHECKING:
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
    settled, more = _settle(context, absorbed, now)
    events = tuple(
        Event(memory.next_seq + offset, h.type, h.subject, h.severity, now, h.data)
        for offset, h in enumerate([*news, *more])
    )
    changed = settled.state != memory.state
    state = replace(settled.state, epoch=memory.state.epoch + changed)
    after = replace(settled, state=state, next_seq=memory.next_seq + len(events))
    return Decision(after, events, _wake_ns(context.settings, after, now), changed)


def _settle(context: Context, memory: Memory, now: Moment) -> tuple[Memory, list[Happening]]:
    """Derive network, flaps, advice and alerts from what was absorbed."""
    host = memory.state.host
    if host is None:
        return memory, []
    memory, news = _judge_network(context, memory, host, now)
    histories, flap_news = links.flaps(host, memory.state.histories, now, context.settings.policy)
    memory = replace(memory, state=replace(memory.state, histories=histories))
    memory = _damp(context.settings.policy, memory, now)
    memory, advice_news = _advise(context.settings.policy, memory, now)
    tracked, alert_news = alerts.track(
        context.identity,
        context.settings.alerts,
        memory.alerts,
        alerts.conditions(context.settings, memory.state),
        now,
    )
    active = tuple(t.alert for t in tracked.values() if t.phase.active)
    memory = replace(memory, alerts=tracked, state=replace(memory.state, alerts=active))
    return memory, [*news, *flap_news, *advice_news, *alert_news]


def _judge_network(
    context: Context, memory: Memory, host: HostNetwork, now: Moment
) -> tuple[Memory, list[Happening]]:
    state = memory.state
    ways = paths.ways_out(context.settings, host, state.ways)
    network, cause = paths.judge(context.settings, host, ways, state.bonds)
    memory = replace(memory, state=replace(state, ways=ways, network=network, cause=cause))
    first = state.network_since.mono_ns == 0
    if network is state.network and not first:
        return memory, []
    data: dict[str, Any] = {"previous": state.network.value, "cause": list(cause)}
    if first:
        data |= {"previous": None, "initial": True}
    else:
        data["lasted_s"] = round(now.seconds_since(state.network_since), 3)
    downs = memory.network_downs
    if network is Network.DOWN and not first:
        downs = (*downs, now.mono_ns)[-context.settings.policy.flap_downs :]
    memory = replace(memory, network_downs=downs, state=replace(memory.state, network_since=now))
    return memory, [Happening(f"network.{network.value}", "network", data, _SEVERITY[network])]


_SEVERITY = {
    Network.OK: Severity.INFO,
    Network.DEGRADED: Severity.WARNING,
    Network.DOWN: Severity.CRITICAL,
    Network.UNKNOWN: Severity.INFO,
}


def _damp(settings: PolicySettings, memory: Memory, now: Moment) -> Memory:
    down = memory.state.network is Network.DOWN
    dark = memory.state.power.state in {PowerState.BATTERY, PowerState.LOW}
    held, settled, battery = _delays(settings)
    return replace(
        memory,
        uploads_held=memory.uploads_held.observe(down, now.mono_ns, held),
        settled_down=memory.settled_down.observe(down, now.mono_ns, settled),
        on_battery=memory.on_battery.observe(dark, now.mono_ns, battery),
    )


def _delays(settings: PolicySettings) -> tuple[Delays, Delays, Delays]:
    """Return the delays of held uploads, of a settled network and of mains power."""
    return (
        Delays(settings.settle_s, settings.resume_s),
        Delays(settings.settle_s, settings.settle_s),
        Delays(0.0, settings.mains_back_s),
    )


def _advise(
    settings: PolicySettings, memory: Memory, now: Moment
) -> tuple[Memory, list[Happening]]:
    state = memory.state
    conditions = policy.Conditions(
        network_held=memory.uploads_held.active,
        network_settled_down=memory.settled_down.active,
        flapping=_network_flaps(settings, memory, now),
        on_battery=memory.on_battery.active,
        power=state.power,
        power_since=state.power_since,
        power_seen=memory.power_seen,
        notices=state.notices,
    )
    advice = policy.advise(settings, conditions, now)
    if advice == state.advice:
        return memory, []
    data = {**advice_document(advice), "cause": list(state.cause)}
    memory = replace(memory, state=replace(state, advice=advice))
    return memory, [Happening("advice.changed", "training", data)]


def _network_flaps(settings: PolicySettings, memory: Memory, now: Moment) -> bool:
    return is_flapping(
        memory.network_downs,
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
    ]
    times += [
        tracked.phase.due_ns(alerts.delays(settings.alerts, urgent=tracked.urgent))
        for tracked in memory.alerts.values()
    ]
    times += [
        flap_end_ns(history.downs, rules.flap_quiet_s)
        for history in memory.state.histories.values()
        if history.flapping
    ]
    if _network_flaps(rules, memory, now):
        times.append(flap_end_ns(memory.network_downs, rules.flap_quiet_s))
    return min((time for time in times if time is not None), default=None)
