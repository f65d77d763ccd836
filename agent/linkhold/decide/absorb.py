"""Taking a reading in: what it changes in the state, before anything is derived from it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide import (
    bond_faults,
    bond_paths,
    bonds,
    links,
    maintenance,
    metadata_watch,
    power_state,
    reach_view,
)
from linkhold.decide.happening import Happening
from linkhold.decide.readings import (
    AgentReading,
    BondKeepsReading,
    BondMoveReading,
    BondPathsReading,
    KeepaliveReading,
    KernelLogNews,
    LegReading,
    MaintenanceReading,
    MetadataReading,
    NetworkReading,
    NoticesReading,
    OperatorHoldsReading,
    OrderReading,
    OutboxReading,
    OverflowReading,
    ParkedReading,
    PowerReading,
    ReachReading,
    Reading,
    ReplayReading,
    SensorReading,
    UplinksReading,
    health_text,
)
from linkhold.model import Moment, Severity

if TYPE_CHECKING:
    from linkhold.decide.memory import Context, Memory
    from linkhold.model import NodeState


ProbeReading = (BondPathsReading, BondMoveReading, UplinksReading, ReachReading, MetadataReading)


def absorb(
    context: Context, memory: Memory, reading: Reading, now: Moment
) -> tuple[NodeState, list[Happening]]:
    """Return the state with ``reading`` in it, and what that reading says happened."""
    if isinstance(reading, NetworkReading):
        return _see_network(context, memory, reading, now)
    if isinstance(reading, (PowerReading, NoticesReading)):
        return power_state.see(memory.state, reading, now)
    if isinstance(reading, ProbeReading):
        return _see_probes(memory.state, reading, now)
    if isinstance(reading, (BondKeepsReading, KeepaliveReading, KernelLogNews, OrderReading)):
        return _see_kept(memory.state, reading)
    if isinstance(reading, (OperatorHoldsReading, MaintenanceReading)):
        return _see_people(memory.state, reading, now)
    return _see_agent(memory.state, reading)


def _see_people(
    state: NodeState, reading: OperatorHoldsReading | MaintenanceReading, now: Moment
) -> tuple[NodeState, list[Happening]]:
    """Take in what people on call ask for."""
    if isinstance(reading, MaintenanceReading):
        return maintenance.see(state, reading, now)
    return replace(state, holds=reading.holds), list(reading.news)


def _see_network(
    context: Context, memory: Memory, reading: NetworkReading, now: Moment
) -> tuple[NodeState, list[Happening]]:
    state, host = memory.state, reading.network
    views = bonds.views(host, state.bond_paths)
    if state.host is None:
        found, mark = links.first_sight(host) + bonds.first_sight(views), ""
    else:
        found = links.compare(state.host, host, state.histories, now)
        found += bonds.compare(state.bonds, views)
        found = [_ordered(state, happening) for happening in found]
        mark = "while_absent" if memory.restored else "resynced" if reading.resynced else ""
    found += bond_faults.compare(state.host, host)
    if mark:
        found = [replace(h, data={**h.data, mark: True}) for h in found]
    if reading.resynced:
        data = {"reason": reading.resynced, "changes": len(found)}
        found.insert(0, Happening("agent.resynced", "network", data, Severity.WARNING))
    histories = links.remember(
        state.host, host, state.histories, now, context.settings.policy.flap_downs
    )
    keep = context.settings.policy.flap_downs
    before = tuple(bond for bond in state.bonds if bond.name not in state.orders)
    changes = bond_paths.remember(state.bond_changes, before, views, now, keep)
    seen = replace(state, host=host, bonds=views, bond_changes=changes, histories=histories)
    return seen, found


def _see_order(state: NodeState, reading: OrderReading) -> NodeState:
    others = {bond: action for bond, action in state.orders.items() if bond != reading.bond}
    added = {reading.bond: reading.action} if reading.action else {}
    return replace(state, orders={**others, **added})


def _ordered(state: NodeState, happening: Happening) -> Happening:
    """Return what happened to a bond: by order it is information, but an outage stays one."""
    action = state.orders.get(happening.subject)
    if action is None:
        return happening
    calm = happening.severity is not Severity.CRITICAL
    severity = Severity.INFO if calm else happening.severity
    return replace(happening, severity=severity, data={**happening.data, "ordered": action})


def _see_probes(
    state: NodeState,
    reading: BondPathsReading | BondMoveReading | UplinksReading | ReachReading | MetadataReading,
    now: Moment,
) -> tuple[NodeState, list[Happening]]:
    if isinstance(reading, (ReachReading, MetadataReading)):
        return _see_beyond(state, reading, now)
    if isinstance(reading, BondMoveReading):
        return state, [bond_paths.moved(reading)]
    if isinstance(reading, UplinksReading):
        return replace(state, uplinks=reading.uplinks), list(reading.news)
    found = list(bond_paths.compare(state.bond_paths, reading.bonds))
    views = bonds.views(state.host, reading.bonds) if state.host else state.bonds
    return replace(state, bonds=views, bond_paths=reading.bonds), found


def _see_beyond(
    state: NodeState, reading: ReachReading | MetadataReading, now: Moment
) -> tuple[NodeState, list[Happening]]:
    if isinstance(reading, MetadataReading):
        news = metadata_watch.compare(state.metadata, reading.metadata, now.mono_ns)
        return replace(state, metadata=reading.metadata), list(news)
    found = reach_view.compare(state.reach, reading.causes, reading.probes, now.mono_ns)
    return replace(state, reach=reading.causes, probes=reading.probes), found


def _see_kept(
    state: NodeState,
    reading: BondKeepsReading | KeepaliveReading | KernelLogNews | OrderReading,
) -> tuple[NodeState, list[Happening]]:
    if isinstance(reading, OrderReading):
        return _see_order(state, reading), []
    if isinstance(reading, KeepaliveReading):
        return replace(state, keepalive=reading.keepalive), list(reading.news)
    if isinstance(reading, KernelLogNews):
        return replace(state, kernel_log=reading.kernel_log), list(reading.news)
    return replace(state, keeps=reading.keeps), list(reading.news)


def _see_agent(state: NodeState, reading: Reading) -> tuple[NodeState, list[Happening]]:
    agent = state.agent
    news: list[Happening] = []
    if isinstance(reading, LegReading):
        status = health_text(reading.status, reading.reason)
        before = agent.leg_a if reading.leg == "a" else agent.leg_b
        agent = replace(agent, leg_a=status) if reading.leg == "a" else replace(agent, leg_b=status)
        if status != before:
            news.append(_health(f"agent.leg_{reading.leg}", reading.status, reading.reason))
    elif isinstance(reading, OutboxReading):
        status = health_text(reading.status, reading.reason)
        if status != agent.outbox and (agent.outbox, status) != ("starting", "ok"):
            news.append(_health("agent.outbox", reading.status, reading.reason))
        agent = replace(agent, outbox=status, pending=reading.pending, parked=reading.parked)
    elif isinstance(reading, SensorReading):
        blind = {"links": reading.reason} if reading.status == "blind" else {}
        if blind != agent.unavailable:
            news.append(_health("agent.sensor", reading.status, reading.reason))
        agent = replace(agent, unavailable=blind)
    else:
        news += _agent_news(reading)
    return replace(state, agent=agent), news


def _health(kind: str, status: str, reason: str) -> Happening:
    good = status in {"up", "ok", "off", "starting", "connecting"}
    severity = Severity.INFO if good else Severity.WARNING
    return Happening(kind, "agent", {"status": status, "reason": reason}, severity)


def _agent_news(reading: Reading) -> list[Happening]:
    if isinstance(reading, AgentReading):
        severity = Severity.WARNING if reading.what == "config_rejected" else Severity.INFO
        return [Happening(f"agent.{reading.what}", "agent", reading.data, severity)]
    if isinstance(reading, OverflowReading):
        data: dict[str, Any] = {
            "count": reading.count,
            "first": reading.first,
            "last": reading.last,
        }
        return [Happening("agent.outbox_overflow", "outbox", data, Severity.WARNING)]
    if isinstance(reading, ParkedReading):
        data = {"id": reading.event_id, "reason": reading.reason}
        return [Happening("agent.event_parked", "outbox", data, Severity.WARNING)]
    if isinstance(reading, ReplayReading):
        data = {
            "request": reading.request,
            "count": reading.count,
            "missing": reading.missing,
            "first": reading.first,
            "last": reading.last,
        }
        return [Happening("agent.replayed", "outbox", data)]
    return []
