"""Calls of ``linkhold`` on a page, held against the parser that the command itself uses."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold import cli

if TYPE_CHECKING:
    from collections.abc import Iterator

CALL = re.compile(
    r"(?:^|[\s|;&(])(?:sudo )?(?:PYTHONPATH=\S+ \S*python3? -m |\S*\.venv/bin/|\S*/bin/)?linkhold "
    r"(?!-?\w*=)([a-z][^|;&>]*)"
)
"""A call in a line of shell: what stands behind the name of the program."""
SYNOPSIS = re.compile(r"\[-|\] ?\.\.\.|\s\.\.\.|<\w+>")
"""What a line has that shows how to call, and is not typed as it stands."""
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


@dataclass(frozen=True)
class Command:
    """One command, or one verb of a command: ``words`` select it, ``options`` are its own."""

    words: tuple[str, ...]
    parser: argparse.ArgumentParser
    options: tuple[str, ...]

    @property
    def name(self) -> str:
        """What is typed to reach it."""
        return " ".join(("linkhold", *self.words))


def commands() -> Iterator[Command]:
    """Yield every command, and every verb of those that have verbs."""
    for name, (_, module) in cli.COMMANDS.items():
        parser = cli.UsageParser(prog=f"linkhold {name}", allow_abbrev=False)
        importlib.import_module(module).add_arguments(parser)
        yield from _walk((name,), parser)


def _walk(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[Command]:
    verbs: dict[str, argparse.ArgumentParser] = {}
    options: list[str] = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            verbs.update(action.choices)
        elif not isinstance(action, argparse._HelpAction):
            options += action.option_strings
    yield Command(words, parser, tuple(options))
    for verb, below in verbs.items():
        yield from _walk((*words, verb), below)


KNOWN = {command.words: command for command in commands()}
"""Every command and verb, by its words."""


def calls_in(line: str) -> list[str]:
    """Return what stands behind ``linkhold`` in each call of a line of shell."""
    return [found.strip() for found in CALL.findall(line)]


def mistake(call: str) -> str:
    """Return what the command's parser finds wrong with a call, empty for nothing.

    Of a line that only shows how to call, the command, its verb and the names of options count.
    """
    command = _named(call)
    if command is None:
        return f"no such command: linkhold {call}"
    if SYNOPSIS.search(call):
        return _unknown_options(call, command)
    words = shlex.split(call)
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        try:
            cli._parse(words, words[0], importlib.import_module(cli.COMMANDS[words[0]][1]))
        except SystemExit as left:
            return said.getvalue().splitlines()[0] if left.code else ""
    return ""


def mention_mistake(call: str) -> str:
    """Return what is wrong with a call that the text mentions, which may be shortened.

    ``linkhold bond`` or ``linkhold hold --for`` name a group or an option; what they name must
    exist all the same.
    """
    command = _named(call)
    return (
        f"no such command: linkhold {call}" if command is None else _unknown_options(call, command)
    )


def _named(call: str) -> Command | None:
    words = tuple(re.findall(r"\S+", call))
    verb = KNOWN.get(words[:2])
    group = KNOWN.get(words[:1])
    has_verbs = sum(known[:1] == words[:1] for known in KNOWN) > 1
    if verb is None and group is not None and has_verbs and len(words) > 1:
        return group if words[1].startswith(("-", ".", "[")) else None
    return verb or group


def _unknown_options(call: str, command: Command) -> str:
    quoted = re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", call)
    wrong = set(OPTION.findall(quoted)) - {*command.options, "--help", "-h", "-"}
    return f"{command.name} has no {', '.join(sorted(wrong))}" if wrong else ""
