"""``linkhold report --html``: one page about a node or a fleet, for the morning after."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from linkhold import paths
from linkhold.cli import arguments
from linkhold.cli.arguments import WrongCall
from linkhold.cli.events import LIMIT as NODE_LIMIT
from linkhold.cli.shown import add_run_dir, run_dir_of
from linkhold.cli.top import add_brokers
from linkhold.control import ControlClient, NoAgent
from linkhold.fleet_view.brokers import find_brokers
from linkhold.fleet_view.picture import Fleet, Heard
from linkhold.fleet_view.watch import Watch
from linkhold.model import LinkholdError, StoreError
from linkhold.report.ask import Asking
from linkhold.report.html import render
from linkhold.report.page import compose
from linkhold.report.records import collate
from linkhold.report.sources import MOST_LINE, Collected
from linkhold.report.spans import Period
from linkhold.report.story import tell
from linkhold.store.outbox_file import read_history
from linkhold.wire import dumps, node_prefix, state_topic, status_topic

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping

    from linkhold.fleet_view.inbox import Inbox
    from linkhold.fleet_view.picture import Key, NodeView
    from linkhold.report.records import History

OUTBOX_LIMIT = 100_000
"""Events of one node that are read from its disk."""
PROGRESS_S = 2.0
OWN = "this node"
NAMED = 5


class Material:
    """What a page is made of, and what its reader must know of that."""

    def __init__(self) -> None:
        self.collected = Collected()
        self.fleet = Fleet()
        self.notes: list[str] = []


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.add_argument(
        "files",
        nargs="*",
        type=arguments.path,
        metavar="FILE",
        help="events as `linkhold events --json`",
    )
    parser.add_argument("--html", action="store_true", required=True, help="write a page of HTML")
    parser.add_argument(
        "--since",
        type=arguments.seconds,
        default=arguments.UNITS["d"],
        metavar="AGE",
        help="how far back: 90m, 24h, 7d (default 24h)",
    )
    parser.add_argument(
        "--node",
        type=arguments.name,
        action="append",
        default=[],
        metavar="NODE",
        help="only this node (name or site/name); may be given more than once",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=arguments.path,
        metavar="FILE",
        help="the page (default: standard output)",
    )
    add_brokers(parser)
    add_run_dir(parser)
    parser.add_argument(
        "--state-dir",
        type=arguments.path,
        metavar="S",
        help="folder of the outbox, without an agent",
    )


def run(args: argparse.Namespace) -> int:
    """Write the page and return 0; 1 when there is nothing to tell of."""
    if args.output is None and (sys.stdout is None or sys.stdout.isatty()):
        raise WrongCall("a page is not for a terminal; allowed: -o report.html, or a pipe")
    if args.files and (args.broker or args.config):
        raise WrongCall("files or brokers; allowed: one of both")
    now_s = time.time()
    material = _gather(args, now_s)
    histories = collate(material.collected.records)
    wanted = frozenset(args.node)
    histories = {key: one for key, one in histories.items() if _is_wanted(key, wanted)}
    present = {node.key: node for node in material.fleet.select(wanted)}
    if not histories and not present:
        raise LinkholdError(_nothing(material, wanted))
    until_s = _until(histories, present, now_s, from_files=bool(args.files))
    period = Period(until_s - args.since, until_s)
    notes = (*material.notes, *material.collected.notes())
    page = compose(tell(histories, present, period), period, now_s, notes)
    _write(args.output, render(page))
    for note in notes:
        print(f"linkhold: {note}", file=sys.stderr)
    return 0


def _gather(args: argparse.Namespace, now_s: float) -> Material:
    if args.files:
        return _from_files(args.files)
    if args.broker or args.config:
        return _from_brokers(args, now_s - args.since)
    return _from_node(args, now_s)


def _is_wanted(key: Key, names: frozenset[str]) -> bool:
    return not names or key[1] in names or "/".join(key) in names


def _nothing(material: Material, wanted: frozenset[str]) -> str:
    if material.collected.problem:
        return f"no event in what was read; the first line: {material.collected.problem}"
    which = f" of {', '.join(sorted(wanted))}" if wanted else ""
    return f"nothing is known{which}; allowed: a longer --since, another --node"


def _until(
    histories: Mapping[Key, History],
    present: Mapping[Key, NodeView],
    now_s: float,
    *,
    from_files: bool,
) -> float:
    """Return the end of the period: now, or for files the newest event in them."""
    if not from_files or present:
        return now_s
    return max(record.at_s for one in histories.values() for record in one.records)


def _from_files(files: list[Path]) -> Material:
    material = Material()
    for path in files:
        if str(path) == "-":
            if sys.stdin is None:
                raise LinkholdError("standard input is closed; name a file")
            material.collected.add_lines(bounded(sys.stdin.buffer))
            continue
        with path.open("rb") as lines:
            material.collected.add_lines(bounded(lines))
    return material


def bounded(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines; of one that is too long for an event only its start, which is none."""
    whole = True
    while line := arguments.next_line(file, MOST_LINE + 1):
        if whole:
            yield line
        whole = line.endswith(b"\n")


def _from_node(args: argparse.Namespace, now_s: float) -> Material:
    """Ask the agent of this node, or read what it left in its outbox."""
    material = Material()
    try:
        client = ControlClient(run_dir_of(args) / paths.CONTROL_SOCKET)
    except NoAgent as error:
        folder = args.state_dir or paths.state_dir()
        try:
            found = read_history(folder, now_s - args.since, OUTBOX_LIMIT)
        except StoreError as missing:
            raise LinkholdError(
                f"{error}; {missing}; of a fleet: linkhold report --html --broker URL"
            ) from None
        material.notes.append(f"No agent runs: this is what the outbox in {folder} has.")
        material.collected.add_lines(found)
        return material
    try:
        answer = client.ask("events", since_s=args.since, limit=NODE_LIMIT)
        document = client.ask("state")["state"]
    finally:
        client.close()
    if answer["left_out"]:
        material.notes.append(f"Only the newest {NODE_LIMIT} events are shown.")
    material.collected.add_lines(dumps(event) for event in answer["events"])
    prefix = node_prefix(document["site"], document["node"])
    for topic, payload in (
        (state_topic(prefix), dumps(document)),
        (status_topic(prefix), b"online"),
    ):
        material.fleet.take(Heard(OWN, topic, payload, retained=True, at_s=now_s))
    return material


def _from_brokers(args: argparse.Namespace, since_s: float) -> Material:
    """Take the present of the fleet, and ask every node that is there for its past."""
    askings: list[Asking] = []

    def work(broker: str, inbox: Inbox) -> Asking:
        askings.append(Asking(broker, inbox, since_s, args.node))
        return askings[-1]

    material = Material()
    with Watch(find_brokers(args.broker, args.config), work, "report") as watch:
        material.fleet = watch.fleet
        _wait(watch, askings)
        unreached = [news for news in watch.brokers.values() if news is None or not news.up]
        if len(unreached) == len(watch.brokers):
            reasons = (f"{place}: {_reason(news)}" for place, news in watch.brokers.items())
            raise LinkholdError(f"no broker could be reached; {'; '.join(reasons)}")
        material.notes += [
            f"Broker {place}: {_reason(news)}; nodes on it alone are missing."
            for place, news in watch.brokers.items()
            if news is None or not news.up or news.reason
        ]
    for asking in askings:
        material.collected.records += asking.collected.records
        material.collected.dropped += asking.collected.dropped
    material.notes += [
        f"The broker refuses cmd/replay: {one.refused}; see its ACL."
        for one in askings
        if one.refused
    ]
    _note_silent(material, askings)
    return material


def _reason(news: object) -> str:
    return str(getattr(news, "reason", "")) or "no answer"


def _note_silent(material: Material, askings: list[Asking]) -> None:
    for keys, one, several in (
        (
            [key for asking in askings for key in asking.silent],
            "did not answer for its past",
            "did not answer for their past",
        ),
        (
            [key for asking in askings for key in asking.cut],
            "has more to tell than was asked for",
            "have more to tell than was asked for",
        ),
    ):
        if keys:
            names = ", ".join(key[1] for key in sorted(keys)[:NAMED])
            more = f" and {len(keys) - NAMED} more" if len(keys) > NAMED else ""
            what = f"node {one}" if len(keys) == 1 else f"nodes {several}"
            material.notes.append(f"{len(keys)} {what}: {names}{more}.")


def _wait(watch: Watch, askings: list[Asking]) -> None:
    """Wait for every broker's nodes; one that cannot be reached is waited for no longer."""
    told_s = time.monotonic()
    while not all(
        asking.done.is_set() or (news is not None and not news.up)
        for asking, news in zip(askings, watch.brokers.values(), strict=True)
    ):
        time.sleep(0.1)
        watch.take()
        if time.monotonic() - told_s >= PROGRESS_S and sys.stderr and sys.stderr.isatty():
            told_s = time.monotonic()
            asked = sum(asking.asked for asking in askings)
            print(f"linkhold: {asked} nodes asked ...", file=sys.stderr)
    watch.take()


def _write(output: Path | None, page: str) -> None:
    """Write the page, whole or not at all."""
    data = page.encode("utf-8", "replace")
    if output is None:
        sys.stdout.buffer.write(data)
        return
    try:
        _replace(output, data)
    except OSError as error:  # it names the file that was to become the page
        raise LinkholdError(f"{output}: {error.strerror or error}") from None


def _replace(output: Path, data: bytes) -> None:
    descriptor, name = tempfile.mkstemp(prefix=f".{output.name}.", dir=output.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 -- a descriptor, no path
            file.write(data)
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)
        Path(name).replace(output)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
