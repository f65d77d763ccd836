"""A committed bond made again from its record alone.

Standard library only, and the record is all that is read: no configuration, no broker, no D-Bus.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.actuators.journal import folder
from linkhold.actuators.perform import perform
from linkhold.actuators.unfinished import in_words
from linkhold.decide.bonding.objects import belongings
from linkhold.model import HostError
from linkhold.model.look import IFA_F_PERMANENT
from linkhold.model.survey import Known
from linkhold.survey import snapshot
from linkhold.survey.gateway import ask

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from linkhold.actuators.journal import Document, Journal
    from linkhold.model.look import Look, LookedAddress

NEEDED = {"bond": str, "members": list, "remake": list, "give_back": list, "checks": dict}
"""What a record needs, beside what every record has, for its bond to be made again."""
WORKS_WITHIN_S, ASK_S, PAUSE_S = 20.0, 1.0, 0.2
"""A manager that just started needs as long for a lease, and a NIC for its link."""
LINK_S = 3.0
"""How long a repair waits for the link of a member that joins."""
GUARD_S = 60.0
CONFIRM_S = 5.0


def again(record: Mapping[str, Any], apart: Collection[str] = ()) -> Document:
    """Return the compiled plan that makes the bond of ``record``, which is gone, once more.

    Members that are ``apart`` (absent, or set down by somebody) are not touched. One that has no
    link is in the bond nevertheless, and joins in when it has.
    """
    refuse_useless(record)
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


def heir(record: Mapping[str, Any]) -> str:
    """Return the NIC that gets the addresses when the bond is given up, empty for none."""
    waits = (step for step in record["give_back"] if step["do"] == "await")
    return next((str(step["links"][0]) for step in waits), "")


def give_back(journal: Journal, record: Mapping[str, Any], steps: Iterable[Document]) -> list[str]:
    """Carry out the steps that give a NIC what a bond that is gone carried; return what failed.

    All of them lead to the host as it was before the bond, and may be done again: so none is
    undone, and one that fails does not end the others. Raises :class:`HostError` while another
    change is at work.
    """
    with journal.held():
        found = journal.read()
        if found is not None:
            raise HostError(in_words(found, left=journal.is_left(found)))
        problems = []
        for step in steps:
            try:
                perform(step)
            except Exception as error:  # noqa: BLE001 - the other steps must be made
                problems.append(str(error) or repr(error))
        return problems or _not_working(record)


def _not_working(record: Mapping[str, Any]) -> list[str]:
    """Wait until the NIC has an address and its gateway answers; return what does not."""
    name, end = heir(record), time.monotonic() + WORKS_WITHIN_S
    known = record.get("addresses", ())
    asked = [target for _, targets in record["checks"]["answers"] for target in targets]
    while known:
        if not belongings(snapshot.take(), name).routable:
            bad = [f"{name} has none of the addresses that {record['bond']} had"]
        elif asked and ask(name, tuple(asked), timeout_s=ASK_S).verdict is Known.NO:
            bad = [
                f"{name} has its addresses again, but {', '.join(asked)} does not answer over it"
            ]
        else:
            return []
        if time.monotonic() > end:
            return bad
        time.sleep(PAUSE_S)
    return []


def refuse_useless(record: Mapping[str, Any]) -> None:
    """Raise :class:`HostError` for a record from which nothing can be made."""
    lacking = [name for name, type_ in NEEDED.items() if not isinstance(record.get(name), type_)]
    if lacking:
        raise HostError(
            f"the record of this bond is damaged: it lacks {', '.join(lacking)}; set the network "
            f"up by hand and remove the record ({folder()}/committed-*.json)"
        )


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
