"""``linkhold keepalive audit``: which TCP connections are protected, and in one sentence what for.

Works without an agent and without root: what cannot be seen then is said.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from linkhold import config
from linkhold.cli import arguments
from linkhold.cli.console import Console
from linkhold.cli.shown import duration
from linkhold.decide.audit import sentence, summary, timer_name
from linkhold.decide.audit.report import in_order
from linkhold.decide.keepalive import profiles
from linkhold.model import ConfigError, LinkholdError
from linkhold.model.keepalive import Verdict
from linkhold.survey import cloud, training
from linkhold.survey.audit import Audit, audit, hidden
from linkhold.survey.files import Reader

if TYPE_CHECKING:
    import argparse

    from linkhold.decide.audit import Audited, Summary
    from linkhold.model.jobs import Training

ROWS_MOST = 100
PIPE_COLUMNS = 200
STYLES = {
    Verdict.PROTECTED: "green",
    Verdict.UNPROTECTED: "red",
    Verdict.STALE: "yellow",
    Verdict.BUSY: "",
}
NOBODY = (
    "no training process was found here, so no connection was audited; every connection of this "
    "host: linkhold keepalive audit --all"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the verb."""
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument(
        "--pid", type=arguments.pid, metavar="N", help="connections of this process only"
    )
    scope.add_argument(
        "--job", type=arguments.name, metavar="J", help="connections of this training job only"
    )
    scope.add_argument(
        "--all", action="store_true", help="every connection in every network namespace"
    )
    parser.add_argument("--config", type=arguments.path, metavar="FILE", help="configuration file")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Audit and print; return 0 whatever the verdicts are, since an audit asks for nothing.

    Raises :class:`LinkholdError` for a process or a job that is not there.
    """
    reader = Reader(Path("/"))
    trains = training.find(reader)
    pids, subject = _scope(args, reader, trains)
    wanted_s, doubts = _wanted(args, reader)
    seen = Audit() if pids == frozenset() else audit(reader, trains, pids, wanted_s)
    counts = summary(seen.found, subject, seen.limit_s)
    closing = NOBODY if pids == frozenset() else sentence(counts)
    unseen = [*doubts, *seen.unseen]
    if trains.unread and pids is not None and args.pid is None:
        unseen.append(f"whether training is what runs in {hidden(trains.unread)}")
    found = in_order(seen.found)
    if args.json:
        print(json.dumps(_document(found, counts, closing, unseen)))
    else:
        _show(found, closing, unseen)
    return 0


def _scope(
    args: argparse.Namespace, reader: Reader, trains: Training
) -> tuple[frozenset[int] | None, str]:
    """Return the processes that are meant, None for all, and how a person calls them."""
    if args.all:
        return None, "this host"
    if args.pid is not None:
        if not reader.exists(f"/proc/{args.pid}"):
            raise LinkholdError(f"--pid {args.pid}: there is no such process")
        return frozenset((args.pid,)), _called(reader, args.pid)
    if args.job is not None:
        meant = trains.named(args.job)
        if not meant:
            known = ", ".join(trains.jobs) or "none"
            raise LinkholdError(f"--job {args.job}: no such job trains here; jobs: {known}")
        members = frozenset(one.pid for job in meant for one in trains.of(job))
        return members, f"job {meant[0]}" if len(meant) == 1 else f"{len(meant)} jobs {args.job}"
    jobs = trains.jobs
    subject = f"job {jobs[0]}" if len(jobs) == 1 else f"{len(jobs)} training jobs"
    pids = frozenset(one.pid for one in trains.processes)
    return pids, subject if jobs else "training"


def _called(reader: Reader, pid: int) -> str:
    return f"process {pid} ({reader.line(f'/proc/{pid}/comm')})"


def _wanted(args: argparse.Namespace, reader: Reader) -> tuple[int | None, list[str]]:
    """Return the idle time that the configuration wants, and what is in doubt about it."""
    doubts = []
    try:
        settings = config.load(args.config)
    except ConfigError:
        if args.config is not None:
            raise
        # An ordinary user may not be let in; the audit is of use to him all the same.
        doubts.append("the wanted values, so the default ones count; run: linkhold check")
        settings = config.Settings()
    found = profiles.wanted(settings.keepalive, cloud.machine(reader)[0])
    return None if found is None else found.timers.time_s, doubts


def _document(
    found: list[Audited], counts: Summary, closing: str, unseen: list[str]
) -> dict[str, Any]:
    return {
        "connections": [_entry(one) for one in found],
        "summary": {
            "subject": counts.subject,
            "connections": counts.total,
            **{verdict.value: counts.counts[verdict] for verdict in Verdict},
            "loopback": counts.loopback,
            "unprotected_kinds": dict(counts.unprotected_kinds),
            "wanted_time_s": counts.limit_s,
            "sentence": closing,
            "unseen": unseen,
        },
    }


def _entry(one: Audited) -> dict[str, Any]:
    connection = one.connection
    timer = timer_name(connection)
    return {
        "pid": one.pid or None,
        "comm": one.comm or None,
        "namespace": one.namespace,
        "local": _end(connection.local, connection.local_port),
        "remote": _end(connection.remote, connection.remote_port),
        "verdict": one.verdict.value,
        "timer_s": None if timer == "none" else round(connection.timer_ms / 1000, 3),
        "timer": timer,
        "kind": one.kind,
        "loopback": one.loopback,
        "job": one.job or None,
        "namespace_inode": connection.namespace,
        "retransmits": connection.retransmits,
        "uid": connection.uid,
    }


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _show(found: list[Audited], closing: str, unseen: list[str]) -> None:
    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = None if on_terminal else PIPE_COLUMNS
    console = Console(width=width)
    away = [one for one in found if not one.loopback]
    local = [one for one in found if one.loopback]
    for title, rows in (("connections", away), ("on loopback (need nothing)", local)):
        if rows:
            console.print(_table(title, rows[:ROWS_MOST]))
        if len(rows) > ROWS_MOST:
            console.print(f"and {len(rows) - ROWS_MOST} more; --json has all of them")
    for line in unseen:
        console.print(f"not seen: {line}", style="yellow", soft_wrap=True)
    console.print(Text(f"{closing[:1].upper()}{closing[1:]}."), soft_wrap=True)


def _table(title: str, rows: list[Audited]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("verdict", "timer", "kind", "process", "namespace", "local", "remote"):
        table.add_column(column, no_wrap=column in {"verdict", "timer"}, overflow="fold")
    for one in rows:
        connection = one.connection
        timer = timer_name(connection)
        left = "" if timer == "none" else f" {duration(connection.timer_ms / 1000)}"
        table.add_row(
            Text(one.verdict.value, style=STYLES[one.verdict]),
            f"{timer}{left}",
            one.kind,
            f"{one.comm} {one.pid}" if one.pid else "-",
            one.namespace,
            _end(connection.local, connection.local_port),
            _end(connection.remote, connection.remote_port),
        )
    return table
