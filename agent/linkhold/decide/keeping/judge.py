"""What differs now, since when, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.keeping.blame import blame
from linkhold.decide.keeping.desk import SECOND
from linkhold.decide.keeping.drift import drifts, sight
from linkhold.model import Severity

if TYPE_CHECKING:
    from linkhold.decide.keeping.desk import Desk
    from linkhold.decide.keeping.drift import Sight
    from linkhold.decide.keeping.values import BondMemory, Found, JournalSeen, Key
    from linkhold.model import Drift, HostNetwork

SETTLE_NS = SECOND
"""A drift lasts this long before it counts: a manager or a person may be in the middle of it."""


def judge(desk: Desk, name: str) -> None:
    """Compare one bond with what is wanted, unless somebody is at work on it."""
    host, journal = desk.memory.host, desk.memory.journal
    before = desk.bond(name)
    if host is None or journal is None:
        return
    if name == desk.busy and not before.mending_ns:  # what a command does on its way is no drift
        desk.put_bond(name, drift=(), since={})
        return
    seen = sight(name, desk.rules.bonds[name], host)
    applied = seen.standing or name in journal.committed
    if not applied:
        _tell_not_applied(desk, name, before)
        return
    standing = seen.bond is not None
    notes = desk.memory.nics.items()
    set_down = {index for index, note in notes if note.decided(standing=standing)}
    found = drifts(seen, host, set_down, _bar(name, seen, journal))
    keys = {drift.key for drift in found}
    if before.mending_ns:  # what our own repair does on its way is no news
        since = {**dict.fromkeys(keys, desk.now_ns), **before.since}
        desk.put_bond(name, drift=found, since=since)
        return
    for key in [key for key in before.told if key not in keys]:
        _tell_ended(desk, name, before, key)
    desk.put_bond(
        name,
        judged=True,
        applied=True,
        drift=found,
        since={key: before.since.get(key, desk.now_ns) for key in keys},
        told={key: drift for key, drift in before.told.items() if key in keys},
    )


def _bar(name: str, seen: Sight, journal: JournalSeen) -> str:
    """Return why nothing of a bond is repaired."""
    if journal.problem:
        return journal.problem
    if name not in journal.committed:
        return f"it was not made by linkhold; to adjust it: linkhold bond apply {name}"
    if seen.bond is not None and not seen.bond.admin_up:
        return f"not while {name} is set down"
    return ""


def _tell_not_applied(desk: Desk, name: str, before: BondMemory) -> None:
    journal = desk.memory.journal
    known = journal is not None and not journal.problem
    if known and (before.applied or not before.judged):
        desk.say("bond.not_applied", name, hint=f"linkhold bond plan {name}")
    desk.put_bond(name, judged=known, applied=False, drift=(), since={}, told={})


def _tell_ended(desk: Desk, name: str, bond: BondMemory, key: Key) -> None:
    drift, began_ns = bond.told[key], bond.since.get(key, desk.now_ns)
    if bond.conflict is None:
        lasted_s = round((desk.now_ns - began_ns) / SECOND, 3)
        desk.say(
            "bond.drift_ended", name, kind=drift.kind, subject=drift.subject, lasted_s=lasted_s
        )


def settled(desk: Desk, bond: BondMemory) -> tuple[Drift, ...]:
    """Return the drifts that count."""
    return tuple(d for d in bond.drift if desk.now_ns - bond.since[d.key] >= SETTLE_NS)


def tell(desk: Desk, name: str, found: Found) -> None:
    """Announce the drifts that count and were not announced, with who may have done it."""
    bond = desk.bond(name)
    members = members_of(desk, name)
    fresh = [drift for drift in settled(desk, bond) if drift.key not in bond.told]
    for drift in fresh:
        if bond.conflict is None:
            by = blame(drift, name, members, bond.since[drift.key], found)
            severity = Severity.CRITICAL if drift.kind == "gone" else Severity.WARNING
            desk.say("bond.drift", name, severity, **_data(desk, drift, by))
    desk.put_bond(name, told={**bond.told, **{drift.key: drift for drift in fresh}})


def members_of(desk: Desk, name: str) -> tuple[str, ...]:
    """Return the members of a bond that are on this host."""
    host = desk.memory.host
    return sight(name, desk.rules.bonds[name], host).wanted.members if host else ()


def _data(desk: Desk, drift: Drift, by: str) -> dict[str, Any]:
    observed = "observe only: in mode enforce it would be repaired"
    return {
        "kind": drift.kind,
        "subject": drift.subject,
        "wanted": drift.wanted,
        "seen": drift.seen,
        "by": by,
        "repair": drift.obstacle or ("will be repaired" if desk.rules.enforce else observed),
    }


def interfaces(desk: Desk, host: HostNetwork) -> dict[str, int]:
    """Return the interfaces whose owners may have caused what differs: name -> index."""
    found: dict[str, int] = {}
    for name, bond in desk.memory.bonds.items():
        if not bond.drift or name not in desk.rules.bonds:
            continue
        names = {name, *members_of(desk, name), *(drift.subject for drift in bond.drift)}
        found |= {link.name: link.index for link in host.links.values() if link.name in names}
    return found
