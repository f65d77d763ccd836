"""``linkhold maintenance``: announce planned work on nodes, through the fleet's brokers."""

from __future__ import annotations

import argparse
import getpass
import json
import secrets
import shlex
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.cli import arguments
from linkhold.cli.arguments import WrongCall
from linkhold.config import DEFAULT_RELAY_PATH, load_relay
from linkhold.model import LinkholdError
from linkhold.relay.decide.places import Places
from linkhold.relay.decide.texts import clock, some
from linkhold.relay.errands import Announcer
from linkhold.wire.maintenance import LEAST_S, MOST_CHARACTERS, MOST_S

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from linkhold.relay.decide.values import Key

DEFAULT_S = 2 * 3600.0
LOOK_S = 15.0
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
    parser.add_argument(
        "target",
        type=arguments.name,
        metavar="NODE|GROUP",
        help="a node, rack, switch, site or gpu-*",
    )
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
    parser.add_argument(
        "--config", type=arguments.path, metavar="FILE", help="the relay's configuration"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _duration(text: str) -> float:
    value = arguments.seconds(text)
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
        raise WrongCall(
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
    if outcome.offline and not args.json:
        lines = _about_offline(outcome.offline, args, [am.url for am in settings.alertmanagers])
        print("\n".join(lines), file=sys.stderr)
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
        print(json.dumps(names))
        return
    if names["told"]:
        until = clock(time.time() + args.for_s)
        end = "is over" if args.end else f"is announced until {until}"
        count = len(names["told"])
        nodes = "1 node" if count == 1 else f"{count} nodes"
        print(f"maintenance {end} on {nodes}: {some(names['told'])}")
    if names["silent"]:
        print(
            f"no answer within {ANSWER_S:g} s from: {some(names['silent'])}; allowed are users "
            f"that may write linkhold/v1/+/+/cmd/maintenance on the brokers",
            file=sys.stderr,
        )


def _about_offline(keys: Sequence[Key], args: argparse.Namespace, urls: Sequence[str]) -> list[str]:
    """Return what to say about nodes that cannot be told, and the commands that do without them."""
    told = f"offline, so not told: {some(name for _, name in keys)}"
    if args.end:
        return [f"{told}; what is announced there ends by its time"]
    if not urls:
        return [f"{told}; people are told of them by Apprise, which cannot be kept quiet"]
    return [f"{told}; to keep Alertmanager quiet:", *_silences(keys, args, urls[0])]


def _silences(keys: Sequence[Key], args: argparse.Namespace, url: str) -> Iterator[str]:
    """Yield a command for each site; a dot in a name is no wildcard, and needs no escape so."""
    for site in sorted({site for site, _ in keys}):
        names = "|".join(name.replace(".", "[.]") for at, name in keys if at == site)
        words = (
            *("amtool", "silence", "add", f"--alertmanager.url={url}"),
            *(f"--duration={args.for_s:.0f}s", f"--comment={args.why.strip()}"),
            *(f"site={site}", f'node=~"{names}"'),
        )
        yield "  " + shlex.join(words)
