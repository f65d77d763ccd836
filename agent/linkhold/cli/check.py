"""``linkhold check``: is a configuration file right, and what is wrong with it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from linkhold.config import DEFAULT_PATH, default_file, load
from linkhold.model import ConfigError

_DESCRIPTION = """\
Check a configuration file and the certificates and password files that it names.

Prints "configuration OK" and exits with 0, or prints every mistake, one a line, and their
number, and exits with 1. Both go to stdout, where Ansible's validate shows them. A wrong call
exits with 64.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``linkhold check``."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "file",
        nargs="?",
        type=_path,
        metavar="FILE",
        help=f"the file to check (default: {DEFAULT_PATH})",
    )
    which.add_argument(
        "--config", type=_path, metavar="FILE", help="the same, as other commands take it"
    )
    which.add_argument(
        "--print-default", action="store_true", help="print a commented file with every default"
    )


def run(args: argparse.Namespace) -> int:
    """Check, print the outcome and return 0 or 1."""
    if args.print_default:
        print(default_file(), end="")
        return 0
    path: Path | None = args.file or args.config
    try:
        load(path, files=True)
    except ConfigError as error:
        count = len(error.mistakes)
        print(*error.mistakes, f"{count} mistake{'s' if count != 1 else ''}", sep="\n")
        return 1
    print("configuration OK")
    if path is None and not DEFAULT_PATH.exists():
        print(f"{DEFAULT_PATH} does not exist; every key has its default", file=sys.stderr)
    return 0


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the name of the file is empty")
    return Path(text)
