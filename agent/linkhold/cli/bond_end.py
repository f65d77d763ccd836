"""``linkhold bond confirm``, ``rollback``, ``remove``, ``repair``: a change after it was made."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from linkhold import config
from linkhold.actuators.compile import compiled
from linkhold.actuators.journal import WAITING, Journal
from linkhold.actuators.remake import again, leniently, strange
from linkhold.actuators.transaction import Options, Transaction, outcome_text, roll_back
from linkhold.cli import bond_plan
from linkhold.cli.bond import wanted_bonds
from linkhold.cli.bond_apply import NOT_CONFIRMED, agreed, hangup_survived, tell
from linkhold.cli.bond_plan import verifiable
from linkhold.cli.bond_status import when
from linkhold.cli.restore import heir_text
from linkhold.decide.bonding.remove import plan_removal
from linkhold.model import HostError, LinkholdError
from linkhold.survey import snapshot
from linkhold.survey.prepare import prepare_removal

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

WAIT_S = 20.0
"""An undo that the guard is at takes a NIC's link training and a few messages."""


def run(args: argparse.Namespace) -> int:
    """End a change in one of the three ways; return 0 when that worked."""
    if os.geteuid() != 0:
        raise HostError(f"bond {args.verb} changes the network: run it as root")
    say = (lambda _: None) if args.json else tell
    with hangup_survived():
        outcome = _VERBS[args.verb](args, say)
    if args.json:
        print(json.dumps({"outcome": outcome}))
    return NOT_CONFIRMED if outcome == WAITING else 0


def _confirm(_args: argparse.Namespace, say: Callable[[str], None]) -> str:
    journal = Journal()
    with journal.held():
        outcome = Transaction.resumed(journal, say).confirm()
    say("verified and committed")
    return outcome


def _rollback(_args: argparse.Namespace, say: Callable[[str], None]) -> str:
    journal = Journal()
    found = journal.read()
    if found is None:
        last = journal.last()
        if last is not None and last["ended"] == "undone":
            why = f" ({last['reason']})" if last.get("reason") else ""
            what = f"{last['action']} {last['bond']}"
            say(f"nothing to do: the last change, {what}, was undone already at {when(last)}{why}")
            return "undone"
        raise HostError(
            "no change is unfinished: nothing to roll back; a committed bond is taken away with: "
            "linkhold bond remove BOND"
        )
    with journal.held(wait_s=WAIT_S):
        if journal.read() is None:
            ended = (journal.last() or {}).get("ended", "ended")
            say(f"nothing to roll back any more: it was {ended} meanwhile")
            return str(ended)
        problems = roll_back(journal, "bond rollback")
    if problems:
        raise HostError(outcome_text("rolled back as asked", problems))
    say(f"undone, the change of {found['bond']} ({found['action']}): the host is as before")
    return "undone"


def _remove(args: argparse.Namespace, say: Callable[[str], None]) -> str:
    journal = Journal()
    record = journal.committed().get(args.bond)
    look, asked = prepare_removal(args.bond, record)
    plan = verifiable(plan_removal(args.bond, look, record, asked), manual=args.manual)
    if plan.refusals:
        raise HostError("; ".join(refusal.text for refusal in plan.refusals))
    for warning in plan.warnings:
        say(f"warning: {warning}")
    for phase in plan.phases:
        say(f"  {phase.title}")
    if not args.yes and not agreed(f"take {args.bond} away?"):
        return "declined"
    outcome = Transaction(journal, compiled(plan), say).run(Options(manual=args.manual))
    if outcome == WAITING:
        say(f"it is put back in {plan.guard_s:g} s unless you run: linkhold bond confirm")
    say(f"{args.bond} is gone; {heir_text(str(plan.record['live']))}")
    if _is_configured(args):
        say(
            f"take it out of bonds: in the configuration too, or bond apply makes {args.bond} again"
        )
    return outcome


def _is_configured(args: argparse.Namespace) -> bool:
    try:
        return args.bond in config.load(args.config).bonds
    except LinkholdError:  # none, or a damaged one: that is not what was asked for
        return False


def _repair(args: argparse.Namespace, say: Callable[[str], None]) -> str:
    """Make a bond that is gone from its record; bring one that stands to what is wanted."""
    journal = Journal()
    record = journal.committed().get(args.bond)
    if record is None:
        names = ", ".join(journal.committed()) or "none"
        raise HostError(f"{args.bond} was not made here; committed bonds: {names}")
    look, spare = snapshot.take(), frozenset(args.spare)
    if look.link(args.bond) is not None:
        settings = wanted_bonds(args)[args.bond]
        plan = bond_plan.make(args.bond, settings, spare)
        if plan.refusals:
            raise HostError("; ".join(refusal.text for refusal in plan.refusals))
        for warning in plan.warnings:
            say(f"warning: {warning}")
        document = leniently(compiled(plan), record)
    else:
        absent = {name for name in record["members"] if look.link(name) is None}
        apart = spare | absent
        _refuse_strange(args.bond, strange(record, look, apart))
        document = again(record, apart)
    if not document["phases"]:
        say(f"{args.bond} is as wanted")
        return "as wanted"
    if not args.yes and not agreed(f"repair {args.bond}?"):
        return "declined"
    outcome = Transaction(journal, document, say).run(Options())
    say(f"{args.bond}: repaired and verified")
    return outcome


def _refuse_strange(bond: str, found: Mapping[str, list[str]]) -> None:
    for name, addresses in found.items():
        raise HostError(
            f"{name} has addresses that {bond} did not have ({', '.join(addresses)}): they are "
            f"somebody's, and may be the way by which you are here. Where they shall stay: "
            f"linkhold restore (it forgets {bond}, they stay), then linkhold bond apply. Where "
            f"nobody uses them: ip address del ADDRESS dev {name}, then linkhold bond repair {bond}"
        )


_VERBS = {"confirm": _confirm, "rollback": _rollback, "remove": _remove, "repair": _repair}
