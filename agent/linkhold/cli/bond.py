"""``linkhold bond``: plan, make, confirm, undo, remove, test and show active-backup bonds."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
from typing import TYPE_CHECKING

from linkhold import config
from linkhold.cli import arguments
from linkhold.model import ConfigError, LinkholdError

if TYPE_CHECKING:
    from collections.abc import Iterator

_DESCRIPTION = """\
Active-backup bonds of this node, as `bonds:` in the configuration wants them.

plan shows what apply would do and why it would refuse; it changes nothing. apply does it, watched
by a guard that undoes everything when the network does not work afterwards, whatever becomes of
this command. Nothing here needs a running agent.
"""

VERBS = {
    "plan": "show what apply would change, in order, and why it would refuse",
    "apply": "make the bonds of the configuration; undone unless verified and confirmed",
    "confirm": "make a change permanent that waits for it (apply --manual)",
    "rollback": "undo a change that is not committed yet",
    "remove": "take a bond away again: its primary NIC carries everything as before",
    "repair": "make a committed bond again as it was made",
    "status": "show bonds, a change that is under way, and how the last one ended",
    "test": "move to the standby and back, and measure what that costs",
}
_MODULES = {verb: f"linkhold.cli.bond_{verb}" for verb in ("plan", "apply", "status", "test")}
_MODULES |= dict.fromkeys(("confirm", "rollback", "remove", "repair"), "linkhold.cli.bond_end")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", dest="verb", required=True)
    for verb, help_ in VERBS.items():
        one = verbs.add_parser(verb, help=help_, description=help_, allow_abbrev=False)
        if verb not in {"confirm", "rollback"}:
            many = verb in {"plan", "apply", "status"}
            one.add_argument(
                "bond",
                type=arguments.name,
                nargs="?" if many else None,
                metavar="BOND",
                help="name of the bond" + (" (default: all)" if many else ""),
            )
            one.add_argument(
                "--config", type=arguments.path, metavar="FILE", help="configuration file"
            )
        one.add_argument("--json", action="store_true", help="print one JSON document")
        if verb in {"apply", "remove", "repair"}:
            one.add_argument("--yes", action="store_true", help="do not ask")
        if verb == "repair":
            one.add_argument(
                "--spare",
                type=arguments.name,
                action="append",
                default=[],
                metavar="NIC",
                help="leave this member alone, since somebody set it down; may be given again",
            )
        if verb in {"plan", "apply", "remove"}:
            one.add_argument(
                "--manual",
                action="store_true",
                help="wait for `linkhold bond confirm`, without which the change is undone; needed "
                "where nothing on the wire can show whether it works",
            )


def run(args: argparse.Namespace) -> int:
    """Run one verb and return the exit code; with ``--json`` an error is a document as well."""
    with told_to_programs(args):
        return int(importlib.import_module(_MODULES[args.verb]).run(args))


@contextlib.contextmanager
def told_to_programs(args: argparse.Namespace) -> Iterator[None]:
    """Where ``--json`` is given, print an error as a document, and let it go on its way."""
    try:
        yield
    except (LinkholdError, OSError) as error:
        if args.json and not isinstance(error, BrokenPipeError):
            document = json.dumps(error_document(str(error)), indent=2)
            # Before what people read, of which the agent takes the last line.
            print(document, flush=True)
        raise


def error_document(text: str) -> dict[str, object]:
    """Return what a program is told of a failure; people read the same on stderr."""
    return {"error": {"text": text}}


def wanted_bonds(args: argparse.Namespace) -> dict[str, config.BondSettings]:
    """Return the entries of ``bonds:`` that a command means.

    Raises :class:`ConfigError` when there is none, or none of that name.
    """
    bonds = dict(config.load(args.config).bonds)
    where = args.config or config.DEFAULT_PATH
    if not bonds:
        hint = "bonds: {bond0: {members: [eth0, eth1]}}"
        raise ConfigError((f"{where}: no bonds: are configured; the smallest one: {hint}",))
    if args.bond is None:
        return bonds
    if args.bond not in bonds:
        names = ", ".join(bonds)
        raise ConfigError((f"{where}: bonds: has no {args.bond!r}; allowed: {names}",))
    return {args.bond: bonds[args.bond]}
