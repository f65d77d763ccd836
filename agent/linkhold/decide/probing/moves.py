"""Moves of the active member: who may, how often, and when it goes back to the preferred one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.probing.desk import MS, SECOND
from linkhold.decide.probing.values import Activate, Flow, Moving, Trial
from linkhold.decide.readings import BondMoveReading

if TYPE_CHECKING:
    from linkhold.decide.probing.desk import Desk
    from linkhold.decide.probing.values import MemberSight

MINUTE_NS = 60 * SECOND
MOVE_NS = 2 * SECOND
"""A move that is not seen within this has failed."""
RETRY_NS = SECOND
MOST_REFLEXES = 30
"""Reflexes to lost carriers a minute; the kernel's own monitor goes on beyond."""
HOLD_NS, MOST_HOLD_NS, GROWTH = 5 * SECOND, 600 * SECOND, 4
"""The preferred member answers this long before it carries again; longer if it was lost soon."""
SOON_NS = 600 * SECOND
BURST, BURST_NS = 3, 100 * MS
"""The last check before going back: so many probes, all answered."""


def may_move(desk: Desk) -> bool:
    """Tell whether a move because of probes is allowed now."""
    return desk.rules.enforce and desk.bond.moving is None and desk.now_ns >= desk.bond.locked_ns


def leave(desk: Desk, member: MemberSight, reason: str) -> None:
    """Make ``member`` the active one if the rules allow it; beyond the limit lock for a minute."""
    if not may_move(desk):
        return
    recent = tuple(at for at in desk.bond.moves if desk.now_ns - at < MINUTE_NS)
    if len(recent) >= desk.sight.moves_per_minute:
        desk.put(moves=recent, locked_ns=recent[-1] + MINUTE_NS)
        return
    desk.put(moves=(*recent, desk.now_ns))
    _activate(desk, member, reason)


def _activate(desk: Desk, member: MemberSight, reason: str) -> None:
    sight = desk.sight
    moving = Moving(member.name, sight.active, reason, desk.now_ns + MOVE_NS)
    desk.put(moving=moving, trial=None)
    desk.actions.append(
        Activate(sight.name, sight.index, member.name, member.index, sight.active, reason)
    )


def reflex(desk: Desk) -> None:
    """Leave an active member that lost its carrier, without waiting for the kernel's monitor."""
    active = desk.sight.member(desk.sight.active)
    if active is None or active.carrier or not desk.sight.reflex or not desk.rules.enforce:
        return
    if desk.bond.moving is not None and desk.bond.moving.reason == "carrier":
        return
    recent = tuple(at for at in desk.bond.reflexes if desk.now_ns - at < MINUTE_NS)
    if not desk.standbys or len(recent) >= MOST_REFLEXES:
        return
    desk.put(reflexes=(*recent, desk.now_ns))
    _activate(desk, max(desk.standbys, key=lambda member: _worth(desk, member)), "carrier")


def _worth(desk: Desk, member: MemberSight) -> tuple[int, bool]:
    worth = {"alive": 2, "unknown": 1, "dead": 0}[desk.member(member.name).verdict]
    return worth, member.name == desk.sight.preferred


def moved(desk: Desk, member: str, error: str) -> None:
    """Take the kernel's answer to a move; that it happened is shown by a sight."""
    moving = desk.bond.moving
    if error and moving is not None and moving.member == member:
        _tell(desk, moving, error)
        desk.put(moving=None, calm_ns=desk.now_ns + RETRY_NS)


def _tell(desk: Desk, moving: Moving, error: str) -> None:
    name = desk.sight.name
    desk.moved.append(BondMoveReading(name, moving.previous, moving.member, moving.reason, error))


def expire(desk: Desk) -> None:
    """End what has lasted long enough: a move that nobody saw, a lock."""
    moving = desk.bond.moving
    if moving is not None and desk.now_ns >= moving.until_ns:
        desk.put(moving=None)
    if desk.bond.locked_ns and desk.now_ns >= desk.bond.locked_ns:
        desk.put(locked_ns=0)


def changed_active(desk: Desk, before: str) -> None:
    """Another member carries, whoever did that: begin anew with it."""
    preferred, now_ns = desk.sight.preferred, desk.now_ns
    moving = desk.bond.moving
    changes: dict[str, Any] = {}
    if moving is not None and moving.member == desk.sight.active:
        _tell(desk, moving, "")
        changes["moving"] = None
        if moving.reason == "fail_back":
            changes["failed_back_ns"] = now_ns
    if before == preferred:
        _hold(desk)
    desk.put(
        trial=None,
        silence_ns=0,
        calm_ns=0,
        strikes=0,
        silent="",
        **changes,
    )
    desk.flow = Flow(tick_ns=desk.flow.tick_ns)
    if desk.sight.active:
        desk.put_member(desk.sight.active, next_ns=now_ns)


def _hold(desk: Desk) -> None:
    """Let the preferred member wait: it must answer as a standby before it carries again.

    What it answered while it carried does not count: somebody may just have moved away from it.
    """
    name, bond, now_ns = desk.sight.preferred, desk.bond, desk.now_ns
    if desk.member(name).steady_ns:
        desk.put_member(name, steady_ns=now_ns)
    if now_ns < bond.ordered_ns:
        return  # a test is no loss
    soon = bond.failed_back_ns and now_ns - bond.failed_back_ns < SOON_NS
    desk.put(hold_ns=min(bond.hold_ns * GROWTH, MOST_HOLD_NS) if soon else HOLD_NS)


def consider_fail_back(desk: Desk) -> None:
    """Check the preferred member once more when it has answered for long enough."""
    bond = desk.bond
    member = desk.sight.member(desk.sight.preferred)
    if member is None or not member.good or member.name == desk.sight.active:
        return
    if bond.trial is not None or not may_move(desk) or desk.active is None:
        return
    if desk.now_ns < bond.ordered_ns:
        return
    recent = sum(desk.now_ns - at < MINUTE_NS for at in bond.moves)
    if recent >= max(1, desk.sight.moves_per_minute - 1):
        return  # one move is kept for need
    memory, target = desk.member(member.name), desk.witness()
    held = memory.steady_ns and desk.now_ns - memory.steady_ns >= (bond.hold_ns or HOLD_NS)
    if not held or memory.verdict != "alive" or target is None:
        return
    desk.put(trial=Trial("fail_back", target, desk.now_ns))
    advance_fail_back(desk)


def advance_fail_back(desk: Desk) -> None:
    """Go on with the last check; a single miss puts the return off."""
    trial = desk.bond.trial
    member = desk.sight.member(desk.sight.preferred)
    if trial is None or trial.why != "fail_back" or desk.now_ns < trial.next_ns:
        return
    if member is None or not member.good or desk.now_ns < desk.bond.ordered_ns:
        desk.put(trial=None)
        return
    sent, answered = trial.sent.get(member.name, 0), trial.answered.get(member.name, 0)
    if answered < sent:
        desk.put(trial=None)
        desk.put_member(member.name, steady_ns=0)
    elif sent < BURST:
        desk.send(member, trial.target)
        slowest_ns = desk.record(member.name, trial.target).slowest_ns
        next_ns = desk.now_ns + max(BURST_NS, 2 * slowest_ns)
        desk.put(trial=replace(trial, sent={member.name: sent + 1}, next_ns=next_ns))
    else:
        desk.put(trial=None)
        leave(desk, member, "fail_back")
