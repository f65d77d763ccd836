"""The words of a page: what, where, since when, what still protects, what it means, what next."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_CHARACTERS = 1000
MINUTE_S = 60
LONG_H = 48
"""From here on, days are easier to read than hours."""

NEXT = {
    "agent": "journalctl -u linkhold -n 50",
    "bond": "linkhold bond status",
    "keepalive": "linkhold keepalive plan",
    "link": "linkhold diagnose",
    "metadata": "linkhold diagnose",
    "network": "linkhold diagnose",
    "nic": "linkhold diagnose",
    "notice": "linkhold status",
    "path": "linkhold diagnose",
    "power": "linkhold status",
    "route": "linkhold diagnose",
    "uplink": "linkhold status",
}


def alert_name(type_: str) -> str:
    """Return the name of a node's alert: ``bond.path_dead`` is ``NodeBondPathDead``."""
    words = re.split("[^A-Za-z0-9]+", type_)
    return "Node" + "".join(word.capitalize() for word in words)


def next_command(type_: str, node: str) -> str:
    """Return what to run first, on the node or from where one sits."""
    command = NEXT.get(type_.partition(".")[0], "linkhold status")
    return f"ssh {node} {command}"


def clock(wall_s: float) -> str:
    """Return a time as people read it, UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(max(0.0, min(wall_s, 4e10))))


def lasted(seconds: float) -> str:
    """Return a length of time in words: ``45 s``, ``12 min``, ``3 h 5 min``, ``2 d 4 h``."""
    whole = int(max(0.0, seconds))
    if whole < MINUTE_S:
        return f"{whole} s"
    minutes, hours = whole // 60, whole // 3600
    if hours < 1:
        return f"{minutes} min"
    if hours < LONG_H:
        return f"{hours} h {minutes % 60} min"
    return f"{hours // 24} d {hours % 24} h"


_MARKUP = str.maketrans("<>", "\u2039\u203a")
"""Slack takes <!channel> and <http://..|word> in a text for orders; these look alike."""


def printable(text: object) -> str:
    """Return what another machine says on one line, and as nothing but words.

    Control characters, escapes and marks that turn the direction of writing become ``?``, what
    begins markup becomes a look-alike: the text goes to terminals, chats and pages.
    """
    shown = " ".join(str(text).split()).translate(_MARKUP)
    if shown.isprintable():
        return shown
    return "".join(letter if letter.isprintable() else "?" for letter in shown)


def cut(text: str) -> str:
    """Return ``text`` no longer than an annotation may be."""
    return text if len(text) <= MOST_CHARACTERS else text[: MOST_CHARACTERS - 4] + " ..."


def some(names: Iterable[str], most: int = 10) -> str:
    """Return names in a row, and how many more there are."""
    every = sorted(names)
    rest = len(every) - most
    return ", ".join(every[:most]) + (f" and {rest} more" if rest > 0 else "")
