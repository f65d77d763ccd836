"""Slow probes: they find what no traffic shows, and keep the targets' records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.probing import trial
from linkhold.decide.probing.desk import MS, SECOND
from linkhold.decide.probing.evidence import MOST_MISSES, QUIET_DOUBT, needed

if TYPE_CHECKING:
    from linkhold.decide.probing.desk import Desk
    from linkhold.decide.probing.evidence import Record
    from linkhold.decide.probing.values import MemberSight, Target

QUIET_NS, BUSY_NS = SECOND, 2 * SECOND
"""Pause between probes of a member: of the active one BUSY_NS while it receives traffic."""
CHECK_NS = SECOND // 4
"""Pause while a standby is in doubt, or a dead one answers again."""
SOON_NS = 300 * MS
JUST_NOW_NS = 600 * MS
PATIENCE_NS, STANDBY_PATIENCE_NS = 100 * MS, 240 * MS
"""A slow probe without answer for this long, or three times the slowest answer, is a miss."""
BACK_ALIVE = 3
"""A dead path that answers this often in a row is alive again."""
EASED = ((0.5, 8), (0.3, 4), (0.1, 2))
"""At a target that loses this share the pauses grow so much: it has too much to do already."""
ENOUGH_TO_EASE = 8
OTHER_TARGET = 1 / 8
"""This share of the active member's probes goes to a target other than the first."""
BROADCAST_EVERY = 4
MUTE_STRIKES = 3


def run(desk: Desk) -> None:
    """Take the misses in and send what is due. A trial that runs does both itself."""
    if not desk.sight.targets or desk.bond.trial is not None or desk.bond.moving is not None:
        return
    for member in desk.sight.members:
        if member.carrier:
            _expect(desk, member)
    if desk.bond.trial is not None:
        return
    target = desk.witness() or desk.sight.targets[0]
    # One wake-up for those that are due and those that are soon.
    due = [member for member in desk.sight.members if member.carrier]
    if any(desk.now_ns >= desk.member(member.name).next_ns for member in due):
        for member in due:
            if desk.now_ns >= desk.member(member.name).next_ns - SOON_NS:
                _probe(desk, member, target)


def _expect(desk: Desk, member: MemberSight) -> None:
    for target, record in desk.member(member.name).records.items():
        least_ns = PATIENCE_NS if member.name == desk.sight.active else STANDBY_PATIENCE_NS
        patience_ns = max(least_ns, 3 * record.slowest_ns)
        if record.sent_ns and desk.now_ns - record.sent_ns >= patience_ns:
            desk.put_record(member.name, target, record.missed())
            desk.put_member(member.name, steady_ns=0, revived=0)
            _missed(desk, member, target)


def _missed(desk: Desk, member: MemberSight, target: Target) -> None:
    if member.name != desk.sight.active:
        _standby_missed(desk, member, target)
    elif target == desk.witness():
        trial.suspect(desk, "miss")


def _standby_missed(desk: Desk, member: MemberSight, target: Target) -> None:
    """A standby is dead when it is silent and the active member answers at the same time."""
    record = desk.record(member.name, target)
    if not record.known or desk.member(member.name).verdict == "dead":
        return
    loss = desk.judged_by(member.name, target).cautious_loss
    if record.pending < min(needed(loss, QUIET_DOUBT), MOST_MISSES):
        return
    active = desk.active
    if active is None:
        return
    proof = desk.record(active.name, target)
    if proof.known and not proof.pending and desk.now_ns - proof.answered_ns < JUST_NOW_NS:
        reason = f"no answer from {target.address} through it"
        desk.judge(member.name, "dead", reason)
    elif not proof.sent_ns:
        desk.send(active, target)  # the next miss of the standby is then judged by its answer


def _probe(desk: Desk, member: MemberSight, target: Target) -> None:
    memory = desk.member(member.name)
    active = member.name == desk.sight.active
    record = desk.record(member.name, target)
    pause_ns = int(_pause_ns(desk, member, record) * (0.75 + desk.roll() / 2))
    desk.put_member(member.name, next_ns=desk.now_ns + pause_ns)
    if memory.verdict != "dead" and desk.now_ns - record.answered_ns < pause_ns // 2:
        return  # a trial has just asked
    if active and desk.bond.silent:
        for each in desk.sight.targets:  # any of them may come back, with another MAC
            desk.send(member, each, broadcast=True)
        return
    others = [other for other in desk.sight.targets if other != target]
    if active and others and desk.roll() < OTHER_TARGET:
        target = others[int(desk.roll() * len(others))]
        record = desk.record(member.name, target)
    broadcast = active and record.pending % BROADCAST_EVERY == BROADCAST_EVERY - 1
    desk.send(member, target, broadcast=broadcast)


def _pause_ns(desk: Desk, member: MemberSight, record: Record) -> int:
    active = member.name == desk.sight.active
    memory = desk.member(member.name)
    factor = ease(record)
    if not record.known:
        # Broadcasts, for all we know to nobody; or a VF whose probes are filtered.
        return QUIET_NS << min(record.pending // (4 if desk.bond.macs else 1), 5)
    if memory.revived:
        return CHECK_NS
    doubtful = not active and record.known and record.pending and memory.verdict != "dead"
    if doubtful and factor == 1 and not desk.bond.strikes:
        return CHECK_NS
    pause_ns = BUSY_NS if active and desk.busy else QUIET_NS
    if desk.bond.silent or desk.bond.strikes >= MUTE_STRIKES:
        factor = max(factor, min(1 + record.pending // 8, 4))
    return pause_ns * factor


def ease(record: Record) -> int:
    """Return by how much the pauses grow at a target with this record."""
    if record.count < ENOUGH_TO_EASE:
        return 1
    return next((factor for share, factor in EASED if record.loss > share), 1)


def answered(desk: Desk, name: str, target: Target) -> None:
    """Take in that a target answered through a member."""
    memory = desk.member(name)
    record = desk.record(name, target).answered(desk.now_ns, dead=memory.verdict == "dead")
    desk.put_record(name, target, record)
    memory = desk.member(name)
    steady_ns = memory.steady_ns or desk.now_ns
    if memory.verdict != "dead":
        desk.judge(name, "alive")
        desk.put_member(name, steady_ns=steady_ns)
        return
    revived = memory.revived + 1
    desk.put_member(name, revived=revived, next_ns=desk.now_ns + CHECK_NS)
    if revived >= BACK_ALIVE:
        desk.judge(name, "alive")


def forget_stale(desk: Desk) -> None:
    """Call a dead path unknown once nobody answers on the others either: no comparison is left.

    Where no other has a link, nobody was asked since it was found dead, and it stays so.
    """
    for member in desk.sight.members:
        if desk.member(member.name).verdict != "dead":
            continue
        others = [o.name for o in desk.sight.members if o.carrier and o.name != member.name]
        if others and not any(desk.answered_lately(other) for other in others):
            desk.judge(member.name, "unknown", "no other member has answers either")
