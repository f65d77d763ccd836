"""``linkhold resume``: ends what ``linkhold hold`` began."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from linkhold.cli import arguments
from linkhold.cli.hold import ask, described
from linkhold.cli.shown import add_run_dir, clock

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = (
        "End every hold that operators began on this node, or those of one job. Holds that the "
        "agent advises because of the network or power are not ended by it."
    )
    add_run_dir(parser)
    parser.add_argument(
        "--job", type=arguments.name, metavar="J", help="only the holds of this job"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """End holds and print them; raises :class:`LinkholdError` where nothing is held."""
    answer = ask(args, "resume", job=args.job or "")
    if args.json:
        print(json.dumps(answer))
        return 0
    for hold in answer["ended"]:
        since = f"{hold['by']} held it since {clock(hold['since'])}"
        print(f"{described(hold)} may go on ({since}: {hold['why']})")
    return 0
