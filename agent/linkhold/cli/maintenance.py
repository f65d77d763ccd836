"""``linkhold maintenance``: announce planned work on nodes, through the fleet's brokers."""

from __future__ import annotations

import argparse
import getpass
import json
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.cli.events import seconds
from linkhold.config import DEFAULT_RELAY_PATH, load_relay
from linkhold.model import LinkholdError
from linkhold.relay.decide.places import Places
from linkhold.relay.decide.texts import clock, some
from linkhold.relay.errands import Announcer
from linkhold.wire.maintenance import LEAST_S, MOST_CHARACTERS, MOST_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.relay.decide.values import Key

DEFAULT_S = 2 * 3600.0
LOOK_S = 5.0
ANSWER_S = 20.0
_DESCRIPTION = f"""\
Announce planned work on a node, or on every node of a rack, switch or site, or whose name matches
a pattern with * and ?. Until the end nobody is paged for them; states and events go on as always.
It goes through the fleet's brokers, so this runs where {DEFAULT_RELAY_PATH} is, or with --config,
and needs the relay's rights. A node that is offline cannot be told.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.add_argument("target", metavar="NODE|GROUP", help="a node, rack, switch, site or gpu-*")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--for",
        dest="for_s",
        type=_duration,
        default=DEFAULT_S,
        metavar="TIME",
        help=f"how long: 30m, 2h, 1d (default {DEFAULT_S / 3600:g}h)",
    )
    what.add_argument("--end", action="store_true", help="end it now: people are paged again")
    parser.add_argument("--why", default="", metavar="TEXT", help="what is done; needed to begin")
    parser.add_argument("--config", type=Path, metavar="FILE", help="the relay's configuration")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _duration(text: str) -> float:
    value = seconds(text)
    if not LEAST_S <= value <= MOST_S:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range; allowed: 1m to 7d")
    return value


@dataclass(frozen=True)
class _Outcome:
    """What became of each node."""

    told: Sequence[Key]
    silent: Sequence[Key]
    offline: Sequence[Key]


def run(args: argparse.Namespace) -> int:
    """Announce and wait until each node's state shows it; 1 when one did not take it."""
    why = args.why.strip()
    if not args.end and not (why and len(why) <= MOST_CHARACTERS and why.isprintable()):
        raise LinkholdError(
            f"why: say in 1 to {MOST_CHARACTERS} printable characters what is done: --why TEXT"
        )
    settings = load_relay(args.config)
    with Announcer(settings.brokers) as announcer:
        announcer.look(LOOK_S)
        keys = Places(settings.places).members(args.target, sorted(announcer.nodes))
        if not keys:
            known = some(name for _, name in announcer.nodes) or "none"
            raise LinkholdError(f"no node {args.target!r} is known to the brokers; known: {known}")
        for_s = 0.0 if args.end else args.for_s
        request = f"cli-{secrets.token_hex(6)}"
        there = [key for key in keys if announcer.nodes[key].online]
        announcer.announce(there, request, for_s, why or "ended", _who())
        told = announcer.answers(there, request if for_s else "", ANSWER_S)
    offline = [key for key in keys if key not in there]
    outcome = _Outcome(told, [key for key in there if key not in told], offline)
    _show(args, outcome)
    return int(bool(outcome.silent or outcome.offline))


def _who() -> str:
    try:
        return getpass.getuser()[:64]
    except (KeyError, OSError):
        return "unknown"


def _show(args: argparse.Namespace, outcome: _Outcome) -> None:
    names = {
        name: [node for _, node in keys]
        for name, keys in (
            ("told", outcome.told),
            ("silent", outcome.silent),
            ("offline", outcome.offline),
        )
    }
    if args.json:
        print(json.dumps(names, ensure_ascii=False))
        return
    if names["told"]:
        until = clock(time.time() + args.for_s)
        end = "is over" if args.end else f"is announced until {until}"
        print(f"maintenance {end} on {len(names['told'])} nodes: {some(names['told'])}")
    if names["silent"]:
        print(f"no answer within {ANSWER_S:g} s from: {some(names['silent'])}", file=sys.stderr)
    if names["offline"]:
        print(
            f"offline, so not told: {some(names['offline'])}; to keep Alertmanager quiet: "
            f"amtool silence add node={names['offline'][0]} --duration 2h",
            file=sys.stderr,
        )
