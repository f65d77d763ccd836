"""Writes ``docs/commands.md`` from the parsers of the commands.

``PYTHONPATH=tests .venv/bin/python -m docs.reference``
"""

from __future__ import annotations

import argparse
import re
import sys

from docs.calls import KNOWN, Command
from docs.pages import ROOT
from linkhold import cli

PAGE = ROOT / "docs/commands.md"
HEAD = """\
# Every command

For everybody who types `linkhold`: each command, each option, and the page that says more.

This page is made from the commands themselves (`PYTHONPATH=tests python -m docs.reference`), and a
test compares it. `linkhold COMMAND --help` says the same, `linkhold --version` which version it is.

Exit codes: 0 done, 1 an error that is explained, 64 a wrong call, 130 interrupted, 141 nobody reads
the output. A command that has others says so below. Commands that change the host need root.
"""
MORE = {
    "agent": "service.md",
    "bond": "bonds.md",
    "broker": "service.md",
    "check": "configuration.md",
    "diagnose": "diagnose.md",
    "events": "events.md",
    "explain": "kernel-log.md",
    "hold": "holds.md",
    "keepalive": "keepalive.md",
    "maintenance": "oncall.md",
    "relay": "relay.md",
    "report": "report.md",
    "restore": "bonds.md",
    "resume": "holds.md",
    "setup": "service.md",
    "status": "events.md",
    "survive": "survive.md",
    "top": "top.md",
}
"""The page that says more of each command."""
CODES = re.compile(r"(?s)exit codes?: ?(.*?)(?:\n\n|\Z)", re.IGNORECASE)


def page() -> str:
    """Return the whole page."""
    ordered = sorted(KNOWN.values(), key=lambda one: one.words)
    return "\n".join([HEAD, *map(_part, ordered)])


def _part(command: Command) -> str:
    level = "#" * (1 + len(command.words))
    lines = [f"{level} {command.name}", "", _about(command), ""]
    codes = CODES.search(command.parser.description or "")
    if codes:
        lines += [f"Exit codes: {' '.join(codes[1].split())}.", ""]
    rows = [row for action in command.parser._actions if (row := _row(action))]
    if rows:
        lines += ["| argument | meaning |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def _about(command: Command) -> str:
    if len(command.words) == 1:
        name = command.words[0]
        return f"{_sentence(cli.COMMANDS[name][0])} More: [{MORE[name]}]({MORE[name]})."
    return _sentence(_helps(KNOWN[command.words[:1]].parser)[command.words[1]])


def _helps(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Return what a parser says of each of its verbs."""
    found: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update({one.dest: one.help or "" for one in action._choices_actions})
    return found


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _row(action: argparse.Action) -> str:
    if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
        return ""
    value = "" if action.nargs == 0 else _value(action)
    names = ", ".join(f"`{name}{' ' if value else ''}{value}`" for name in action.option_strings)
    helps = (action.help or "").replace("|", "\\|")
    return f"| {names or f'`{value}`'} | {helps} |"


def _value(action: argparse.Action) -> str:
    if isinstance(action.metavar, str):
        return action.metavar.replace("|", "\\|")
    if action.choices is not None:
        return "\\|".join(map(str, action.choices))
    return action.dest.upper()


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    sys.stdout.write(f"written: {PAGE}\n")
