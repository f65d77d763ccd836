"""``linkhold keepalive``: what idle connections survive here, and how to make it longer."""

from __future__ import annotations

import argparse
import importlib

from linkhold.cli import arguments
from linkhold.cli.bond import told_to_programs

_DESCRIPTION = """\
TCP keepalive of this node, as `keepalive:` in the configuration wants it.

A sysctl reaches one network namespace, no open socket, and no socket without SO_KEEPALIVE, which
nearly all sockets of training jobs are: audit shows which connections are protected.
"""
VERBS = {
    "plan": "show what is, what is wanted and why, what it costs, and which outage is survived",
    "apply": "write the wanted values now, whatever the mode of the agent",
    "restore": "put every value back as it was found",
    "audit": "show which connections of training processes are protected",
}
_MODULES = {
    "plan": "linkhold.cli.keepalive_plan",
    "apply": "linkhold.cli.keepalive_apply",
    "restore": "linkhold.cli.keepalive_apply",
    "audit": "linkhold.cli.keepalive_audit",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verbs and their arguments."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    verbs = parser.add_subparsers(metavar="VERB", title="verbs", dest="verb", required=True)
    for verb, help_ in VERBS.items():
        one = verbs.add_parser(verb, help=help_, description=help_, allow_abbrev=False)
        if verb == "audit":
            importlib.import_module(_MODULES[verb]).add_arguments(one)
            continue
        one.add_argument("--json", action="store_true", help="print one JSON document")
        if verb != "restore":
            one.add_argument(
                "--config", type=arguments.path, metavar="FILE", help="configuration file"
            )


def run(args: argparse.Namespace) -> int:
    """Run one verb and return the exit code."""
    with told_to_programs(args):
        return int(importlib.import_module(_MODULES[args.verb]).run(args))
