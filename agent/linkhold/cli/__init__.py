"""The command line: one file per group of commands, each thin.

Exit codes: 0 done, 1 an error that is explained, 64 a wrong call, 130 interrupted, 141 nobody
reads the output.
"""

from __future__ import annotations

import argparse
import importlib
import io
import os
import sys
from difflib import get_close_matches
from typing import TYPE_CHECKING, NoReturn

from linkhold import __version__
from linkhold.cli.arguments import WrongCall
from linkhold.model import LinkholdError
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

EX_USAGE = 64
EX_INTERRUPTED = 130
EX_PIPE = 141

# A command's module is imported only when it is the one asked for: check needs no MQTT.
COMMANDS = {
    "agent": ("run the agent of this node, as systemd does", "linkhold.cli.agent"),
    "bond": ("plan, make, undo and test active-backup bonds", "linkhold.cli.bond"),
    "broker": (
        "what linkhold-broker.service runs before and after mosquitto",
        "linkhold.cli.broker",
    ),
    "check": ("check a configuration file", "linkhold.cli.check"),
    "diagnose": (
        "say what is broken between this host and the world, and where",
        "linkhold.cli.diagnose",
    ),
    "events": ("show what happened on this node", "linkhold.cli.events"),
    "keepalive": (
        "plan, apply, restore and audit the keepalive of TCP connections",
        "linkhold.cli.keepalive",
    ),
    "hold": ("pause training or uploads of this node, or of one job", "linkhold.cli.hold"),
    "explain": (
        "say what linkhold makes of a kernel log, or of a message about power",
        "linkhold.cli.explain",
    ),
    "maintenance": (
        "announce planned work on a node or group, so that nobody is paged",
        "linkhold.cli.maintenance",
    ),
    "relay": ("bring alerts from the fleet's brokers to Alertmanager", "linkhold.cli.relay"),
    "resume": ("end what `linkhold hold` began", "linkhold.cli.resume"),
    "report": ("write a page about a time: outages, causes, what they cost", "linkhold.cli.report"),
    "restore": ("take back everything that linkhold changed here", "linkhold.cli.restore"),
    "setup": ("install linkhold as a service of this host, or remove it", "linkhold.cli.setup"),
    "status": ("show how this node is", "linkhold.cli.status"),
    "survive": ("show which outage a running job survives", "linkhold.cli.survive"),
    "top": ("show all nodes of the fleet, the worst first", "linkhold.cli.top"),
}


class UsageParser(argparse.ArgumentParser):
    """A parser that answers a wrong call with one line, the usage and exit code 64."""

    def error(self, message: str) -> NoReturn:
        """Print ``message`` and the usage to stderr and leave with 64."""
        self.exit(EX_USAGE, f"{self.prog}: {message}\n{self.format_usage()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command of linkhold and return the exit code of the process.

    Errors of linkhold and of the operating system become one line on stderr.
    """
    _never_fail_to_encode()
    try:
        code = _run(list(sys.argv[1:] if argv is None else argv))
        _flush()
    except BrokenPipeError:
        _drop_output()
        return EX_PIPE
    except KeyboardInterrupt:
        return EX_INTERRUPTED
    except WrongCall as error:
        return _fail(str(error), EX_USAGE)
    except LinkholdError as error:
        return _fail(str(error))
    except OSError as error:
        _drop_output()
        return _fail(
            f"{error.filename}: {error.strerror}"
            if error.filename
            else error.strerror or str(error)
        )
    return code


def _run(argv: list[str]) -> int:
    name = next((word for word in argv if not word.startswith("-")), "")
    try:
        module = importlib.import_module(COMMANDS[name][1]) if name in COMMANDS else None
        try:
            args = _parse(argv, name, module)
        except SystemExit as left:
            return int(left.code or 0)
        return int(module.run(args)) if module is not None else EX_USAGE
    except ModuleNotFoundError as error:
        hint = f"module {error.name} is not installed; try: pip install 'linkhold[agent]'"
        raise LinkholdError(f"{name} cannot run here: {hint}") from None


def _parse(argv: list[str], name: str, module: ModuleType | None) -> argparse.Namespace:
    """Parse the arguments; only the parser of the wanted command knows any of its own."""
    parser = UsageParser(
        prog="linkhold",
        description="Keeps long training runs alive through network and power faults.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"linkhold {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    parsers = {
        command: commands.add_parser(command, help=help_, description=help_, allow_abbrev=False)
        for command, (help_, _) in COMMANDS.items()
    }
    if module is not None:
        module.add_arguments(parsers[name])
    elif name:
        parser.error(_unknown(name))
    args, rest = parser.parse_known_args(argv)
    if rest:
        parsers.get(name, parser).error(f"unknown argument: {' '.join(rest)}")
    if module is None:
        parser.print_help(sys.stderr)
    return args


def _unknown(name: str) -> str:
    meant = get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {meant[0]}?" if meant else f"allowed: {', '.join(COMMANDS)}"
    return f"unknown command {name!r}; {hint}"


def _fail(text: str, code: int = 1) -> int:
    for line in text.splitlines() or [""]:
        print(f"linkhold: {one_line(line)}", file=sys.stderr)
    return code


def _never_fail_to_encode() -> None:
    """Show what the terminal cannot show (names of files, mostly) as an escape."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush() -> None:
    # With stdout closed by the caller, sys.stdout is None, whatever its type says.
    if sys.stdout is not None:
        sys.stdout.flush()


def _drop_output() -> None:
    """Let the interpreter's own flush at its end go nowhere, since it would fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return
