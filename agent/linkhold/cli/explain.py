"""``linkhold explain``: what linkhold makes of something that it reads."""

from __future__ import annotations

import argparse
import importlib

_DESCRIPTION = """\
Say what linkhold makes of a text, and by which rule. Needs no agent, and the text may be another
machine's.
"""

SUBJECTS = {
    "kernel-log": ("what lines of the kernel's log say of NICs", "linkhold.cli.explain_kernel_log"),
    "payload": ("what power sensors and metadata services say", "linkhold.cli.explain_payload"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the subjects and their arguments."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    subjects = parser.add_subparsers(
        metavar="SUBJECT", title="subjects", dest="subject", required=True
    )
    for subject, (help_, module) in SUBJECTS.items():
        one = subjects.add_parser(subject, help=help_, allow_abbrev=False)
        importlib.import_module(module).add_arguments(one)


def run(args: argparse.Namespace) -> int:
    """Explain one text and return the exit code."""
    return int(importlib.import_module(SUBJECTS[args.subject][1]).run(args))
