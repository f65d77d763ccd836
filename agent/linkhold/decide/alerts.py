"""Alerts: which conditions a person should know of."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.config.settings import LinkSettings, Role
from linkhold.decide import (
    bond_faults,
    bond_paths,
    incident_view,
    keep_view,
    metadata_watch,
    paths,
    power_state,
    reach_view,
    uplink_view,
)
from linkhold.decide.alert_tracking import Condition
from linkhold.decide.keepalive.view import conditions as keepalive_conditions
from linkhold.model import (
    BondView,
    HostNetwork,
    LinkHistory,
    Network,
    NodeState,
    Severity,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.settings import Settings


def conditions(settings: Settings, state: NodeState) -> Iterator[Condition]:
    """Return everything that is wrong in ``state``, with causes from the kernel's log."""
    log = state.kernel_log
    if not log.incidents and not log.problem:
        yield from _told(settings, state)
        return
    found = list(_told(settings, state))
    for one in found:
        yield replace(one, text=one.text + incident_view.cause(log, one))
    yield from incident_view.conditions(log, found)


def _told(settings: Settings, state: NodeState) -> Iterator[Condition]:
    """Return everything that is wrong in ``state``, one condition for one fault.

    A fault that explains another hides it: a network that is down because bond0 is down is one
    alert, whose text names the bond.
    """
    host = state.host or HostNetwork()
    blamed = _blamed(state)
    if state.network is Network.DOWN:
        text = (
            f"network down: {'; '.join(state.cause)}. Uploads are held; "
            "training goes on, except in jobs that asked to hold."
        )
        yield Condition("network.down", "network", Severity.CRITICAL, text)
    for bond in state.bonds:
        found = _bond_conditions(settings, state, bond, explained=bond.index in blamed)
        yield from (one for one in found if not _is_ordered(state, one))
    for index, link in host.links.items():
        history = state.histories.get(index)
        if history is not None and history.flapping:
            often = settings.policy.flap_downs
            text = f"{link.name} flaps: it lost carrier {often} times or more in a short time"
            yield Condition("link.flapping", link.name, Severity.WARNING, text)
        if index not in blamed and _should_carry(settings, state, index, history):
            text = f"{paths.link_trouble(link)}; {_protection(state)}"
            yield Condition("link.down", link.name, Severity.WARNING, text)
    yield from keep_view.conditions(tuple(k for k in state.keeps if k.bond not in state.orders))
    yield from uplink_view.conditions(state.uplinks)
    yield from keepalive_conditions(state.keepalive)
    yield from reach_view.conditions(state.reach, state.network)
    yield from metadata_watch.conditions(state.metadata, state.network)
    yield from _lost_route(state)
    yield from _missing_links(settings, host)
    yield from power_state.conditions(state)
    yield from _agent_conditions(state)


def _is_ordered(state: NodeState, condition: Condition) -> bool:
    """Tell whether a command of linkhold that is at work explains a condition of a bond.

    That nothing carries is told whoever did it.
    """
    return condition.subject in state.orders and condition.severity is not Severity.CRITICAL


def _blamed(state: NodeState) -> frozenset[int]:
    if state.network is not Network.DOWN:
        return frozenset()
    return frozenset(way.index for way in state.ways)


def _bond_conditions(
    settings: Settings, state: NodeState, bond: BondView, *, explained: bool
) -> Iterator[Condition]:
    host = state.host or HostNetwork()
    troubles = _member_troubles(host, bond)
    if not bond.carrier and not explained:
        text = f"{bond.name} carries nothing: {troubles or 'it has no members'}"
        yield Condition("bond.down", bond.name, Severity.CRITICAL, text)
    elif bond.carrier and bond.lost:
        spare = "the rest is still redundant" if bond.redundant else "no spare is left"
        text = (
            f"{bond.name}: {paths.members_left(bond)} ({troubles}); "
            f"{bond.active or 'the rest'} carries, {spare}"
        )
        yield Condition("bond.degraded", bond.name, Severity.WARNING, text, faults=bond.lost)
    for fault in bond_faults.faults(host, bond.index):
        urgent = fault.severity is Severity.CRITICAL
        yield Condition(fault.type, bond.name, fault.severity, fault.text, urgent=urgent)
    yield from _path_conditions(bond, explained=explained)
    if bond.flapping:
        window_s = settings.policy.flap_window_s
        text = f"{bond.name} flaps: {bond_paths.flap_advice(state, bond, window_s)}"
        yield Condition("bond.flapping", bond.name, Severity.WARNING, text)


def _member_troubles(host: HostNetwork, bond: BondView) -> str:
    link = host.links.get(bond.index)
    idle = bond_paths.idle(host, link) if link is not None and bond.active else ""
    troubles = idle or "; ".join(paths.member_troubles(host, bond))
    if not troubles and bond.members:
        return "it has no active member, though members have carrier"
    return troubles


def _path_conditions(bond: BondView, *, explained: bool) -> Iterator[Condition]:
    trouble = bond_paths.trouble(bond)
    if trouble and not explained:
        lost = "" if bond.silent else f"; what goes over {bond.name} is lost"
        text = trouble + lost + (f"; {bond.would} answers" if bond.would else "")
        yield Condition("bond.path_dead", bond.name, Severity.CRITICAL, text)
    dead = [member for member in bond.dead if member.name != bond.active]
    if dead:
        which = "; ".join(f"{member.name}: {member.path_reason}" for member in dead)
        up = "its link is up" if len(dead) == 1 else "their links are up"
        end = (
            "" if bond.redundant else f". If {bond.active or 'the rest'} fails too, nothing is left"
        )
        text = f"{bond.name}: {which}; {up}{end}"
        faults = tuple(member.name for member in dead)
        yield Condition("bond.standby_dead", bond.name, Severity.WARNING, text, faults=faults)
    if bond.locked:
        text = f"{bond.name}: probes moved it too often; it stays with {bond.active} for a minute"
        yield Condition("bond.locked", bond.name, Severity.WARNING, text)


def _lost_route(state: NodeState) -> Iterator[Condition]:
    """A default route that is gone while its link is fine; without any way out it is the cause."""
    if state.network is Network.DOWN:
        return
    for way in state.ways:
        if way.obstacle.startswith(paths.ROUTE_GONE):
            text = f"{way.obstacle}, though {way.link} is up: only its own networks are reachable"
            yield Condition("route.default_lost", way.link, Severity.CRITICAL, text, urgent=True)


def _should_carry(
    settings: Settings, state: NodeState, index: int, history: LinkHistory | None
) -> bool:
    """Tell whether a link that does not carry is a fault of its own.

    A port that was down since first sight is an unused port; one that somebody set down is
    somebody's decision; a member is its bond's matter (a port of a bridge is nobody's).
    """
    host = state.host or HostNetwork()
    link = host.links[index]
    if link.usable or link.port is not None or link.bond is not None:
        return False
    entry = settings.links.get(link.name, LinkSettings())
    if entry.expected or entry.role is Role.FABRIC:
        return True
    return link.admin_up and history is not None and history.seen_up


def _missing_links(settings: Settings, host: HostNetwork) -> Iterator[Condition]:
    for name, entry in settings.links.items():
        if (entry.expected or entry.role is Role.FABRIC) and host.by_name(name) is None:
            text = f"{name} is gone: no such interface"
            yield Condition("link.missing", name, Severity.WARNING, text)


def _protection(state: NodeState) -> str:
    carrying = next((way for way in state.ways if way.carries), None)
    return f"the way out is {carrying.link}" if carrying else "no way out carries"


def _agent_conditions(state: NodeState) -> Iterator[Condition]:
    agent = state.agent
    if "links" in agent.unavailable:
        text = f"the agent does not see the network: {agent.unavailable['links']}"
        yield Condition("agent.sensor", "links", Severity.WARNING, text)
    if agent.outbox.split(":")[0] in {"volatile", "stalled"}:
        text = f"events are kept in memory only: outbox {agent.outbox}"
        yield Condition("agent.outbox", "outbox", Severity.WARNING, text)
    if agent.parked:
        text = f"the fleet's broker refuses {agent.parked} events; they are kept"
        yield Condition("agent.event_parked", "outbox", Severity.WARNING, text)
    if agent.leg_a.startswith("down"):
        text = f"the node's own broker is not running: {agent.leg_a}; trainers read the state file"
        yield Condition("agent.leg_a", "broker", Severity.WARNING, text)
