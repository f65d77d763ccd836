"""Wrong values for every option and argument of every command, made from the parsers themselves.

What a value may be is told by the name that the help gives it (``FILE``, ``AGE``, ``URL`` ...): a
new option is tried with the wrong values of its kind without a word here; a new kind fails.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docs.calls import KNOWN, Command

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = "x" * 4000
ODD = ("", " ", "\udcff", "\x1b[31mred", "../../etc", LONG, "-", "🙂")
"""Words that are no name: empty, no UTF-8, an order to a terminal, endless ..."""
PATHS = (
    "", "missing/file", "/etc", "/proc/self/mem", "/dev/zero", "fifo", "binary", "closed", "loop",
    "\udcff", LONG, "/proc/version/below",
)  # fmt: skip
FILES = (
    "mkfifo fifo; head -c 3000 /dev/urandom >binary; echo x >closed; chmod 600 closed; "
    "ln -s loop loop; chmod 777 ."
)
"""What makes the files of :data:`PATHS`."""
AGES = ("", "0s", "-5m", "nan", "inf", "1e9h", "9" * 40 + "d", "٣m", "tomorrow", "m", "1.5.2h")
NUMBERS = ("", "0", "-1", "nan", "1.5", "9" * 40, "٣", "0x10", "one")
URLS = (
    "", "mqtt://", "http://host", "mqtt://u:secret@h", "mqtt://h:99999", "mqtt://[::1", "host",
    "mqtt://h/x?y", "mqtt://\udcff", "mqtt://" + LONG, "mqtt://127.0.0.1:1",
)  # fmt: skip
HOSTS = ("", "http://", "ftp://h", "h:0", "h:99999", "[::", "224.0.0.1", "fe80::1", "\udcff", LONG)
NAMES_FILES = ("FILE", "D", "S", "DIR")
VALUES = {
    **dict.fromkeys(NAMES_FILES, PATHS),
    **dict.fromkeys(("AGE", "TIME", "T"), AGES),
    **dict.fromkeys(("BOND", "J", "NODE", "NODE|GROUP", "NIC", "TEXT", "WORDS", "P"), ODD),
    "N": NUMBERS,
    "URL": URLS,
    "H": HOSTS,
}
"""Wrong values, by the name of what is asked for."""
NEVER_EMPTY = (
    *NAMES_FILES, "AGE", "TIME", "T", "J", "BOND", "NIC", "NODE", "NODE|GROUP", "N", "H",
)  # fmt: skip
"""Where an empty value, that of a script's forgotten variable, is a wrong call."""
NEEDS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("hold",): ("--why", "to see it"),
    ("report",): ("--html", "--output", "page.html"),
    ("setup",): ("--system", "--dry-run"),
    ("maintenance",): ("gpu-1", "--why", "to see it"),
    ("broker",): ("prepare",),
    ("bond", "test"): ("bond7",),
    ("bond", "remove"): ("bond7", "--yes"),
    ("bond", "repair"): ("bond7", "--yes"),
    ("bond", "apply"): ("--yes",),
    ("restore",): ("--yes",),
    ("top",): ("--once",),
}
"""What a command needs besides, or is given so that it asks nobody and ends."""
RIGHT = "nothing wrong"
WAITS = {"explain", "report"}
"""Commands that read what has no end, and wait for whoever writes into a pipe."""
CODES = {
    ("diagnose",): {0, 1, 2, 3, 64, 69},
    ("survive",): {0, 1, 3, 64},
    ("bond", "apply"): {0, 1, 3, 64},
}
"""Exit codes of the commands that have others than 0, 1 and 64."""


@dataclass(frozen=True)
class Call:
    """A call of ``command`` with a wrong ``value`` for what its help calls ``kind``."""

    command: Command
    words: tuple[str, ...]
    kind: str = ""
    value: str = RIGHT

    @property
    def name(self) -> str:
        """How it is typed, for people."""
        return f"linkhold {' '.join(repr(word[:60]) for word in self.words)}"

    def faults(self, code: int, out: str, err: str) -> Iterator[str]:
        """Yield what is wrong with how it ended."""
        said = out + err
        if code not in CODES.get(self.command.words, {0, 1, 64}):
            yield f"exit code {code}"
        if self.value == RIGHT and code == 64:
            yield "a right call is refused"
        if self.value == "" and self.kind in NEVER_EMPTY and code != 64:
            yield f"exit code {code} for an empty value"
        if re.search("Traceback|Exception ignored|Errno", said):
            yield "words of Python"
        if not said.replace("\n", "").isprintable():
            yield "orders to a terminal"
        if code and not said.strip():
            yield "not a word"
        if code == 1 and any(not line.startswith("linkhold") for line in err.splitlines()):
            yield "a line that does not say who speaks"
        if "secret" in said:
            yield "a password"


def leaves() -> Iterator[Command]:
    """Yield every command that does something by itself: the verbs of those that have verbs."""
    groups = {words[:1] for words in KNOWN if len(words) > 1}
    yield from (one for words, one in KNOWN.items() if words not in groups)


def bare(command: Command) -> Call:
    """Return a call of a command with as little as it takes."""
    return Call(command, (*command.words, *NEEDS.get(command.words, ())))


def wrong_calls() -> Iterator[Call]:
    """Yield a call for each wrong value of each option and argument of each command."""
    for command in leaves():
        for action in command.parser._actions:
            if action.nargs == 0 or isinstance(action, argparse._HelpAction):
                continue
            kind = str(action.metavar)
            for value in _values(command, action):
                yield Call(command, _words(command, action, value), kind, value)


def _values(command: Command, action: argparse.Action) -> tuple[str, ...]:
    if action.choices is not None:
        return ODD
    assert action.metavar in VALUES, f"{action.dest}: say in VALUES what is wrong for it"
    values = VALUES[str(action.metavar)]
    if command.words == ("agent",) and action.metavar in {"D", "S"}:
        return ("", "/dev/zero", "closed") if action.metavar == "D" else ("",)  # it would begin
    endless = {"/dev/zero", "fifo"} if command.words[0] in WAITS else set()
    return tuple(value for value in values if value not in endless)


def _words(command: Command, action: argparse.Action, value: str) -> tuple[str, ...]:
    needed = NEEDS.get(command.words, ())
    if action.option_strings:
        option = action.option_strings[-1]
        if option in needed:
            at = needed.index(option)
            needed = (*needed[:at], *needed[at + 2 :])
        return (*command.words, *needed, f"{option}={value}")
    rest = needed if not needed or needed[0].startswith("-") else needed[1:]
    return (*command.words, *rest, "--", value)
