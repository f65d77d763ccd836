"""``linkhold bond apply``: make the bonds of the configuration."""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import TYPE_CHECKING

from linkhold.actuators.compile import compiled
from linkhold.actuators.journal import WAITING, Journal
from linkhold.actuators.transaction import Options, Transaction
from linkhold.cli import bond, bond_plan
from linkhold.cli.bond import error_document
from linkhold.model import HostError

if TYPE_CHECKING:
    import argparse

    from linkhold.decide.bonding.steps import Plan

REFUSED = 1
NOT_CONFIRMED = 3


def run(args: argparse.Namespace) -> int:
    """Make each bond in turn.

    Returns 0 when all are verified and committed, 3 when one waits for ``bond confirm``; raises
    :class:`HostError` when a change failed and was undone.
    """
    if os.geteuid() != 0:
        raise HostError("bond apply changes the network: run it as root (plan needs no root)")
    outcomes = []
    for name, settings in bond.wanted_bonds(args).items():
        plan = bond_plan.verifiable(bond_plan.make(name, settings), manual=args.manual)
        if not args.json:
            bond_plan.show(plan, manual=args.manual)
        outcome, error = _outcome(plan, args)
        outcomes.append({"bond": name, "outcome": outcome, **_reasons(plan), **error})
        if outcome not in {"committed", "as wanted"}:
            break
    if args.json:
        print(json.dumps(outcomes, indent=2))
    return max(_CODES[str(one["outcome"])] for one in outcomes)


_CODES = {"committed": 0, "as wanted": 0, "refused": REFUSED, "declined": REFUSED, WAITING: 3}
_CODES |= {"failed": REFUSED}


def _outcome(plan: Plan, args: argparse.Namespace) -> tuple[str, dict[str, object]]:
    """Make one bond; a program is told of a failure beside what became of the bonds before it."""
    if plan.refusals:
        return "refused", {}
    try:
        return _make(plan, args), {}
    except HostError as error:
        if not args.json:
            raise
        return "failed", error_document(str(error))


def _reasons(plan: Plan) -> dict[str, object]:
    return {"refusals": [r.text for r in plan.refusals], "warnings": list(plan.warnings)}


def _make(plan: Plan, args: argparse.Namespace) -> str:
    if not plan.phases:
        return "as wanted"
    if not args.yes and not agreed(f"change the network of this host for {plan.bond}?"):
        return "declined"
    say = (lambda _: None) if args.json else tell
    with hangup_survived():
        outcome = Transaction(Journal(), compiled(plan), say).run(Options(manual=args.manual))
    if outcome == WAITING:
        say(
            f"{plan.bond} works; it is undone in {plan.guard_s:g} s unless you run: "
            "linkhold bond confirm"
        )
    else:
        say(f"{plan.bond}: verified and committed")
    return outcome


def agreed(question: str) -> bool:
    """Ask a person; raises :class:`HostError` where there is none to ask."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise HostError(f"{question} Nobody can be asked here; say --yes")
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def tell(text: str) -> None:
    """Print a line; a terminal that is gone must not end a change half way."""
    try:
        print(text, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123


class hangup_survived:  # noqa: N801 - reads as what it does
    """While it lasts, SIGTERM ends the change as Ctrl-C does (undone), and SIGHUP does nothing."""

    def __enter__(self) -> None:
        self._before = {
            signal.SIGHUP: signal.signal(signal.SIGHUP, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, signal.default_int_handler),
        }

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
