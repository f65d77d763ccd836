"""One step: take a reading in, judge, ask, repair, tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.keeping import mend
from linkhold.decide.keeping.desk import Desk
from linkhold.decide.keeping.judge import SETTLE_NS, interfaces, judge, settled, tell
from linkhold.decide.keeping.nics import notes
from linkhold.decide.keeping.values import (
    Ended,
    Found,
    HostSeen,
    Inquire,
    JournalSeen,
    Reloaded,
    Step,
)
from linkhold.decide.readings import BondKeepsReading
from linkhold.model import BondKeep

PAUSE_NS = SETTLE_NS
"""An inquiry reads all of /proc: at most one in this time."""

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.keeping.values import BondMemory, Memory, Reading, Rules


def step(rules: Rules, memory: Memory, reading: Reading, now_ns: int) -> Step:
    """Take one reading in and decide. Pure: equal arguments give an equal outcome."""
    desk = Desk(rules, memory, now_ns)
    _take(desk, reading)
    gone = memory.bonds.keys() - rules.bonds.keys()
    if gone:
        desk.put(bonds={n: b for n, b in desk.memory.bonds.items() if n not in gone})
    for name in rules.bonds:
        conflict = desk.bond(name).conflict
        if conflict is not None and now_ns >= conflict.until_ns:
            mend.forgive(desk, name, "an hour has passed")
        judge(desk, name)
    if isinstance(reading, Found):
        for name in rules.bonds:
            _follow(desk, name, reading)
    _inquire(desk)
    report = _report(desk)
    return Step(desk.memory, tuple(desk.actions), report, _wake_ns(desk))


def _take(desk: Desk, reading: Reading) -> None:
    memory = desk.memory
    if isinstance(reading, HostSeen):
        nics = notes(memory.host, reading.host, memory.nics, desk.now_ns)
        desk.put(host=reading.host, nics=nics)
    elif isinstance(reading, Ended):
        mend.ended(desk, reading)
    elif isinstance(reading, Reloaded):
        for name in desk.rules.bonds:
            mend.forgive(desk, name, "the configuration was read again")
    elif isinstance(reading, JournalSeen):
        _see_journal(desk, reading)
    elif isinstance(reading, Found):
        desk.put(asking=False, found=reading)
        _see_journal(desk, reading.journal)


def _see_journal(desk: Desk, journal: JournalSeen) -> None:
    if not desk.running:  # else it may be our own change
        mend.by_hand(desk, desk.memory.journal, journal)
    desk.put(journal=journal)


def _follow(desk: Desk, name: str, found: Found) -> None:
    """Tell and mend what the inquiry was about."""
    bond = desk.bond(name)
    if name == desk.running or not bond.drift:
        return
    mend.notice(desk, name)
    tell(desk, name, found)
    mend.mend(desk, name)


def _inquire(desk: Desk) -> None:
    host = desk.memory.host
    if desk.memory.asking or host is None or desk.memory.journal is None:
        return
    if desk.now_ns < desk.memory.asked_ns + PAUSE_NS:
        return
    if any(_wants_inquiry(desk, name) for name in desk.rules.bonds):
        desk.actions.append(Inquire(interfaces(desk, host)))
        desk.put(asking=True, asked_ns=desk.now_ns)


def _wants_inquiry(desk: Desk, name: str) -> bool:
    bond = desk.bond(name)
    if name in {desk.running, desk.busy} or bond.conflict is not None:
        return False
    if desk.now_ns < bond.look_ns:
        return False
    if any(drift.key not in bond.told for drift in settled(desk, bond)):
        return True
    return not desk.running and bool(_waiting(desk, bond))


def _waiting(desk: Desk, bond: BondMemory) -> bool:
    """Tell whether a repair is due now."""
    return bool(mend.repairable(desk, bond)) and desk.now_ns >= mend.due_ns(bond, desk.now_ns)


def _report(desk: Desk) -> BondKeepsReading | None:
    """Return what the core should know, None when that is nothing new."""
    keeps = tuple(
        _keep(desk, name, bond) for name in desk.rules.bonds if (bond := desk.bond(name)).judged
    )
    if keeps == desk.memory.told and not desk.news:
        return None
    desk.put(told=keeps)
    return BondKeepsReading(keeps, tuple(desk.news))


def _keep(desk: Desk, name: str, bond: BondMemory) -> BondKeep:
    members = len(desk.rules.bonds[name].members)
    return BondKeep(name, bond.applied, members, bond.drift, bond.conflict, _doing(desk, bond))


def _doing(desk: Desk, bond: BondMemory) -> str:
    """Return in words what is done about the drift."""
    if bond.mending_ns:
        return "running"
    if bond.conflict is not None or all(drift.obstacle for drift in bond.drift):
        return ""
    if not desk.rules.enforce:
        return "observe only"
    return f"waits, since it failed {bond.failures} times" if bond.failures else "is due"


def _wake_ns(desk: Desk) -> int | None:
    """Return when time alone will change something."""
    times = (time for name in desk.rules.bonds for time in _times(desk, desk.bond(name)))
    return min((time for time in times if time > desk.now_ns), default=None)


def _times(desk: Desk, bond: BondMemory) -> Iterator[int]:
    if bond.conflict is not None:
        yield bond.conflict.until_ns
    if desk.memory.asking or desk.memory.journal is None or not bond.drift:
        return
    pause_ns = desk.memory.asked_ns + PAUSE_NS
    for drift in bond.drift:
        if drift.key not in bond.told or not drift.obstacle:
            yield max(bond.since[drift.key] + SETTLE_NS, bond.look_ns, pause_ns)
    yield max(mend.due_ns(bond, desk.now_ns), pause_ns)
