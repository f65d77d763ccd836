"""Texts from outside and lengths of time, as people read them."""

from __future__ import annotations

MOST_CHARACTERS = 500
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
MOST_HOURS = 48


def printable(text: object, most: int = MOST_CHARACTERS) -> str:
    """Return ``text`` on one line and without anything that a terminal would act on.

    Names and causes come from other machines: control characters, escapes and marks that turn
    the direction of writing become ``?``.
    """
    shown = str(text)[: most + 1]
    if not shown.isprintable():
        shown = "".join(letter if letter.isprintable() else "?" for letter in shown)
    return shown if len(shown) <= most else shown[: most - 3] + "..."


def ago(seconds: float) -> str:
    """Return an age that changes once a minute at most: a slow line draws it seldom."""
    if seconds < MINUTE_S:
        return "<1 min"
    if seconds < HOUR_S:
        return f"{int(seconds // MINUTE_S)} min"
    if seconds < MOST_HOURS * HOUR_S:
        return f"{int(seconds // HOUR_S)} h"
    return f"{int(min(seconds, 1e10) // DAY_S)} d"


def lasted(seconds: float) -> str:
    """Return a length of time in its two largest units: ``45 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = int(max(0.0, min(seconds, 1e10)))
    if whole < MINUTE_S:
        return f"{whole} s" if whole or not seconds else "<1 s"
    for size, name, below, below_name in (
        (DAY_S, "d", HOUR_S, "h"),
        (HOUR_S, "h", MINUTE_S, "min"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {below_name}" if rest else "")
    rest = whole % MINUTE_S
    return f"{whole // MINUTE_S} min" + (f" {rest} s" if rest else "")
