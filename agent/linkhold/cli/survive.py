"""``linkhold survive``: which outage a running job survives, layer by layer, smallest first.

Exit codes: 0 as long as asked, 1 a layer is below ``--need``, 3 no training was found, 64 a wrong
call. Works without an agent; as an ordinary user for one's own jobs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from linkhold.cli import arguments
from linkhold.cli.bond import told_to_programs
from linkhold.cli.console import Console
from linkhold.cli.shown import duration
from linkhold.config.units import quantity
from linkhold.decide.survival import Effect, budget, sentence
from linkhold.model import LinkholdError
from linkhold.survey import job_settings, training
from linkhold.survey.files import Reader

if TYPE_CHECKING:
    from linkhold.decide.survival import Budget, Layer
    from linkhold.model.jobs import Training

BELOW, NOBODY = 1, 3
PIPE_COLUMNS = 200
_DESCRIPTION = """\
Show which outage of the network a running training job survives: what gives up, when, what set
it, and how to raise it, smallest first. Each of these is a layer; a job lives as long as its
weakest.

exit codes: 0 long enough, 1 a layer is below --need, 3 no training process was found
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--pid", type=arguments.pid, metavar="N", help="the job that this process is of"
    )
    scope.add_argument(
        "--job", type=arguments.name, metavar="J", help="the job of this name, or of this script"
    )
    parser.add_argument(
        "--need", type=_need, metavar="T", help="exit with 1 when a layer survives less, as in 5m"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Print the budget of each job; raises :class:`LinkholdError` for one that is not there."""
    with told_to_programs(args):
        return _run(args)


def _run(args: argparse.Namespace) -> int:
    reader = Reader(Path("/"))
    found = training.find(reader)
    jobs = _meant(args, reader, found)
    need_s: float | None = args.need
    budgets = [budget(job_settings.look(reader, found, job), need_s) for job in jobs]
    unseen = list(dict.fromkeys((*found.doubts, *reader.problems)))
    if found.unread and args.pid is None:
        unseen.append(
            f"processes whose environment may not be read, so they may train too: {found.unread}"
        )
    if args.json:
        document = {
            "need_s": need_s,
            "jobs": [_document(one, need_s) for one in budgets],
            "unseen": unseen,
        }
        print(json.dumps(document, indent=2))
    else:
        _show(budgets, need_s, unseen)
    if not budgets:
        return NOBODY
    return BELOW if need_s is not None and any(one.below(need_s) for one in budgets) else 0


def _meant(args: argparse.Namespace, reader: Reader, found: Training) -> tuple[str, ...]:
    """Return the names of the jobs that are meant."""
    if args.pid is not None:
        if not reader.exists(f"/proc/{args.pid}"):
            raise LinkholdError(f"--pid {args.pid}: there is no such process")
        return tuple(one.job for one in found.processes if one.pid == args.pid)
    if args.job is None:
        return found.jobs
    named = found.named(args.job)
    if found.jobs and not named:
        jobs = ", ".join(found.jobs)
        raise LinkholdError(f"--job {args.job}: no such job trains here; jobs: {jobs}")
    return named


def _document(one: Budget, need_s: float | None) -> dict[str, Any]:
    weakest = one.weakest
    return {
        "job": one.job,
        "survives_s": weakest.outage_s if weakest else None,
        "weakest": weakest.name if weakest else None,
        "enough": None if need_s is None else not one.below(need_s),
        "alone": one.alone,
        "sentence": sentence(one),
        "layers": [_layer(layer, need_s) for layer in one.layers],
        "warnings": list(one.warnings),
    }


def _layer(layer: Layer, need_s: float | None) -> dict[str, Any]:
    endless = layer.outage_s == math.inf
    return {
        "layer": layer.name,
        "effect": layer.effect.value,
        "outage_s": None if endless or layer.outage_s is None else round(layer.outage_s, 3),
        "endless": endless,
        "below": need_s is not None and layer.below(need_s),
        "value": layer.value,
        "where": layer.where,
        "raise": layer.how,
        "source": layer.source,
        "note": layer.note,
    }


def _show(budgets: list[Budget], need_s: float | None, unseen: list[str]) -> None:
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    console = Console(width=None if on_terminal else PIPE_COLUMNS)
    for one in budgets:
        _say(console, sentence(one))
        if need_s is not None:
            _say(console, _verdict(one, need_s))
        console.print(_table(one, need_s))
        for layer in one.layers:
            if layer.note:
                console.print(f"  {layer.name}: {layer.note}", soft_wrap=True)
        for warning in one.warnings:
            console.print(f"warning: {warning}", style="yellow", soft_wrap=True)
        console.print()
    if not budgets:
        _say(console, "nothing that trains was found, going by commands, environment and GPUs")
    for line in unseen:
        console.print(f"not seen: {line}", style="yellow", soft_wrap=True)


def _say(console: Console, text: str) -> None:
    console.print(Text(f"{text[:1].upper()}{text[1:]}."), soft_wrap=True)


def _verdict(one: Budget, need_s: float) -> str:
    below = one.below(need_s)
    if not below:
        return f"that is enough for the {duration(need_s)} of --need"
    names = ", ".join(layer.name for layer in below)
    return f"less than the {duration(need_s)} of --need: {names}"


def _table(one: Budget, need_s: float | None) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("outage", "layer", "value", "set by", "raise it with"):
        table.add_column(column, no_wrap=column == "outage", overflow="fold")
    for layer in one.layers:
        style = "red" if need_s is not None and layer.below(need_s) else ""
        table.add_row(
            Text(_outage(layer), style=style), layer.name, layer.value, layer.where, layer.how
        )
    return table


def _outage(layer: Layer) -> str:
    if layer.outage_s is None:
        return "unknown"
    if layer.outage_s == math.inf:
        return "no limit"
    words = {Effect.REPAIRS: " (repaired)", Effect.STARTS: " (at a start)"}
    return duration(layer.outage_s) + words.get(layer.effect, "")


def _need(text: str) -> float:
    """Return a duration in seconds: ``300``, ``300s``, ``5m``, ``1h``."""
    found = quantity("need_s", text if text[-1:].isalpha() else f"{text}s")
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; 300, 5m, 1.5h or 1d are")
    return float(found.amount)
