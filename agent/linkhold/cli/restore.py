"""``linkhold restore``: the host as it was found, before linkhold changed anything."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from linkhold.actuators import uplink_routes
from linkhold.actuators.compile import compiled
from linkhold.actuators.journal import Journal
from linkhold.actuators.transaction import Options, Transaction, outcome_text, roll_back
from linkhold.cli.bond_apply import agreed, hangup_survived, tell
from linkhold.config.settings import Mode
from linkhold.control import ControlClient
from linkhold.decide.bonding.handover import NONE
from linkhold.decide.bonding.release import plan_release
from linkhold.decide.bonding.remove import plan_removal
from linkhold.model import HostError, LinkholdError
from linkhold.paths import CONTROL_SOCKET, answers_in, find_run_dir
from linkhold.survey.prepare import prepare_removal

if TYPE_CHECKING:
    import argparse

WAIT_S = 20.0
_DESCRIPTION = """\
Take back everything that linkhold changed on this host: routes of an uplink's failover, an
unfinished change, then each bond that it made. What somebody else changed meanwhile stays.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.add_argument("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Restore; return 0 when everything is as it was found, 1 when something could not be."""
    if os.geteuid() != 0:
        raise HostError("restore changes the network: run it as root")
    journal = Journal()
    what = _found(journal)
    if not what:
        tell("nothing to restore: linkhold has changed nothing here")
        return 0
    _refuse_beside_agent()
    if not args.yes and not agreed(f"take back {what}?"):
        return 1
    problems = []
    with hangup_survived():
        problems += _uplinks()
        problems += _unfinished(journal)
        for bond in journal.committed():
            problems += _remove(journal, bond)
    for problem in problems:
        tell(f"not restored: {problem}")
    return 1 if problems else 0


def _refuse_beside_agent() -> None:
    """Raise :class:`HostError` where a running agent would make it all again at once."""
    where = find_run_dir()
    if not answers_in(where):
        return
    client = None
    try:
        client = ControlClient(where / CONTROL_SOCKET)
        mode = str(client.ask("mode")["mode"])
    except (LinkholdError, KeyError):
        mode = "unknown"
    finally:
        if client is not None:
            client.close()
    if mode != Mode.OBSERVE.value:
        raise HostError(
            f"an agent runs here in mode {mode} and would make it all again; stop it first "
            "(systemctl stop linkhold-agent), or set mode: observe and reload it"
        )


def _found(journal: Journal) -> str:
    """Return in words what there is to take back, empty for nothing."""
    routes = uplink_routes.look()
    found = list(journal.committed())
    found += ["an unfinished change"] if journal.read() is not None else []
    found += ["the route of an uplink"] if routes.remains else []
    return ", ".join(found)


def _uplinks() -> list[str]:
    try:
        if uplink_routes.restore():
            tell("the routes that an uplink's failover made are gone")
    except LinkholdError as error:
        return [str(error)]
    return []


def _unfinished(journal: Journal) -> list[str]:
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


def _remove(journal: Journal, bond: str) -> list[str]:
    record = journal.committed()[bond]
    look, asked = prepare_removal(bond, record)
    if look.link(bond) is None:
        journal.forget(bond)
        tell(f"{bond} is gone already")
        return []
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
    tell(f"{bond} is gone; {plan.record['live'] or 'no NIC'} carries what it carried")
    return []
