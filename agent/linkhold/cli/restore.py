"""``linkhold restore``: the host as it was found, before linkhold changed anything."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from linkhold.actuators import uplink_routes
from linkhold.actuators.compile import compiled, step_document
from linkhold.actuators.journal import Journal
from linkhold.actuators.remake import give_back, heir, refuse_useless, strange
from linkhold.actuators.transaction import Options, Transaction, outcome_text, roll_back
from linkhold.cli.beside_agent import refuse_beside_agent
from linkhold.cli.bond import told_to_programs
from linkhold.cli.bond_apply import agreed, hangup_survived, tell
from linkhold.cli.keepalive_apply import restored, to_restore
from linkhold.cli.on_stop import why_nothing_is_restored
from linkhold.decide.bonding.handover import NONE
from linkhold.decide.bonding.release import plan_release
from linkhold.decide.bonding.remove import around_return, plan_removal
from linkhold.model import HostError, LinkholdError
from linkhold.survey import holding
from linkhold.survey.prepare import prepare_removal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from linkhold.model.look import Look

Tell: TypeAlias = "Callable[[str], None]"
WAIT_S = 20.0
_DESCRIPTION = """\
Take back everything that linkhold changed on this host: routes of an uplink's failover, values
of keepalive, an unfinished change, then each bond that it made. What somebody else changed
meanwhile stays.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--on-stop",
        action="store_true",
        help="for linkhold.service: only if it is being stopped and restore_on_stop is true",
    )


def run(args: argparse.Namespace) -> int:
    """Restore; return 0 when everything is as it was found, 1 when something could not be."""
    if args.on_stop and (why := why_nothing_is_restored()):
        print(why)
        return 0
    with told_to_programs(args):
        if not args.json:
            return _run(args, tell)
        said: list[str] = []
        code = _run(args, said.append)
        print(json.dumps({"restored": not code, "said": said}, indent=2))
        return code


def _run(args: argparse.Namespace, tell: Tell) -> int:
    if os.geteuid() != 0:
        raise HostError("restore changes the network: run it as root")
    journal = Journal()
    what = _found(journal)
    if not what:
        tell("nothing to restore: linkhold has changed nothing here")
        return 0
    refuse_beside_agent()
    if not args.yes and not agreed(f"take back {what}?"):
        return 1
    problems = []
    with hangup_survived():
        problems += _uplinks(tell)
        problems += _keepalive(tell)
        problems += _unfinished(journal, tell)
        for bond in journal.committed():
            problems += _remove(journal, bond, tell)
    for problem in problems:
        tell(f"not restored: {problem}")
    return 1 if problems else 0


def _found(journal: Journal) -> str:
    """Return in words what there is to take back, empty for nothing."""
    routes = uplink_routes.look()
    found = list(journal.committed())
    found += ["an unfinished change"] if journal.read() is not None else []
    found += ["values of keepalive"] if to_restore() else []
    found += ["the route of an uplink"] if routes.remains else []
    return ", ".join(found)


def _keepalive(tell: Tell) -> list[str]:
    try:
        done = restored()
    except LinkholdError as error:
        return [str(error)]
    for one in done:
        if one["written"] and not one["problem"]:
            tell(f"keepalive of {one['name']} is as it was")
    return [f"keepalive of {one['name']}: {one['problem']}" for one in done if one["problem"]]


def _uplinks(tell: Tell) -> list[str]:
    try:
        if uplink_routes.restore():
            tell("the routes that an uplink's failover made are gone")
    except LinkholdError as error:
        return [str(error)]
    return []


def _unfinished(journal: Journal, tell: Tell) -> list[str]:
    if journal.read() is None:
        return []
    with journal.held(wait_s=WAIT_S):
        if journal.read() is None:
            return []
        problems = roll_back(journal, "linkhold restore")
    if problems:
        return [outcome_text("an unfinished change", problems)]
    tell("the unfinished change is undone")
    return []


def _remove(journal: Journal, bond: str, tell: Tell) -> list[str]:
    record = journal.committed()[bond]
    look, asked = prepare_removal(bond, record)
    if look.link(bond) is None:
        return _give_back(journal, bond, record, look, tell)
    adjusted = record.get("persist") == NONE
    plan = plan_release(bond, look, record) if adjusted else plan_removal(bond, look, record, asked)
    if adjusted and not plan.phases:
        journal.forget(bond)
        tell(f"{bond} is somebody's, and nothing of what was adjusted is left")
        return []
    try:
        Transaction(journal, compiled(plan), lambda _: None).run(Options())
    except LinkholdError as error:
        return [str(error)]
    if adjusted:
        tell(f"{bond} has its old options and members again; others made it, so it stays")
        return []
    tell(f"{bond} is gone; {heir_text(str(plan.record['live']))}")
    return []


def _give_back(
    journal: Journal, bond: str, record: dict[str, Any], look: Look, tell: Tell
) -> list[str]:
    """Give a NIC what a bond carried that somebody else took away; the record stays if that fails.

    Nothing is given where somebody has set the network up anew meanwhile.
    """
    again = f"{{}}; make {bond} again with: linkhold bond repair {bond}, or restore again"
    bare = not any(route.destination == "default" for route in look.routes)
    if record["persist"] == NONE:
        if record.get("addresses") and bare:
            return [again.format(f"{bond} was made by others and is gone with its addresses")]
        journal.forget(bond)
        tell(f"{bond} was made by others, who took it away: there is nothing to restore")
        return []
    try:
        refuse_useless(record)
    except HostError as error:
        return [str(error)]
    others = strange(record, look, ())
    theirs = bool(others) and (heir(record) in others or not bare)
    before, after = around_return(record, holding.networkd_files(), others)
    steps = [step_document(step) for step in (*before, *after)]
    if theirs:  # the next boot has the old files; no manager that starts now takes their addresses
        steps = [
            one for one in steps if one["do"] == "file" and not one["path"].startswith("/run/")
        ]
        record = {**record, "addresses": []}
    else:
        steps[len(before) : len(before)] = record["give_back"]
    try:
        problems = give_back(journal, record, steps)
    except LinkholdError as error:
        problems = [str(error)]
    if problems:
        return [again.format("; ".join(problems))]
    journal.forget(bond)
    kept = "; ".join(f"{name} keeps {', '.join(its)}" for name, its in others.items())
    tell(f"{bond} was gone already; {kept if theirs else heir_text(heir(record))}")
    return []


def heir_text(nic: str) -> str:
    """Return who carries what a bond carried that is gone."""
    return f"{nic} carries what it carried" if nic else "it had no members, and carried nothing"
