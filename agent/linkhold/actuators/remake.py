"""A committed bond made again from its record alone.

Standard library only, and the record is all that is read: no configuration, no broker, no D-Bus.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators.perform import perform
from linkhold.decide.bonding.objects import belongings
from linkhold.model.look import IFA_F_PERMANENT

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from linkhold.actuators.journal import Document, Journal
    from linkhold.model.look import Look, LookedAddress

LINK_S = 3.0
"""How long a repair waits for the link of a member that joins."""
GUARD_S = 60.0
CONFIRM_S = 5.0


def again(record: Mapping[str, Any], apart: Collection[str] = ()) -> Document:
    """Return the compiled plan that makes the bond of ``record``, which is gone, once more.

    Members that are ``apart`` (absent, or set down by somebody) are not touched. One that has no
    link is in the bond nevertheless, and joins in when it has.
    """
    name = record["bond"]
    whole = {key: value for key, value in record.items() if key != "at"}
    record = spared(record, apart)
    return {
        "bond": name,
        "action": "adjust",
        "phases": [
            {
                "title": f"make {name} again as it was committed",
                "confirmed": False,
                "steps": record["remake"],
            }
        ],
        "undo": [{"since": 0, **step} for step in record["give_back"]],
        "checks": _joined(record["checks"], apart),
        "confirm_after_s": CONFIRM_S,
        "guard_s": GUARD_S,
        "record": whole,
    }


def leniently(document: Document, record: Mapping[str, Any]) -> Document:
    """Return a compiled plan as a repair: a member without link may join.

    The record of a bond that was made with more members than are here now stays as it is.
    """
    phases = [
        {**phase, "steps": [_patient(step) for step in phase["steps"]]}
        for phase in document["phases"]
    ]
    fewer = set(record["members"]) - set(document["record"]["members"])
    kept = {key: value for key, value in record.items() if key != "at"}
    return {
        **document,
        "phases": phases,
        "checks": _joined(document["checks"], ()),
        "record": kept if fewer else document["record"],
    }


def _patient(step: Document) -> Document:
    """Return a step that does not insist on a link: one whose cable is out joins all the same."""
    if step["do"] != "await":
        return step
    return {**step, "optional": True, "timeout_s": min(step["timeout_s"], LINK_S)}


def spared(record: Mapping[str, Any], apart: Collection[str]) -> Document:
    """Return a record whose steps leave interfaces that are ``apart`` alone."""
    steps = {
        key: [kept for step in record[key] if (kept := _sparing(step, apart)) is not None]
        for key in ("remake", "give_back")
    }
    return {**record, **steps}


def _sparing(step: Document, apart: Collection[str]) -> Document | None:
    """Return a step without what it has about interfaces that are apart; None for nothing."""
    if step["do"] == "netlink":
        kept = [c for c in step["changes"] if not any(name in apart for _, name in c["holes"])]
        return {**step, "changes": kept}
    if step["do"] == "await":
        links = [name for name in step["links"] if name not in apart]
        return {**step, "links": links} if links else None
    return None if step["do"] == "announce" and step["link"] in apart else step


def strange(record: Mapping[str, Any], look: Look, apart: Collection[str]) -> dict[str, list[str]]:
    """Return the addresses that members have and that did not come from the bond, by member.

    In the bond they would keep its routes to the member. IPv6 addresses that a router gave go by
    themselves when the member is set down to join.
    """
    known = set(record.get("addresses", ()))
    found = {
        name: [
            one.address
            for one in belongings(look, name).routable
            if one.address not in known and _stays(one)
        ]
        for name in record["members"]
        if name not in apart
    }
    return {name: addresses for name, addresses in found.items() if addresses}


def _stays(one: LookedAddress) -> bool:
    return one.family == "inet" or bool(one.flags & IFA_F_PERMANENT)


def _joined(checks: Mapping[str, Any], apart: Collection[str]) -> Document:
    """Return checks that want members in the bond, with a link or without.

    Hosts that answered a ping on the day of the change are not asked for for ever.
    """
    bonds = {
        name: {k: v for k, v in options.items() if k != "primary" or v not in apart}
        for name, options in checks["bonds"].items()
    }
    joined = {
        name: [member for member in members if member not in apart]
        for name, members in checks["members"].items()
    }
    return {**checks, "bonds": bonds, "members": {}, "joined": joined, "pings": ()}


def keep_in_run(journal: Journal, ports: Mapping[str, Iterable[str]]) -> bool:
    """Write the files in /run by which a restart of networkd leaves standing bonds alone.

    A boot has emptied /run, and with ``Bond=`` in their profiles a restart of networkd takes all
    members down at once (docs/handover.md). Nothing is written while a change is at work, nor while
    a member is missing: it is networkd's to put it in. ``ports`` are the members of each bond that
    stands. Returns whether all files are there now.
    Raises :class:`HostError` when one cannot be written.
    """
    records = [record for record in journal.committed().values() if record.get("volatile")]
    if not records:
        return True
    if journal.read() is not None:
        return False
    for record in records:
        if not set(ports.get(record["bond"], ())).issuperset(record["members"]):
            return False
        for step in record["volatile"]:
            if not holds(Path(step["path"]), step["content"]):
                perform(step)
    return True


def holds(path: Path, content: str) -> bool:
    """Tell whether a file has this content."""
    try:
        return path.read_text(encoding="utf-8") == content
    except (OSError, UnicodeDecodeError):
        return False
