"""A committed bond made again from its record alone: as a transaction, or early at boot.

Standard library only, and the record is all that is read: no configuration, no broker, no D-Bus.
"""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators.checks import failures
from linkhold.actuators.journal import boot_id
from linkhold.actuators.perform import perform
from linkhold.actuators.undo import undo
from linkhold.model import LinkholdError
from linkhold.survey import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from linkhold.actuators.journal import Document, Journal

ANSWER_S = 20.0
"""How long a fresh bond may take at boot until its gateway answers (a switch's spanning tree)."""
MEMBERS_S = 20.0
"""How long drivers may take at boot until all NICs are there."""
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
    record = {
        **record,
        "remake": [_sparing(step, apart) for step in record["remake"]],
        "give_back": [_sparing(step, apart) for step in record["give_back"]],
    }
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


def _sparing(step: Document, apart: Collection[str]) -> Document:
    """Return a step without its messages about interfaces that are apart."""
    if step["do"] != "netlink":
        return step
    kept = [c for c in step["changes"] if not (c["holes"] and c["holes"][0][1] in apart)]
    return {**step, "changes": kept}


def _joined(checks: Mapping[str, Any], apart: Collection[str]) -> Document:
    """Return checks that want members in the bond, with a link or without."""
    bonds = {
        name: {k: v for k, v in options.items() if k != "primary" or v not in apart}
        for name, options in checks["bonds"].items()
    }
    joined = {
        name: [member for member in members if member not in apart]
        for name, members in checks["members"].items()
    }
    return {**checks, "bonds": bonds, "members": {}, "joined": joined}


def at_boot(journal: Journal, tell: Callable[[str], None]) -> list[str]:
    """Undo what a crash left unfinished, then make every bond that no manager makes by itself.

    Returns what went wrong, in words. A bond over which nothing answers is taken away again and
    its addresses are given to the NIC that had them before.
    """
    problems = []
    with journal.held():
        found = journal.read()
        if found is not None and found["boot_id"] != boot_id():
            tell(f"undoing a change of {found['bond']} that a crash left unfinished")
            problems += undo(journal, "the machine went down before it was committed")
        there = {link.name for link in snapshot.take().links}
        for name, record in journal.committed().items():
            if record["persist"] == "linkhold" and name not in there:
                problems += _make(name, record, tell)
    return problems


def _make(name: str, record: Mapping[str, Any], tell: Callable[[str], None]) -> list[str]:
    names = _await_members(record)
    for old, new in names.items():
        if old != new:
            tell(f"{old} is called {new} now (found by its permanent MAC)")
    record = json.loads(renamed(json.dumps(record), names))
    problems = _perform_all(record["remake"])
    end = time.monotonic() + ANSWER_S
    while bad := _unreachable(record):
        if time.monotonic() > end:
            tell(f"{name} carries nothing ({'; '.join(bad)}): giving the NIC back")
            return [*problems, *bad, *_perform_all(record["give_back"])]
        time.sleep(0.2)
    tell(f"{name} is there and its gateway answers")
    return problems


def _await_members(record: Mapping[str, Any]) -> dict[str, str]:
    """Wait until every member is there, for a while, and return the names they have now.

    A NIC may be called otherwise after a boot (another slot, another kernel); its permanent MAC
    stays. One that does not come is missing from the answer.
    """
    end = time.monotonic() + MEMBERS_S
    while True:
        found = _names_now(record)
        if len(found) == len(record["members"]) or time.monotonic() > end:
            return found
        time.sleep(0.1)


def _names_now(record: Mapping[str, Any]) -> dict[str, str]:
    links = {link.name: link for link in snapshot.take().links}
    by_mac = {link.perm_mac: link.name for link in links.values() if link.perm_mac}
    found = {}
    for name in record["members"]:
        mac = record["originals"][name].get("perm_mac", "")
        here = links.get(name)
        if mac and (here is None or here.perm_mac != mac):
            if mac in by_mac:
                found[name] = by_mac[mac]
        elif here is not None:
            found[name] = name
    return found


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Return a record's text with interfaces called by the names that they have now. Pure.

    Names stand in JSON as whole strings: in holes, and as members, links and keys.
    """
    pattern = "|".join(re.escape(json.dumps(name)) for name in names if names[name] != name)
    if not pattern:
        return text
    return re.sub(pattern, lambda found: json.dumps(names[json.loads(found[0])]), text)


def _unreachable(record: Mapping[str, Any]) -> list[str]:
    """Return which targets do not answer. A member that is missing is no reason to give up."""
    checks = {**record["checks"], "bonds": {}, "members": {}, "pings": ()}
    return failures(checks)


def _perform_all(steps: list[Document]) -> list[str]:
    problems = []
    for step in steps:
        try:
            perform(step)
        except (LinkholdError, OSError) as error:
            problems.append(str(error))
    return problems


def keep_in_run(journal: Journal) -> bool:
    """Write the files in /run by which a restart of networkd leaves standing bonds alone.

    A boot has emptied /run, and with ``Bond=`` in their profiles a restart of networkd takes all
    members down at once (docs/handover.md). Nothing is written while a change is at work, nor while
    a member is missing: it is networkd's to put it in. Returns whether all files are there now.
    Raises :class:`HostError` when one cannot be written.
    """
    records = [record for record in journal.committed().values() if record.get("volatile")]
    if not records:
        return True
    if journal.read() is not None:
        return False
    look = snapshot.take()
    for record in records:
        bond = look.link(record["bond"])
        members = {port.name for port in look.ports_of(bond.index)} if bond is not None else set()
        if not members.issuperset(record["members"]):
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
