"""Trials: fast probes through all members at once, until it is clear whose path works."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.probing import moves
from linkhold.decide.probing.desk import MS, SECOND
from linkhold.decide.probing.evidence import (
    MOST_MISSES,
    QUIET_DOUBT,
    SUDDEN_DOUBT,
    SUDDEN_QUIET_DOUBT,
    URGENT_DOUBT,
    needed,
)
from linkhold.decide.probing.values import Trial

if TYPE_CHECKING:
    from linkhold.decide.probing.desk import Desk
    from linkhold.decide.probing.values import MemberSight, Target

FIRST_NS, LEAST_NS, MOST_NS = 10 * MS, 30 * MS, 200 * MS
"""Time from the first probe to the first round, and least and most time between rounds."""
SILENCE_NS, MOST_SILENCE_NS = 80 * MS, SECOND
"""Sent and nothing received for this long is suspicious; doubled after each false alarm."""
BUDGET, BUDGET_NS = 4, 4 * SECOND
"""At most so many trials for silence in this time: one-way senders give false alarms."""
WAITING = frozenset({"silence", "lull"})
"""Trials because somebody waits for answers: who had some a second ago, or a one-way sender."""
ENOUGH_ANSWERS = 3
CONFIRM_NS, MOST_PAUSE_NS = SECOND // 2, 30 * SECOND
"""Time until a trial in which nobody answered is repeated; it doubles."""
UNCLEAR_NS = 2 * SECOND


def suspect(desk: Desk, why: str) -> None:
    """Start a trial of the active member, unless there is a reason not to."""
    bond, now_ns = desk.bond, desk.now_ns
    if bond.trial is not None and bond.trial.why != "fail_back":
        return
    if bond.silent:
        return  # the slow probes notice when it is back
    if desk.active is None or bond.moving is not None or now_ns < bond.calm_ns:
        return
    if desk.member(desk.active.name).verdict == "dead" and not moves.may_move(desk):
        return  # known, and nothing could be done
    target = desk.witness()
    if target is None or target.address not in bond.macs:
        return  # a target that was never heard of proves nothing, and would be a broadcast storm
    if why == "silence":
        recent = tuple(at for at in bond.trials if now_ns - at < BUDGET_NS)
        if len(recent) >= BUDGET:
            desk.put(calm_ns=recent[0] + BUDGET_NS)
            return
        desk.put(trials=(*recent, now_ns))
        why = "silence" if desk.busy else "lull"
    desk.put(trial=Trial(why, target, now_ns))
    advance(desk)


def advance(desk: Desk) -> None:
    """Go on with a trial whose next round is due."""
    trial, active = desk.bond.trial, desk.active
    if trial is None or trial.why == "fail_back" or desk.now_ns < trial.next_ns:
        return
    if active is None:
        desk.put(trial=None)
        return
    lost = trial.sent.get(active.name, 0)
    standbys = desk.standbys
    if lost < _need(desk, trial, active):
        _round(desk, trial, active)
        return
    proven = [member for member in standbys if _proves(trial, member.name, lost)]
    if proven:
        best = max(proven, key=lambda m: (trial.answered[m.name], m.name == desk.sight.preferred))
        _dead(desk, trial, active, best)
    elif not any(trial.answered.get(member.name) for member in standbys):
        _silent(desk, trial)
    elif lost < MOST_MISSES:
        _round(desk, trial, active)
    else:  # the standby loses too many to be better, and the active one all: wait for more
        desk.put(trial=None, calm_ns=desk.now_ns + UNCLEAR_NS)


def _need(desk: Desk, trial: Trial, active: MemberSight) -> int:
    record = desk.judged_by(active.name, trial.target)
    if trial.why == "silence":
        misses = needed(record.loss, URGENT_DOUBT)
    else:
        misses = needed(record.cautious_loss, QUIET_DOUBT)
    return min(misses * (2 if trial.heard else 1), MOST_MISSES)


def _proves(trial: Trial, name: str, lost: int) -> bool:
    """Tell whether a standby answers so well that the active one's silence is its own."""
    sent, answered = trial.sent.get(name, 0), trial.answered.get(name, 0)
    if answered < ENOUGH_ANSWERS or (trial.heard and answered < sent):
        return False
    by_chance = (sent - answered + 0.5) / (sent + 1)
    doubt = SUDDEN_DOUBT if trial.why == "silence" else SUDDEN_QUIET_DOUBT
    return float(by_chance**lost) < doubt


def _round(desk: Desk, trial: Trial, active: MemberSight) -> None:
    """Send through the active member, and from the second time on through its standbys too.

    The last one that is needed is a broadcast: the target may have another MAC by now (VRRP
    without a virtual MAC, a replaced gateway).
    """
    number = trial.sent.get(active.name, 0)
    members = (active, *desk.standbys) if number else (active,)
    last = number == _need(desk, trial, active) - 1
    for member in members:
        desk.send(member, trial.target, broadcast=last and member is active)
    slowest_ns = max(desk.record(member.name, trial.target).slowest_ns for member in members)
    pause_ns = max(LEAST_NS, 2 * slowest_ns) if number else max(FIRST_NS, 3 * slowest_ns)
    sent = {**trial.sent, **{m.name: trial.sent.get(m.name, 0) + 1 for m in members}}
    desk.put(trial=replace(trial, sent=sent, next_ns=desk.now_ns + min(pause_ns, MOST_NS)))


def _dead(desk: Desk, trial: Trial, active: MemberSight, best: MemberSight) -> None:
    address = trial.target.address
    desk.put(trial=None, strikes=0, silent="")
    desk.judge(active.name, "dead", f"no answer from {address}")
    moves.leave(desk, best, "path_dead")


def _silent(desk: Desk, trial: Trial) -> None:
    """Nobody answered through any member: try the next target, else blame the targets."""
    tried = (*trial.tried, trial.target)
    target = desk.witness(tried)
    if target is not None and target.address in desk.bond.macs:
        desk.put(trial=Trial(trial.why, target, desk.now_ns, heard=trial.heard, tried=tried))
        advance(desk)
        return
    strikes = desk.bond.strikes + 1
    pause_ns = min(CONFIRM_NS << min(strikes - 1, 10), MOST_PAUSE_NS)
    calm_ns = desk.now_ns + int(pause_ns * (0.75 + desk.roll() / 2))
    desk.put(trial=None, strikes=strikes, calm_ns=calm_ns)
    if strikes > 1 and not trial.heard:
        _blame(desk, tried)


def _blame(desk: Desk, tried: tuple[Target, ...]) -> None:
    """Blame the targets, unless only paths were left to ask through that were dead before."""
    left = [member for member in desk.sight.members if member.carrier]
    if all(desk.member(member.name).verdict == "dead" for member in left):
        return
    asked = ", ".join(target.address for target in tried)
    verb = "does" if len(tried) == 1 else "do"
    desk.put(silent=f"{asked} {verb} not answer", proof=None)
    for member in left:
        desk.judge(member.name, "unknown", f"{asked} {verb} not answer through any member")


def answered(desk: Desk, member: str, target: Target) -> None:
    """Count an answer in the trial that runs; one through the active member ends it."""
    trial = desk.bond.trial
    if trial is None:
        return
    if member == desk.sight.active and trial.why != "fail_back":
        silence_ns = desk.bond.silence_ns or SILENCE_NS
        if trial.why in WAITING:
            silence_ns = min(2 * silence_ns, MOST_SILENCE_NS)
        desk.put(trial=None, silence_ns=silence_ns)
    elif target == trial.target and trial.answered.get(member, 0) < trial.sent.get(member, 0):
        count = trial.answered.get(member, 0) + 1
        desk.put(trial=replace(trial, answered={**trial.answered, member: count}))


def heard(desk: Desk) -> None:
    """Take note that traffic was received through the active member."""
    trial = desk.bond.trial
    if trial is None or trial.why == "fail_back":
        return
    # What was waited for has come; but a probe without answer needs an explanation all the same.
    desk.put(trial=None if trial.why in WAITING else replace(trial, heard=True))
