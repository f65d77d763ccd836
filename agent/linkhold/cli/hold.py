"""``linkhold hold``: an operator pauses training or uploads of this node, or of one job."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from linkhold import paths
from linkhold.cli import arguments
from linkhold.cli.shown import add_run_dir, clock, run_dir_of
from linkhold.control import ControlClient
from linkhold.decide.operator_hold import DEFAULT_S, MOST_S

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

GIVE_UP_S = 900.0
"""``max_hold_s`` of the client, unless the job says otherwise."""
ANSWER_S = 20.0
_DESCRIPTION = f"""\
Hold training, uploads or both on this node, or for one job, until `linkhold resume` or the given
time ends it. Held training waits at its next step. A stop or a checkpoint that is asked for goes
first. Root and members of the group linkhold-operators may. Without --for a hold lasts
{DEFAULT_S / 60:g} minutes, and never more than {MOST_S / 3600:g} hours.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    add_run_dir(parser)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--uploads", action="store_true", help="hold uploads only")
    what.add_argument("--training", action="store_true", help="hold training only")
    parser.add_argument(
        "--for",
        dest="for_s",
        type=arguments.seconds,
        default=DEFAULT_S,
        metavar="TIME",
        help=f"how long at most: 90s, 20m, 2h (default {DEFAULT_S / 60:g}m)",
    )
    parser.add_argument(
        "--job",
        type=arguments.name,
        metavar="J",
        help="only the job of this name, or of this script",
    )
    parser.add_argument("--why", required=True, metavar="TEXT", help="what the hold is for")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Hold and say until when; raises :class:`LinkholdError` with why not."""
    answer = ask(
        args,
        "hold",
        uploads=not args.training,
        training=not args.uploads,
        for_s=args.for_s,
        why=args.why,
        job=args.job or "",
    )
    if args.json:
        print(json.dumps(answer))
        return 0
    for hold in answer["holds"]:
        print(f"{described(hold)} held until {clock(hold['until'])}; linkhold resume ends it")
    if args.for_s > GIVE_UP_S and not args.uploads:
        print(
            f"jobs give up after their own max_hold_s, {GIVE_UP_S:g} s unless they say otherwise, "
            "and end resumably (exit code 75)"
        )
    return 0


def ask(args: argparse.Namespace, cmd: str, **arguments: Any) -> dict[str, Any]:
    """Ask the agent; raises :class:`LinkholdError` with its reason."""
    client = ControlClient(run_dir_of(args) / paths.CONTROL_SOCKET, ANSWER_S)
    try:
        answer = client.ask(cmd, **arguments)
    finally:
        client.close()
    return {name: value for name, value in answer.items() if name != "ok"}


def described(hold: Mapping[str, Any]) -> str:
    """Return what a hold of a state document holds, in words."""
    what = [name for name in ("training", "uploads") if hold[name]]
    return f"{' and '.join(what)} of {hold['job'] or 'this node'}"
