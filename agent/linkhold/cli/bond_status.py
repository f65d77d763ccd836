"""``linkhold bond status``: bonds as they are, and changes that are under way."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from linkhold import config
from linkhold.actuators.journal import FAILED, WAITING
from linkhold.cli.bond_plan import journal_to_read
from linkhold.decide.bonding.readback import differing, named
from linkhold.decide.bonds import MODES
from linkhold.model import HostError
from linkhold.survey import snapshot

if TYPE_CHECKING:
    import argparse

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
    bonds = [
        _bond(look, link, records.get(link.name), wanted)
        for link in look.links
        if link.kind == "bond" and args.bond in {None, link.name}
    ]
    there = {bond["name"] for bond in bonds}
    missing = sorted(({args.bond} if args.bond else wanted | set(records)) - there)
    change = _read(journal.read, problem)
    document = {
        "bonds": bonds,
        "missing": missing,
        "change": _change(journal, change),
        "last": _read(journal.last, problem),
        "problems": problem,
    }
    if args.json:
        print(json.dumps(document, indent=2, ensure_ascii=False))
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
    left_s = max(0.0, (found["deadline_mono_ns"] - time.monotonic_ns()) / 1e9)
    shown = {key: found[key] for key in keys if key in found}
    shown["undone_in_s"] = round(left_s, 1) if found["state"] == WAITING else None
    return {**shown, "left": journal.is_left(found)}


def _bond(
    look: Look, link: LookedLink, record: dict[str, Any] | None, wanted: set[str]
) -> dict[str, Any]:
    options = named(look, link.bond or {})
    members = {port.name: _member(port) for port in look.ports_of(link.index)}
    monitored = bool(options.get("miimon") or options.get("arp_interval"))
    good = sum(member["good"] for member in members.values())
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
        "redundant": monitored and good > 1,
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
    for name in document["missing"]:
        print(f"{name}: not there; make it with: linkhold bond apply {name}")
    if not document["bonds"] and not document["missing"]:
        print("no bond on this host, and none configured")
    change = document["change"]
    if change is not None:
        what = f"{change['action']} {change['bond']} is {change['state']}"
        print(f"a change is not finished: {what}; {_to_do(change)}")
    last = document["last"]
    if last is not None:
        when = datetime.fromtimestamp(last["at"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
        reason = f": {last['reason']}" if last.get("reason") else ""
        print(f"last change: {last['action']} {last['bond']}, {last['ended']} at {when}{reason}")
    for problem in document["problems"]:
        print(problem)


def _to_do(change: dict[str, Any]) -> str:
    """Return what somebody can do about an unfinished change."""
    if change["left"]:
        return "nobody is at work on it any more; end it with: linkhold bond rollback"
    if change["state"] == WAITING:
        end = "end it with: linkhold bond confirm, or linkhold bond rollback"
        return f"undone in {change['undone_in_s']:.0f} s unless confirmed; {end}"
    if change["state"] == FAILED:
        return "undoing it failed; try again with: linkhold bond rollback"
    return f"process {change.get('pid', '?')} is at work; wait until it has ended"


def _show_bond(bond: dict[str, Any]) -> None:
    protected = "protected" if bond["redundant"] else "NOT protected"
    if not bond["monitored"]:
        protected = "NOT protected: no link monitoring, it never fails over"
    carries = f"{bond['active']} carries" if bond["active"] else "nothing carries"
    print(f"{bond['name']} ({bond['mode']}): {carries}, {protected}")
    for name, member in bond["members"].items():
        state = "good" if member["good"] else "set down" if not member["admin_up"] else "LOST"
        primary = ", primary" if name == bond["primary"] else ""
        print(f"  {name}: {state}{primary}, lost {member['losses']} times")
    for name in bond["absent"]:
        print(f"  {name}: NOT a member, though it was made one")
    for option, values in bond["differs"].items():
        print(f"  {option} is {values['seen']}, was set to {values['wanted']}")
