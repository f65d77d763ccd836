"""``linkhold explain kernel-log``: what each line of a kernel log says of NICs."""

from __future__ import annotations

import argparse
import io
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from linkhold.cli import arguments
from linkhold.decide.kernel_log import entries, explain
from linkhold.model import LinkholdError
from linkhold.model.kernel_log import LineClass
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.kernel_log import Entry
    from linkhold.model.kernel_log import Finding

_DESCRIPTION = """\
Say of each line of a kernel log what it means for a NIC, and by which rule.

Any text of a kernel log will do: raw records of /dev/kmsg, dmesg with and without -T, journalctl
in its short forms, syslog, RFC 5424, netconsole, busybox. A raw record and the lines after it that
belong to it are one entry, at its first line. Without --json the lines that mean nothing are left
out. Lines of PCI ports need the tree of the machine that wrote them, and mean nothing here.
"""
_LINE_BYTES = 65_536
"""The longest line that is taken in one piece; what is left of it is a line of no meaning."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``linkhold explain kernel-log``."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "file",
        nargs="?",
        type=arguments.name,
        default="-",
        metavar="FILE",
        help="the log to read; - is standard input (default: -)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object for each entry, also for none"
    )


def run(args: argparse.Namespace) -> int:
    """Read, print what was found and return 0."""
    with opened(args.file) as file:
        for entry in entries(_lines(file)):
            finding = explain(entry)
            if args.json:
                print(json.dumps(document(entry.number, finding)))
            elif finding.cls is not LineClass.NONE:
                print(_sentence(entry, finding))
    return 0


def document(number: int, finding: Finding) -> dict[str, object]:
    """Return what ``--json`` prints of an entry; ``line`` counts from 1, unknown names are null."""
    return {
        "line": number,
        "class": finding.cls.value,
        "interface": finding.interface or None,
        "driver": finding.driver or None,
        "address": finding.address or None,
        "severity": finding.severity.value,
        "why": finding.why,
    }


def _sentence(entry: Entry, finding: Finding) -> str:
    who = finding.interface or finding.address or finding.driver or "?"
    what = f"{finding.severity.value} {finding.cls.value}"
    return f"{entry.number}: {one_line(who)}: {what}: {one_line(entry.message)}\n    {finding.why}"


@contextmanager
def opened(name: str) -> Iterator[TextIO]:
    """Open the log; bytes that are no UTF-8 become escapes, as the kernel prints them.

    A byte order mark in front, as editors leave it, is no part of the first line.
    """
    if name == "-":
        if sys.stdin is None:
            raise LinkholdError("standard input is closed; name a file")
        if sys.stdin.isatty():
            print("reading what is typed; Ctrl-D ends it", file=sys.stderr)
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(encoding="utf-8-sig", errors="backslashreplace", newline="\n")
        yield sys.stdin
        return
    with Path(name).open(encoding="utf-8-sig", errors="backslashreplace", newline="\n") as file:
        yield file


def _lines(file: TextIO) -> Iterator[str]:
    """Yield the lines; of an endless one only its start, in bounded memory."""
    whole = True
    while line := arguments.next_line(file, _LINE_BYTES):
        if whole:
            yield line
        whole = line.endswith("\n")
