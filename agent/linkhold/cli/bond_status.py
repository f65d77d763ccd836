"""``linkhold bond status``: bonds as they are, and changes that are under way."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from linkhold import config
from linkhold.actuators.journal import COMMITTED, WAITING
from linkhold.actuators.unfinished import to_do, undone_in_s
from linkhold.cli import bond_health
from linkhold.cli.bond_plan import journal_to_read
from linkhold.decide.bonding.handover import NONE
from linkhold.decide.bonding.readback import differing, named
from linkhold.decide.bonds import MODES
from linkhold.model import HostError
from linkhold.survey import snapshot
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from linkhold.actuators.journal import Journal
    from linkhold.model.look import Look, LookedLink

NOT_LET_IN = "run as root to see changes and records"
MII = ("up", "going down", "down", "going back")


def run(args: argparse.Namespace) -> int:
    """Print every bond of the host; return 1 when one that is meant is missing or not whole."""
    look = snapshot.take()
    journal = journal_to_read()
    wanted = set(config.load(args.config).bonds)
    records, problem = _records(journal)
    known = bond_health.known_paths()
    bonds = [
        bond_health.judged(_bond(look, link, records.get(link.name), wanted), known)
        for link in look.links
        if link.kind == "bond" and args.bond in {None, link.name}
    ]
    there = {bond["name"] for bond in bonds}
    missing = sorted(({args.bond} if args.bond else wanted | set(records)) - there)
    change, last = _read(journal.read, problem), _read(journal.last, problem)
    document = {
        "bonds": bonds,
        "missing": missing,
        "absent": {name: absence(name, records.get(name), last, wanted) for name in missing},
        "change": _change(journal, change),
        "last": last,
        "problems": problem,
    }
    if args.json:
        print(json.dumps(document, indent=2))
    else:
        _show(document)
    whole = all(bond["redundant"] and not bond["differs"] for bond in bonds)
    return 0 if whole and not missing and change is None else 1


def _records(journal: Journal) -> tuple[dict[str, dict[str, Any]], list[str]]:
    try:
        return journal.committed(), []
    except HostError as error:
        if isinstance(error.__cause__, PermissionError):
            return {}, [NOT_LET_IN]
        return {}, [str(error)]


def _read(what: Any, problems: list[str]) -> dict[str, Any] | None:
    if NOT_LET_IN in problems:
        return None
    try:
        found: dict[str, Any] | None = what()
    except HostError as error:
        problems.append(str(error))
        return None
    return found


def _change(journal: Journal, found: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    keys = ("id", "bond", "action", "state", "pid", "problems")
    shown = {key: found[key] for key in keys if key in found}
    left_s = round(max(0.0, undone_in_s(found)), 1)
    shown["undone_in_s"] = left_s if found["state"] == WAITING else None
    left = journal.is_left(found)
    return {**shown, "left": left, "to_do": to_do(found, left=left)}


def _bond(
    look: Look, link: LookedLink, record: dict[str, Any] | None, wanted: set[str]
) -> dict[str, Any]:
    options = named(look, link.bond or {})
    members = {port.name: _member(port) for port in look.ports_of(link.index)}
    monitored = bool(options.get("miimon") or options.get("arp_interval"))
    differs = differing(record["options"], options) if record else {}
    mode = options.get("mode")
    return {
        "name": link.name,
        "mode": MODES[mode] if isinstance(mode, int) and mode < len(MODES) else str(mode),
        "active": options.get("active_slave") or None,
        "primary": options.get("primary") or None,
        "carrier": link.carrier,
        "admin_up": link.admin_up,
        "mac": link.mac,
        "mtu_bytes": link.mtu,
        "members": members,
        "absent": sorted(set(record["members"]) - set(members)) if record else [],
        "monitored": monitored,
        "configured": link.name in wanted,
        "made_by_linkhold": record is not None,
        "differs": {k: {"wanted": w, "seen": s} for k, (w, s) in differs.items()},
        "options": options,
    }


def _member(port: LookedLink) -> dict[str, Any]:
    status = (port.port or {}).get("mii_status")
    mii = MII[status] if isinstance(status, int) and status < len(MII) else "unknown"
    return {
        "good": port.carrier and port.admin_up and mii == "up",
        "carrier": port.carrier,
        "admin_up": port.admin_up,
        "mii": mii,
        "losses": (port.port or {}).get("link_failure_count", 0),
        "perm_mac": (port.port or {}).get("perm_hwaddr", ""),
    }


def _show(document: dict[str, Any]) -> None:
    for bond in document["bonds"]:
        _show_bond(bond)
    for name, why in document["absent"].items():
        print(f"{one_line(name)}: {why}")
    if not document["bonds"] and not document["missing"]:
        print("no bond on this host, and none configured")
    change = document["change"]
    if change is not None:
        what = f"{change['action']} {change['bond']} is {change['state']}"
        print(f"a change is not finished: {what}; {change['to_do']}")
    last = document["last"]
    if last is not None:
        reason = f": {last['reason']}" if last.get("reason") else ""
        what = f"{last['action']} {last['bond']}, {last['ended']} at {when(last)}"
        print(f"last change: {what}{reason}")
    for problem in document["problems"]:
        print(problem)


def absence(
    name: str, record: Mapping[str, Any] | None, last: Mapping[str, Any] | None, wanted: set[str]
) -> str:
    """Return why a bond is not there, as far as is known, and what to do about it."""
    if record is not None:
        made = "adjusted" if record["persist"] == NONE else "made"
        return (
            f"was {made} here and is gone; make it again, with all that it carried, with: "
            f"linkhold bond repair {name}"
        )
    if name not in wanted:
        return "not there, and not under bonds: in the configuration"
    removed = last is not None and (last["bond"], last["action"]) == (name, "remove")
    if removed and last is not None and last["ended"] == COMMITTED:
        return (
            f"was taken away by linkhold at {when(last)}; take it out of bonds: in the "
            f"configuration too, or make it again with: linkhold bond apply {name}"
        )
    return f"not there; make it with: linkhold bond apply {name}"


def when(last: Mapping[str, Any]) -> str:
    """Return at which local time the last change ended."""
    return datetime.fromtimestamp(last["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def _show_bond(bond: dict[str, Any]) -> None:
    print(f"{bond['name']} ({bond['mode']}): {bond_health.headline(bond)}")
    for name, member in bond["members"].items():
        state = bond_health.member_state(member)
        primary = ", primary" if name == bond["primary"] else ""
        print(f"  {name}: {state}{primary}, lost {member['losses']} times")
    for name in bond["absent"]:
        print(f"  {name}: NOT a member, though it was made one")
    for option, values in bond["differs"].items():
        print(f"  {option} is {values['seen']}, was set to {values['wanted']}")
