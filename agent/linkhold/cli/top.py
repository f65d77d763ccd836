"""``linkhold top``: the fleet as its brokers show it, the worst nodes first."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from linkhold.cli import arguments
from linkhold.fleet_view.brokers import find_brokers
from linkhold.fleet_view.live import run as watch_live
from linkhold.fleet_view.plain import listing
from linkhold.fleet_view.rows import arranged
from linkhold.fleet_view.watch import Watch

if TYPE_CHECKING:
    import argparse

GATHER_S = 30.0
"""A listing waits no longer for brokers that do not tell whether that was all."""
NO_BROKER = 1
ENDED_BY_SIGNAL = 128


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    add_brokers(parser)
    parser.add_argument("--once", action="store_true", help="print one plain listing and leave")
    parser.add_argument(
        "--filter", default="", metavar="WORDS", help="only nodes with all of these words"
    )


def add_brokers(parser: argparse.ArgumentParser) -> None:
    """Add the options that name brokers."""
    parser.add_argument(
        "--broker",
        action="append",
        default=[],
        metavar="URL",
        help="mqtt://host or mqtts://user@host:8883; may be given more than once",
    )
    parser.add_argument(
        "--config",
        type=arguments.path,
        metavar="FILE",
        help="brokers of a relay's or an agent's configuration (default: this machine's)",
    )


def run(args: argparse.Namespace) -> int:
    """Show the fleet; return 0, or 1 when no broker could be reached."""
    brokers = find_brokers(args.broker, args.config)
    with Watch(brokers) as watch:
        if args.once or not _can_draw():
            return _once(watch, args.filter)
        from linkhold.fleet_view.terminal import Terminal  # noqa: PLC0415 -- termios, a terminal

        with Terminal() as terminal:
            watch_live(watch, terminal, args.filter)
            ended = terminal.ended
    return ENDED_BY_SIGNAL + ended if ended else 0


def _can_draw() -> bool:
    """Tell whether this is a terminal with a cursor that can be moved."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        return False
    return os.environ.get("TERM", "dumb") not in {"dumb", "unknown", ""}


def _once(watch: Watch, wanted: str) -> int:
    watch.gather(GATHER_S)
    unreached = 0
    for place, news in watch.brokers.items():
        if news is None or not news.up or news.reason:
            unreached += 1
            reason = news.reason if news else "no answer"
            print(f"linkhold: broker {place}: {reason}", file=sys.stderr)
        elif place not in watch.complete:
            print(f"linkhold: broker {place}: it has not told all", file=sys.stderr)
    if watch.left_out:
        print(f"linkhold: {watch.left_out} messages of more nodes left out", file=sys.stderr)
    for why in watch.why_left_out:
        print(f"linkhold: {why}", file=sys.stderr)
    now_s = time.time()
    for line in listing(arranged(watch.rows(now_s), wanted), now_s):
        print(line)
    return NO_BROKER if unreached == len(watch.brokers) else 0
