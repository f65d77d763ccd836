"""What a person gives a command: files and folders, times, process ids, names; and their lines."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import IO, AnyStr

from linkhold.model import LinkholdError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
MOST_DAYS = 3650


class WrongCall(LinkholdError):
    """Options that do not go together, or one that is missing: exit code 64."""


def path(text: str) -> Path:
    """Return the path of a file or folder. An empty one would be the working folder."""
    return Path(name(text))


def name(text: str) -> str:
    """Return a name that says something: that of a script's empty variable means nobody."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty: name one")
    return text


def seconds(text: str) -> float:
    """Return a duration like ``90s``, ``15m``, ``2h`` or ``1d`` in seconds."""
    match = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]+)?)([smhd])", text)
    if not match or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; allowed: 90s, 15m, 2h, 1d")
    return min(float(match[1]) * UNITS[match[2]], MOST_DAYS * UNITS["d"])


def pid(text: str) -> int:
    """Return the id of a process."""
    if not re.fullmatch(r"0*[1-9][0-9]{0,9}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no process id; a number from 1 is")
    return int(text)


def next_line(file: IO[AnyStr], most: int) -> AnyStr:
    """Return the next line, or ``most`` of it; an error of its disk says which file it was."""
    try:
        return file.readline(most)
    except OSError as error:
        raise OSError(error.errno, error.strerror, file.name) from None
