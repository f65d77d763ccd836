"""``linkhold explain payload``: what recorded payloads of power sensors and clouds mean."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from linkhold.cli import arguments
from linkhold.cli.explain_kernel_log import opened
from linkhold.decide.payloads import KINDS, explain_row
from linkhold.model import LinkholdError
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TextIO

_DESCRIPTION = f"""\
Say of each recorded payload of a power sensor or a cloud's metadata service what it means.

Each line is a JSON object: kind, topic_or_url and body; for an answer of a service also status
(null: none came) and response_headers; for MQTT retain. Others that help: notifytype (upsmon),
previous_body (NUT), this_vm (Azure), charge (NUT). A file that is one JSON list will do too.
Kinds: {", ".join(KINDS[:8])},
{", ".join(KINDS[8:])}.
"""
LINE_CHARS = 1 << 20
"""The longest line; a longer one cannot be read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``linkhold explain payload``."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "file",
        nargs="?",
        type=arguments.name,
        default="-",
        metavar="FILE",
        help="the payloads to read; - is standard input (default: -)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object for each")


def run(args: argparse.Namespace) -> int:
    """Read, print and return 0; 1 when a line could not be read."""
    failed = False
    with opened(args.file) as file:
        for number, text in _rows(file):
            try:
                told = explain_row(_row(text))
            except LinkholdError as error:
                failed = True
                print(f"linkhold: {args.file}: line {number}: {error}", file=sys.stderr)
                continue
            print(json.dumps(told) if args.json else _sentence(number, told), flush=True)
    return int(failed)


def _rows(file: TextIO) -> Iterator[tuple[int, object]]:
    """Yield each line that is not blank, or each entry of a list, with its number from 1."""
    number, first = 0, True
    while line := arguments.next_line(file, LINE_CHARS):
        number += 1
        if first and line.lstrip()[:1] == "[":
            yield from enumerate(_list(line + file.read(LINE_CHARS * 64)), 1)
            return
        first = first and not line.strip()
        if line.strip():
            yield number, line


def _list(text: str) -> list[object]:
    value = _loaded(text)
    return value if isinstance(value, list) else [value]


def _row(text: object) -> dict[str, Any]:
    value = _loaded(text) if isinstance(text, str) else text
    if not isinstance(value, dict):
        raise LinkholdError("not a JSON object with kind, topic_or_url and body")
    return value


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LinkholdError(f"no JSON: {error}") from None


def _sentence(number: int, told: dict[str, Any]) -> str:
    name = one_line(str(told["id"])) if told["id"] is not None else str(number)
    rest = {key: value for key, value in told.items() if key not in _HEAD}
    more = "".join(f", {key} {one_line(str(value))}" for key, value in rest.items())
    return f"{name}: {told['severity']} {told['event']}{more}\n    {one_line(told['why'])}"


_HEAD = frozenset({"id", "event", "severity", "why", "keep_previous_state"})
