"""``linkhold relay``: from the fleet's brokers to Alertmanager, in the foreground."""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.cli import arguments
from linkhold.config import DEFAULT_RELAY_PATH, RelaySettings, default_file, load_relay
from linkhold.relay.run import Relay
from linkhold.relay.sink import Alertmanagers
from linkhold.sd_notify import Systemd, Turns
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    import argparse

    from linkhold.relay.sink import Sink

_DESCRIPTION = f"""\
Listen to every broker of the fleet and keep Alertmanager told of what is wrong. Two relays with
two names may run side by side: their alerts are equal. The configuration is a file of its own,
{DEFAULT_RELAY_PATH} without --config.
"""
_HEADER = """\
# The configuration of linkhold relay: /etc/linkhold/relay.yaml
#
# Every key may be left out, except brokers and alertmanagers; lines that begin with # and two or
# more spaces are examples: remove the # to use them.
# After a change: linkhold relay --check --config FILE
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Describe the arguments of the command."""
    parser.description = _DESCRIPTION
    parser.add_argument("--config", type=arguments.path, metavar="FILE", help="configuration file")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="check the configuration and end")
    what.add_argument(
        "--print-default", action="store_true", help="print a commented configuration and end"
    )


def run(args: argparse.Namespace) -> int:
    """Relay until SIGTERM or SIGINT; return the exit code."""
    if args.print_default:
        print(default_file(RelaySettings, _HEADER), end="")
        return 0
    settings = load_relay(args.config, files=True)
    if args.check:
        print("configuration OK")
        return 0
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(_Lines("%(asctime)s %(levelname)-8s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    faulthandler.enable()  # the watchdog's SIGABRT: the journal says where every thread is
    relay = Relay(settings, _sink(settings))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: relay.stop())
    turns = Turns(Systemd())
    relay.run(turns.turn)
    turns.end()
    return 0


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


def _sink(settings: RelaySettings) -> Sink:
    if settings.alertmanagers:
        return Alertmanagers(settings.alertmanagers)
    from linkhold.relay.apprise_sink import AppriseSink  # noqa: PLC0415 -- an optional extra

    return AppriseSink(Path(settings.apprise_file), Path(settings.state_dir))
