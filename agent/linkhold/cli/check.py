"""``linkhold check``: is a configuration file right, and what is wrong with it."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from linkhold.cli import arguments
from linkhold.config import DEFAULT_PATH, default_file, load, node_name
from linkhold.model import BrokerError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.config import Settings
    from linkhold.config.brokers import BrokerSettings

RIGHT = "its own topics are taken, another node's and commands are refused"

_DESCRIPTION = """\
Check a configuration file and the certificates and password files that it names.

Prints "configuration OK" and exits with 0, or prints every mistake, one a line, and their
number, and exits with 1. Both go to stdout, where Ansible's validate shows them. A wrong call
exits with 64.

With --connect each broker of mqtt.fleet is asked as well: it must take what this node says under
its own name and refuse what it says under another's, and commands. It sends three messages that
nobody acts upon; run it as root, who may read the node's key.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``linkhold check``."""
    parser.description = _DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "file",
        nargs="?",
        type=arguments.path,
        metavar="FILE",
        help=f"the file to check (default: {DEFAULT_PATH})",
    )
    which.add_argument(
        "--config", type=arguments.path, metavar="FILE", help="the same, as other commands take it"
    )
    parser.add_argument(
        "--connect", action="store_true", help="also ask the brokers of the fleet what they allow"
    )
    which.add_argument(
        "--print-default", action="store_true", help="print a commented file with every default"
    )


def run(args: argparse.Namespace) -> int:
    """Check, print the outcome and return 0 or 1."""
    if args.print_default:
        print(default_file(), end="")
        return 0
    path: Path | None = args.file or args.config
    try:
        settings = load(path, files=True)
    except ConfigError as error:
        count = len(error.mistakes)
        print(*error.mistakes, f"{count} mistake{'s' if count != 1 else ''}", sep="\n")
        return 1
    print("configuration OK")
    if path is None and not DEFAULT_PATH.exists():
        print(
            f"linkhold: {DEFAULT_PATH} does not exist; every key has its default", file=sys.stderr
        )
    return _ask_brokers(settings) if args.connect else 0


def _hint(broker: BrokerSettings, reason: str) -> str:
    """Return what may be behind an end without a word: TLS on one side only."""
    if reason.lower() not in {"connection lost", "connection reset by peer"}:
        return ""
    wanted = "one without TLS" if broker.tls else "one for TLS (tls: in the configuration)"
    return f"; perhaps this port is {wanted}"


def _ask_brokers(settings: Settings) -> int:
    """Print what each broker of the fleet lets this node say; return 0 if all is right."""
    from linkhold.legs import fleet_check  # noqa: PLC0415 - checking a file needs no MQTT

    if not settings.mqtt.fleet:
        print("mqtt.fleet is empty: there is no broker to ask")
        return 1
    node, code = node_name(settings), 0
    for broker in settings.mqtt.fleet:
        try:
            answers = fleet_check.ask(broker, settings.site, node)
            wrong = fleet_check.verdict(answers, node)
        except BrokerError as error:
            wrong = [f"cannot be asked: {error}{_hint(broker, str(error))}"]
        where = f"{broker.host}:{broker.tcp_port}"
        print(*(f"{where}: {one}" for one in wrong or [f"right for {node}: {RIGHT}"]), sep="\n")
        code |= bool(wrong)
    return code
