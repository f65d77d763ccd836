"""``linkhold events``: what happened on this node, from the agent or from its outbox."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any

from linkhold import paths
from linkhold.cli import arguments
from linkhold.cli.shown import add_run_dir, clock, run_dir_of
from linkhold.control import ControlClient, NoAgent
from linkhold.model import StoreError, WireError
from linkhold.store.outbox_file import read_history
from linkhold.wire import event_line, parse_event

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Mapping

LIMIT = 10_000
NO_AGENT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    add_run_dir(parser)
    parser.add_argument(
        "--since",
        type=arguments.seconds,
        default=arguments.UNITS["d"],
        metavar="AGE",
        help="how far back: 90s, 15m, 2h, 1d (default 1d)",
    )
    parser.add_argument("--follow", action="store_true", help="go on with events as they happen")
    parser.add_argument("--json", action="store_true", help="one CloudEvent a line")
    parser.add_argument(
        "--state-dir",
        type=arguments.path,
        metavar="S",
        help="folder of the outbox, without an agent",
    )


def run(args: argparse.Namespace) -> int:
    """Print events; without an agent those of its outbox, and return 1."""
    show = _show_json if args.json else _show_line
    try:
        client = ControlClient(run_dir_of(args) / paths.CONTROL_SOCKET)
    except NoAgent as error:
        return _without_agent(args, str(error))
    try:
        follower = ControlClient(run_dir_of(args) / paths.CONTROL_SOCKET) if args.follow else None
        stream = follower.follow() if follower else iter(())
        answer = client.ask("events", since_s=args.since, limit=LIMIT)
        if answer["left_out"]:
            print("linkhold: older events are left out; --since 1h asks for less", file=sys.stderr)
        shown = _show_all(answer["events"], show)
        for event in stream:
            if event.get("id") not in shown:
                show(event)
                sys.stdout.flush()
    finally:
        client.close()
    if args.follow:
        print("linkhold: the agent ended", file=sys.stderr)
        return NO_AGENT
    return 0


def _without_agent(args: argparse.Namespace, why: str) -> int:
    folder = args.state_dir or paths.state_dir()
    print(f"linkhold: {why}; reading {folder / paths.OUTBOX_FILE}", file=sys.stderr)
    if args.follow:
        print("linkhold: without an agent nothing can be followed", file=sys.stderr)
    try:
        payloads = read_history(folder, time.time() - args.since, LIMIT)
    except StoreError as error:
        print(f"linkhold: {error}", file=sys.stderr)
        return NO_AGENT
    _show_all(readable(payloads), _show_json if args.json else _show_line)
    return NO_AGENT


def readable(payloads: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield the events of an outbox; one that the disk has damaged is named and passed over."""
    for payload in payloads:
        try:
            yield parse_event(payload).document
        except WireError as error:
            print(f"linkhold: an event is damaged and left out: {error}", file=sys.stderr)


def _show_all(events: Iterable[Mapping[str, Any]], show: Any) -> set[str]:
    shown = set()
    for event in events:
        show(event)
        shown.add(str(event.get("id")))
    sys.stdout.flush()
    return shown


def _show_json(event: Mapping[str, Any]) -> None:
    print(json.dumps(event, separators=(",", ":")))


def _show_line(event: Mapping[str, Any]) -> None:
    data = event.get("data")
    told = data if isinstance(data, dict) else {}
    line = event_line(str(event["type"]), str(event.get("subject", "")), told)
    print(f"{clock(str(event['time']))} {event.get('severity', 'info'):8} {line}")
