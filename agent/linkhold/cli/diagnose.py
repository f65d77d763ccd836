"""``linkhold diagnose``: what is broken, where, how sure, and what to do next."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from linkhold import paths
from linkhold.cli import EX_USAGE, arguments
from linkhold.cli import diagnose_sources as given
from linkhold.cli.console import Console
from linkhold.control import ControlClient
from linkhold.diagnose import diagnose, document, plan_of
from linkhold.model import LinkholdError
from linkhold.model.diagnosis import Mark, State
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.model.diagnosis import Diagnosis, Verdict

_DESCRIPTION = """\
Look at everything between this host and the world at once, and say in one sentence what is broken,
where the fault most likely sits, how sure that is, and what to do next. Ten seconds at most, with
or without a running agent. Only gateways, resolvers, the cloud's metadata service and configured
or given targets are asked.

exit codes: 0 healthy, 1 degraded, 2 down, 3 unknown, 64 a wrong call, 69 --publish failed (the
report is printed all the same)
"""
EX_UNAVAILABLE = 69
PUBLISH_S = 20.0
"""Above the time that the agent gives the fleet's broker to answer."""
PIPE_COLUMNS = 160
TABLE_COLUMNS = 72
"""On a narrower terminal (a phone, a split console) columns would be of a few letters each."""
STYLES = {
    State.HEALTHY: "bold green",
    State.DEGRADED: "bold yellow",
    State.DOWN: "bold red",
    State.UNKNOWN: "bold yellow",
}
MARKS = {Mark.OK: "green", Mark.NOTE: "", Mark.BAD: "red", Mark.UNKNOWN: "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--since",
        type=arguments.seconds,
        default=3600.0,
        metavar="AGE",
        help="how far back the kernel's log is read: 90s, 15m, 2h, 1d (default 1h)",
    )
    parser.add_argument(
        "--target",
        action="append",
        default=[],
        metavar="H",
        help="ask this too: host, host:port or URL; may be given several times",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="have the running agent publish the report to the fleet (root only)",
    )
    parser.add_argument("--config", type=arguments.path, metavar="FILE", help="configuration file")


def run(args: argparse.Namespace) -> int:
    """Diagnose and print; return the exit code of the state."""
    try:
        settings, doubt = given.settings_of(args.config)
        plan = plan_of(settings, tuple(args.target), args.since)
    except LinkholdError as error:
        # Not 1, as other commands have it: that is a node that is degraded.
        for line in str(error).splitlines():
            print(f"linkhold diagnose: {line}", file=sys.stderr)
        return EX_USAGE
    sources = given.sources_of(settings, paths.find_run_dir())
    with _progress(hidden=args.json) as progress:
        found = asyncio.run(diagnose(plan, sources, progress))
    told = {**document(found), "configuration": doubt or None}
    topic, problem = _publish(told) if args.publish else ("", "")
    if args.json:
        ending = {"published": topic or None, "not_published": problem or None}
        print(json.dumps({**told, **(ending if args.publish else {})}))
    else:
        show(found, doubt)
        if topic:
            print(f"published on {topic}")
    if problem:
        print(f"linkhold diagnose: not published: {problem}", file=sys.stderr)
        return EX_UNAVAILABLE
    return found.verdict.state.exit_code


def _publish(told: dict[str, Any]) -> tuple[str, str]:
    """Have the running agent publish a report; return its topic, and why there is none."""
    try:
        client = ControlClient(paths.find_run_dir() / paths.CONTROL_SOCKET, PUBLISH_S)
        try:
            body = json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")
            return str(client.ask("publish_diagnosis", body=body)["topic"]), ""
        finally:
            client.close()
    except (LinkholdError, KeyError) as error:
        return "", str(error)


@contextmanager
def _progress(*, hidden: bool) -> Iterator[Callable[[str, bool], None]]:
    """Show on a terminal which steps are under way."""
    console = Console(stderr=True)
    under_way: list[str] = []
    if hidden or not console.is_terminal:
        yield lambda _step, _ended: None
        return
    with console.status("looking ...") as status:

        def tell(step: str, ended: bool) -> None:  # noqa: FBT001 - a callback
            if ended and step in under_way:
                under_way.remove(step)
            elif not ended:
                under_way.append(step)
            status.update(f"looking at {', '.join(dict.fromkeys(under_way)) or '...'}")

        yield tell


def show(found: Diagnosis, doubt: str = "") -> None:
    """Print the verdict first, then what else is wrong, then the evidence."""
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = None if on_terminal else PIPE_COLUMNS
    console = Console(width=width)
    _show_verdict(console, found.verdict)
    for other in found.also:
        where = f"{other.place.value}, {other.sure.value}"
        console.print(f"also ({where}): {one_line(other.sentence)}.", soft_wrap=True)
    console.print()
    if console.width < TABLE_COLUMNS:
        _show_rows(console, found)
    else:
        console.print(_table(found))
    for one in found.missing:
        console.print(f"not seen: {one.step}: {one_line(one.why)}", style="yellow", soft_wrap=True)
    if doubt:
        console.print(one_line(doubt), style="yellow", soft_wrap=True)


def _show_verdict(console: Console, verdict: Verdict) -> None:
    sentence = one_line(verdict.sentence)
    text = Text.assemble(
        (verdict.state.value.upper(), STYLES[verdict.state]),
        f": {sentence}.",
    )
    console.print(text, soft_wrap=True)
    console.print(f"fault most likely in: {verdict.place.value} ({verdict.sure.value})")
    for number, command in enumerate(verdict.next, 1):
        console.print(f"  next {number}: {one_line(command)}", soft_wrap=True)


def _show_rows(console: Console, found: Diagnosis) -> None:
    """Print each row as a line of its own, which the terminal breaks where it must."""
    for row in found.evidence:
        mark = Text(row.mark.value, style=MARKS[row.mark])
        where = f"{row.step}, {one_line(row.subject)}: "
        console.print(Text.assemble(where, mark, f", {one_line(row.text)}"), soft_wrap=True)


def _table(found: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("step", "what", "", "seen"):
        table.add_column(column, overflow="fold", no_wrap=column in {"step", ""})
    for row in found.evidence:
        mark = Text(row.mark.value, style=MARKS[row.mark])
        table.add_row(row.step, one_line(row.subject), mark, one_line(row.text))
    return table
