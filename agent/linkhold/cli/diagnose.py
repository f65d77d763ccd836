"""``linkhold diagnose``: what is broken, where, how sure, and what to do next."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from linkhold import config, paths
from linkhold.cli import diagnose_sources as given
from linkhold.cli.events import seconds
from linkhold.cli.explain_kernel_log import shown
from linkhold.diagnose import Sources, diagnose, document, plan_of
from linkhold.model import ConfigError, LinkholdError
from linkhold.model.diagnosis import Mark, State

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.model.diagnosis import Diagnosis, Verdict

_DESCRIPTION = """\
Look at everything between this host and the world at once, and say in one sentence what is broken,
where the fault most likely sits, how sure that is, and what to do next. Ten seconds at most, with
or without a running agent. Only gateways, resolvers, the cloud's metadata service and configured
or given targets are asked.

exit codes: 0 healthy, 1 degraded, 2 down, 3 unknown, 64 a wrong call
"""
EX_USAGE = 64
PIPE_COLUMNS = 160
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
        type=seconds,
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
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file")


def run(args: argparse.Namespace) -> int:
    """Diagnose and print; return the exit code of the state."""
    try:
        settings, doubt = _settings(args.config)
        plan = plan_of(settings, tuple(args.target), args.since)
    except LinkholdError as error:
        # Not 1, as other commands have it: that is a node that is degraded.
        for line in str(error).splitlines():
            print(f"linkhold diagnose: {line}", file=sys.stderr)
        return EX_USAGE
    sources = Sources(
        keepalive=lambda: given.keepalive(settings),
        clock=given.clock,
        agent=lambda: given.agent(paths.find_run_dir()),
    )
    with _progress(hidden=args.json) as progress:
        found = asyncio.run(diagnose(plan, sources, progress))
    if args.json:
        print(json.dumps({**document(found), "configuration": doubt or None}, ensure_ascii=False))
    else:
        show(found, doubt)
    return found.verdict.state.exit_code


def _settings(named: Path | None) -> tuple[config.Settings, str]:
    """Return the configuration; one that cannot be read is no reason to look at nothing."""
    try:
        return config.load(named), ""
    except ConfigError as error:
        if named is not None:
            raise
        return config.Settings(), f"the configuration is not used: {error.mistakes[0]}"


@contextmanager
def _progress(*, hidden: bool) -> Iterator[Callable[[str, bool], None]]:
    """Show on a terminal which steps are under way."""
    console = Console(stderr=True, highlight=False, markup=False)
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
    console = Console(highlight=False, markup=False, width=None if on_terminal else PIPE_COLUMNS)
    _show_verdict(console, found.verdict)
    for other in found.also:
        console.print(f"also ({other.place.value}, {other.sure.value}): {shown(other.sentence)}.")
    console.print()
    console.print(_table(found))
    for one in found.missing:
        console.print(f"not seen: {one.step}: {shown(one.why)}", style="yellow", soft_wrap=True)
    if doubt:
        console.print(shown(doubt), style="yellow", soft_wrap=True)


def _show_verdict(console: Console, verdict: Verdict) -> None:
    sentence = shown(verdict.sentence)
    text = Text.assemble(
        (verdict.state.value.upper(), STYLES[verdict.state]),
        f": {sentence}.",
    )
    console.print(text, soft_wrap=True)
    console.print(f"fault most likely in: {verdict.place.value} ({verdict.sure.value})")
    for number, command in enumerate(verdict.next, 1):
        console.print(f"  next {number}: {shown(command)}", soft_wrap=True)


def _table(found: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("step", "what", "", "seen"):
        table.add_column(column, overflow="fold", no_wrap=column in {"step", ""})
    for row in found.evidence:
        mark = Text(row.mark.value, style=MARKS[row.mark])
        table.add_row(row.step, shown(row.subject), mark, shown(row.text))
    return table
