"""The step: a reading is taken in, what is due is done, what changed is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.probing import moves, slow, trial
from linkhold.decide.probing.desk import MS, Desk
from linkhold.decide.probing.values import (
    Answer,
    BondMemory,
    Counters,
    Flow,
    MemberMemory,
    Memory,
    Moved,
    Ordered,
    Pulse,
    Sights,
    Step,
)
from linkhold.decide.readings import BondPathsReading
from linkhold.model import BondPaths, MemberPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.probing.evidence import Record
    from linkhold.decide.probing.values import BondSight, Reading, Rules, Target

BUSY_TICK_NS, QUIET_TICK_NS = 80 * MS, 500 * MS
"""How often the counters are read: while traffic flows or is missed, and while nothing does."""
FIRST_PROBES_NS = 1000 * MS
"""The first slow probes of a node are spread over this: a fleet may start at one instant."""
BACK_NS = 100 * MS
FLOW_NS, ENOUGH_FRAMES = 1000 * MS, 20


def step(rules: Rules, memory: Memory, reading: Reading, now_ns: int) -> Step:
    """Take one reading in. Pure: equal arguments give an equal step."""
    if isinstance(reading, Sights):
        memory = _roster(memory, reading)
    desks = [
        Desk(rules, bond, memory.flows.get(name) or Flow(), now_ns)
        for name, bond in memory.bonds.items()
    ]
    for desk in desks:
        _take(desk, reading)
        _work(desk)
    bonds = {desk.sight.name: desk.bond for desk in desks}
    flows = {desk.sight.name: desk.flow for desk in desks}
    told = _paths(memory, desks)
    news = () if told == memory.told else (told,)
    return Step(
        Memory(bonds, flows, told),
        tuple(action for desk in desks for action in desk.actions),
        (*(report for desk in desks for report in desk.moved), *news),
        min((at for desk in desks for at in _due(desk)), default=None),
        min((at for desk in desks for at in _look(desk)), default=None),
    )


def _roster(memory: Memory, sights: Sights) -> Memory:
    """Return the memory with exactly the bonds that are to be looked after."""
    bonds = {
        sight.name: memory.bonds.get(sight.name) or BondMemory(replace(sight, members=()))
        for sight in sights.bonds
    }
    return Memory(bonds, memory.flows, memory.told)


def _take(desk: Desk, reading: Reading) -> None:
    name = desk.sight.name
    if isinstance(reading, Sights):
        _see(desk, next(sight for sight in reading.bonds if sight.name == name))
    elif isinstance(reading, Pulse):
        counters = reading.counters.get(name)
        if counters is not None:
            _count(desk, counters)
        else:
            desk.put_flow(tick_ns=desk.now_ns)
    elif reading.bond == name:
        if isinstance(reading, Answer):
            _hear_answer(desk, reading)
        elif isinstance(reading, Moved):
            moves.moved(desk, reading.member, reading.error)
        elif isinstance(reading, Ordered):
            desk.put(ordered_ns=reading.until_ns)


def _work(desk: Desk) -> None:
    """Do what is due."""
    moves.expire(desk)
    moves.advance_fail_back(desk)
    trial.advance(desk)
    bond, waiting_ns = desk.bond, desk.flow.waiting_ns
    if waiting_ns and desk.now_ns - waiting_ns >= (bond.silence_ns or trial.SILENCE_NS):
        trial.suspect(desk, "silence")
    slow.run(desk)
    slow.forget_stale(desk)
    active = desk.active
    again = (bond.strikes and not bond.silent) or (
        active and desk.member(active.name).verdict == "dead"
    )
    if again and desk.bond.trial is None:
        trial.suspect(desk, "confirm")
    moves.consider_fail_back(desk)


# What is seen.


def _see(desk: Desk, sight: BondSight) -> None:
    old = desk.sight
    if sight == old:
        return
    desk.put(sight=sight, members=_members(desk, old, sight))
    known = {target.address for target in sight.targets}
    desk.put(macs={at: mac for at, mac in desk.bond.macs.items() if at in known})
    if desk.bond.trial is not None and desk.bond.trial.target not in sight.targets:
        desk.put(trial=None)
    if sight.active != old.active:
        moves.changed_active(desk, old.active)
    moves.reflex(desk)


def _members(desk: Desk, old: BondSight, sight: BondSight) -> dict[str, MemberMemory]:
    kept = {}
    for member in sight.members:
        before = old.member(member.name)
        memory = desk.member(member.name)
        records = {t: r for t, r in memory.records.items() if t in sight.targets}
        memory = replace(memory, records=records)
        if not member.carrier:
            memory = MemberMemory(_settled(memory), "unknown", "no carrier")
        elif before is None or not before.carrier:
            spread_ns = FIRST_PROBES_NS if before is None else BACK_NS
            next_ns = desk.now_ns + int(desk.roll() * spread_ns)
            memory = MemberMemory(_settled(memory), "unknown", sight.problem, next_ns)
        elif memory.verdict == "unknown" and not sight.targets:
            memory = replace(memory, reason=sight.problem)
        kept[member.name] = memory
    return kept


def _settled(memory: MemberMemory) -> dict[Target, Record]:
    return {t: replace(r, sent_ns=0, pending=0) for t, r in memory.records.items()}


def _count(desk: Desk, counters: Counters) -> None:
    """Compare the active member's counters with those of the tick before."""
    before, old = desk.flow, desk.flow.counters
    heard_ns, waiting_ns = before.heard_ns, before.waiting_ns
    desk.flow = Flow(counters, desk.now_ns, heard_ns, waiting_ns)
    if old is None or old.member != counters.member or counters.member != desk.sight.active:
        return
    if desk.bond.silent:
        _watch_flow(desk, counters)
    if counters.received - old.received > before.own_received:
        _hear_traffic(desk)
    elif counters.sent - old.sent > before.own_sent and not before.waiting_ns:
        desk.put_flow(waiting_ns=before.tick_ns)


def _watch_flow(desk: Desk, counters: Counters) -> None:
    """Believe traffic over a silent target only when it flows both ways: others chatter too.

    A node that cannot resolve its gateway's address can hardly send.
    """
    proof = desk.bond.proof
    if proof is not None and proof.member == counters.member:
        if desk.now_ns - desk.bond.proof_ns < FLOW_NS:
            return
        sent, received = counters.sent - proof.sent, counters.received - proof.received
        if sent >= ENOUGH_FRAMES and 2 * received >= sent:
            desk.put(silent="")
    desk.put(proof=counters, proof_ns=desk.now_ns)


def _hear_traffic(desk: Desk) -> None:
    desk.put_flow(heard_ns=desk.now_ns, waiting_ns=0)
    if desk.bond.silence_ns:
        desk.put(silence_ns=0)
    trial.heard(desk)
    if not desk.bond.silent and desk.member(desk.sight.active).verdict == "unknown":
        desk.judge(desk.sight.active, "alive")


def _hear_answer(desk: Desk, answer: Answer) -> None:
    target = next((t for t in desk.sight.targets if t.address == answer.address), None)
    member = desk.sight.member(answer.member)
    if target is None or member is None or not member.carrier:
        return
    if desk.bond.macs.get(answer.address) != answer.mac:
        desk.put(macs={**desk.bond.macs, answer.address: answer.mac})
    if not answer.solicited:
        return
    slow.answered(desk, member.name, target)
    trial.answered(desk, member.name, target)
    desk.put(silent="")
    if member.name == desk.sight.active:
        desk.put(strikes=0, calm_ns=0)
        desk.put_flow(waiting_ns=0, own_received=desk.flow.own_received + 1)
    elif desk.bond.strikes:
        desk.put(calm_ns=0)  # it is back: is it through the active member too?


# What is told.


def _paths(memory: Memory, desks: list[Desk]) -> BondPathsReading:
    before = {paths.bond: paths for paths in memory.told.bonds} if memory.told else {}
    found = []
    for desk in desks:
        old = before.get(desk.sight.name)
        # While a move is under way its outcome is told, not the instant before it.
        same = desk.bond is memory.bonds.get(desk.sight.name)
        held = same or desk.bond.moving is not None
        found.append(old if held and old is not None else _paths_of(desk))
    return BondPathsReading(tuple(found))


def _paths_of(desk: Desk) -> BondPaths:
    members = []
    would = ""
    for sight in desk.sight.members:
        memory = desk.member(sight.name)
        members.append(MemberPath(sight.name, memory.verdict, memory.reason, memory.died_active))
    active = desk.member(desk.sight.active)
    if active.verdict == "dead" and active.died_active:
        alive = (m.name for m in desk.standbys if desk.member(m.name).verdict == "alive")
        would = next(alive, "")
    locked = bool(desk.bond.locked_ns)
    return BondPaths(desk.sight.name, tuple(members), desk.bond.silent, would, locked)


def _due(desk: Desk) -> Iterator[int]:
    """Yield when something is due whatever the counters say."""
    bond, now_ns = desk.bond, desk.now_ns
    if bond.moving is not None:
        yield bond.moving.until_ns
    if not _probed(bond.sight):
        return
    if bond.trial is not None:
        yield bond.trial.next_ns
    for member in bond.sight.members:
        next_ns = desk.member(member.name).next_ns
        if member.carrier and next_ns > now_ns:
            yield next_ns


def _look(desk: Desk) -> Iterator[int]:
    """Yield when the counters are to be read."""
    now_ns = desk.now_ns
    if not _probed(desk.sight):
        return
    fast = desk.busy or desk.flow.waiting_ns or desk.bond.trial is not None
    tick_ns = BUSY_TICK_NS if fast else QUIET_TICK_NS
    yield max(desk.flow.tick_ns, now_ns - tick_ns) + tick_ns


def _probed(sight: BondSight) -> bool:
    return bool(sight.targets) and any(member.carrier for member in sight.members)
