"""``linkhold bond plan``: what would be done, in order, and why it would be refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.actuators.journal import NOT_BEGUN, WAITING, Journal, folder
from linkhold.actuators.unfinished import to_do
from linkhold.cli import bond
from linkhold.decide.bonding import shortened
from linkhold.decide.bonding.handover import LINKHOLD, NETWORK_MANAGER, NETWORKD
from linkhold.decide.bonding.plan import plan
from linkhold.decide.bonding.steps import Plan, Refusal
from linkhold.model import HostError
from linkhold.paths import find_state_dir
from linkhold.survey import boot_unit, holding
from linkhold.survey.prepare import prepare

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from linkhold.config import BondSettings

REFUSED = 1


def run(args: argparse.Namespace) -> int:
    """Print the plan of each bond; return 1 when one of them would be refused."""
    wanted = bond.wanted_bonds(args)
    plans = [verifiable(make(name, one), manual=args.manual) for name, one in wanted.items()]
    if args.json:
        print(json.dumps([document(one) for one in plans], indent=2))
    else:
        for one in plans:
            show(one, manual=args.manual)
    return REFUSED if any(one.refusals for one in plans) else 0


def verifiable(made: Plan, *, manual: bool) -> Plan:
    """Return a plan, refused where only a person could tell whether it works and none will."""
    if manual or not made.unverified or not made.phases or made.refusals:
        return made
    remedy = (
        f"name an address that answers under bonds.{made.bond}.targets, or say --manual and end "
        "it with linkhold bond confirm"
    )
    return refused(made.bond, Refusal(made.bond, made.unverified, remedy))


def refused(name: str, refusal: Refusal) -> Plan:
    """Return a plan that is nothing but a refusal."""
    return Plan(name, "apply", refusals=(refusal,))


def unfinished(name: str) -> Refusal | None:
    """Return why nothing can begin: a change is not finished, or nobody can tell whether one is.

    A user who is not let into the journal learns that from apply.
    """
    journal = journal_to_read()
    try:
        found = journal.read()
    except HostError as error:
        if isinstance(error.__cause__, PermissionError):
            return None
        return Refusal(name, "the journal of changes cannot be read", str(error))
    if found is None or found["phase"] == NOT_BEGUN:
        return None
    left = journal.is_left(found)
    what = "waits for confirmation" if found["state"] == WAITING else f"is {found['state']}"
    reason = f"a change of {found['bond']} ({found['action']}) {what}"
    return Refusal(name, reason, to_do(found, left=left))


def make(name: str, settings: BondSettings, spare: frozenset[str] | None = None) -> Plan:
    """Look at the host and return the plan for one bond; ``spare`` makes it a repair."""
    if (refusal := unfinished(name)) is not None:
        return refused(name, refusal)
    found = prepare(name, settings)
    asked = replace(found.asked, record=_record(name))
    persist = asked.record.get("persist")
    if found.look.link(name) is not None and persist in {NETWORKD, NETWORK_MANAGER}:
        held = replace(asked.holding, text=holding.own_text(name, persist), unread=())
        asked = replace(asked, holding=held)
    made = plan(name, settings, found.look, found.survey, asked, spare=spare)
    return with_boot_warning(made, asked.record)


def with_boot_warning(made: Plan, record: Mapping[str, Any]) -> Plan:
    """Add to a plan that nobody makes its bond at the next boot, if so."""
    persist = record.get("persist", made.record.get("persist"))
    if made.refusals or persist != LINKHOLD or not boot_unit.missing():
        return made
    text = (
        f"{made.bond} will not be there after a boot: no network manager owns its members, and "
        f"{boot_unit.UNIT} is {boot_unit.remedy()}"
    )
    return replace(made, warnings=(*made.warnings, text))


def _record(name: str) -> dict[str, Any]:
    """Return what was kept when the bond was made; nothing where only root may read it."""
    try:
        return journal_to_read().committed().get(name, {})
    except (HostError, OSError):
        return {}


def journal_to_read() -> Journal:
    """Return the node's journal, also for a user who is not root and may not be let in."""
    return Journal(find_state_dir() / folder().name)


def document(one: Plan) -> dict[str, Any]:
    """Return a plan as a document for programs."""
    return {
        "bond": one.bond,
        "action": one.action,
        "changes": bool(one.phases),
        "refusals": [
            {"subject": r.subject, "reason": r.reason, "remedy": r.remedy} for r in one.refusals
        ],
        "warnings": list(one.warnings),
        "interruption": one.interruption,
        "phases": [
            {"title": phase.title, "steps": [step.text for step in phase.steps]}
            for phase in one.phases
        ],
        "undo": [undo.step.text for undo in one.undo],
        "confirm_after_s": one.confirm_after_s,
        "guard_s": one.guard_s,
    }


def show(one: Plan, *, manual: bool = False) -> None:
    """Print a plan for a person, who confirms it himself where it is ``manual``."""
    if one.refusals:
        print(f"{one.bond}: refused")
        for refusal in one.refusals:
            print(f"  {refusal.subject}: {refusal.reason}")
            print(f"    do this: {refusal.remedy}")
        return
    for warning in one.warnings:
        print(f"{one.bond}: warning: {warning}")
    if not one.phases:
        print(f"{one.bond}: is as wanted, nothing to do")
        return
    print(f"{one.bond}: would be done, in this order")
    for number, phase in enumerate(one.phases, 1):
        print(f"  {number}. {phase.title}{' (after confirmation)' if phase.confirmed else ''}")
        for step in phase.steps:
            for line in shortened.lines(step.text.split("; ")):
                print(f"       {line}")
    print(f"  interruption: {one.interruption}")
    if manual:
        print(
            "  when all checks hold it waits for: linkhold bond confirm; undone when that does not "
            f"come within {one.guard_s:g} s"
        )
    else:
        print(
            f"  confirmed by itself when all checks hold for {one.confirm_after_s:g} s; "
            f"undone when that is not reached within {one.guard_s:g} s"
        )
