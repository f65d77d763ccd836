"""When a bond is repaired, when somebody undid it, and when to give in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.keeping.blame import blame
from linkhold.decide.keeping.desk import SECOND
from linkhold.decide.keeping.judge import members_of, settled
from linkhold.decide.keeping.values import Repair
from linkhold.model import Conflict, Severity

if TYPE_CHECKING:
    from linkhold.decide.keeping.desk import Desk
    from linkhold.decide.keeping.values import BondMemory, Ended, JournalSeen
    from linkhold.model import Drift

HOUR_NS = 3600 * SECOND
MOST_PER_HOUR = 6
UNDONE_WINDOW_NS = 600 * SECOND
UNDONE_MOST = 2
"""Who undoes a repair so often within the window wins."""
AFTER_SUCCESS_NS = 2 * SECOND
FIRST_WAIT_NS, WAIT_GROWTH, LONGEST_WAIT_NS = 15 * SECOND, 4, HOUR_NS
"""After a failure: 15 s, 1 min, 4 min, 16 min, then an hour."""
LOOK_AGAIN_NS = 5 * SECOND
"""While another change is at work; the journal is read as often."""


def due_ns(bond: BondMemory, now_ns: int) -> int:
    """Return the time before which a bond is not repaired: waiting times and the hourly limit."""
    starts = [start for start in bond.starts if now_ns - start < HOUR_NS]
    full = starts[0] + HOUR_NS if len(starts) >= MOST_PER_HOUR else 0
    return max(bond.next_ns, full)


def repairable(desk: Desk, bond: BondMemory) -> tuple[Drift, ...]:
    """Return the drifts that count and that a repair would mend."""
    if not desk.rules.enforce or bond.conflict is not None:
        return ()
    return tuple(drift for drift in settled(desk, bond) if not drift.obstacle)


def notice(desk: Desk, name: str) -> None:
    """See whether somebody undid what the last repair mended."""
    bond = desk.bond(name)
    back = [drift for drift in repairable(desk, bond) if drift.key in bond.fixed]
    if back:
        _note_undone(desk, name, back)


def mend(desk: Desk, name: str) -> None:
    """Start a repair of one bond if it needs one and may have one now."""
    bond = desk.bond(name)
    todo = repairable(desk, bond)
    if not todo:
        return
    if desk.running or desk.busy:
        desk.put_bond(name, look_ns=desk.now_ns + LOOK_AGAIN_NS)
        return
    if desk.now_ns < due_ns(bond, desk.now_ns):
        return
    starts = (*(s for s in bond.starts if desk.now_ns - s < HOUR_NS), desk.now_ns)
    desk.put_bond(name, starts=starts, mending=todo, mending_ns=desk.now_ns)
    desk.actions.append(Repair(name, _spare(desk, name)))


def _spare(desk: Desk, name: str) -> tuple[str, ...]:
    """Return the members outside of bonds that somebody set down."""
    host, notes = desk.memory.host, desk.memory.nics
    members = members_of(desk, name)
    links = host.links.values() if host else ()
    standing = host is not None and host.by_name(name) is not None
    down = {index for index, note in notes.items() if note.decided(standing=standing)}
    spared = (link.name for link in links if link.master is None and link.index in down)
    return tuple(sorted(set(spared).intersection(members)))


def _note_undone(desk: Desk, name: str, back: list[Drift]) -> BondMemory:
    """Count that somebody undid a repair; the second time in a while makes a conflict."""
    bond = desk.bond(name)
    recent = tuple(t for t in bond.undone if desk.now_ns - t < UNDONE_WINDOW_NS)
    undone = (*recent, desk.now_ns)
    bond = desk.put_bond(name, undone=undone, fixed=frozenset())
    if len(undone) < UNDONE_MOST:
        return bond
    what = "; ".join(drift.text for drift in back)
    began_ns = bond.since.get(back[0].key, desk.now_ns)
    by = blame(back[0], name, members_of(desk, name), began_ns, desk.memory.found)
    desk.say("bond.config_conflict", name, Severity.WARNING, what=what, by=by)
    conflict = Conflict(what, by, desk.now_ns, desk.now_ns + HOUR_NS)
    return desk.put_bond(name, conflict=conflict)


def ended(desk: Desk, reading: Ended) -> None:
    """Take the outcome of a repair."""
    name = reading.bond
    bond = desk.bond(name)
    desk.put(journal=reading.journal)
    if not bond.mending_ns:
        return
    took_s = round((desk.now_ns - bond.mending_ns) / SECOND, 3)
    if not reading.error:
        what = "; ".join(drift.text for drift in bond.mending)
        desk.say("bond.repaired", name, what=what, took_s=took_s)
        desk.put_bond(
            name,
            fixed=frozenset(drift.key for drift in bond.mending),
            failures=0,
            next_ns=desk.now_ns + AFTER_SUCCESS_NS,
            mending=(),
            mending_ns=0,
        )
        return
    _failed(desk, name, bond, reading.error)


def _failed(desk: Desk, name: str, bond: BondMemory, error: str) -> None:
    wait_ns = min(LONGEST_WAIT_NS, FIRST_WAIT_NS * WAIT_GROWTH ** min(bond.failures, 8))
    desk.put_bond(
        name,
        failures=bond.failures + 1,
        next_ns=desk.now_ns + wait_ns,
        mending=(),
        mending_ns=0,
    )
    undone = [drift for drift in bond.mending if _undone_meanwhile(name, drift, error)]
    bond = _note_undone(desk, name, undone) if undone else desk.bond(name)
    retry_s = None if bond.conflict else round(wait_ns / SECOND)
    desk.say("bond.repair_failed", name, Severity.WARNING, reason=error, retry_s=retry_s)


def _undone_meanwhile(bond: str, drift: Drift, error: str) -> bool:
    """Tell whether a repair failed since somebody undid it while it was watched.

    These are the words of :mod:`linkhold.actuators.checks`.
    """
    words = {
        "gone": f"{bond} is not there",
        "member_left": f"{drift.subject} is not in {bond}",
        "option": f"{bond}: {drift.subject} is ",
    }
    return drift.kind in words and words[drift.kind] in error


def by_hand(desk: Desk, before: JournalSeen | None, after: JournalSeen) -> None:
    """End a conflict when somebody changed the bond with linkhold meanwhile."""
    if before is None or after.last == before.last or not after.last_bond:
        return
    if desk.bond(after.last_bond).conflict is not None:
        forgive(desk, after.last_bond, f"linkhold changed {after.last_bond} by hand")


def forgive(desk: Desk, name: str, reason: str) -> None:
    """Forget failures, and end a conflict if there is one."""
    bond = desk.bond(name)
    if bond.conflict is not None:
        lasted_s = round((desk.now_ns - bond.conflict.since_ns) / SECOND, 3)
        desk.say("bond.conflict_ended", name, reason=reason, lasted_s=lasted_s)
    # What differs is told anew, and has not counted yet.
    since = dict.fromkeys(bond.since, desk.now_ns) if bond.conflict else bond.since
    desk.put_bond(
        name,
        conflict=None,
        undone=(),
        failures=0,
        next_ns=0,
        fixed=frozenset(),
        since=since,
        told={} if bond.conflict else bond.told,
    )
