"""Numbers with a unit, as people write them where linkhold has the unit in the key's name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

_QUANTITY = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?) ?([A-Za-z\u00b5\u03bc]{1,12})")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A quantity in the unit of a key: how many, and the word for the unit."""

    amount: Fraction
    word: str


def quantity(key: str, text: str) -> Quantity | None:
    """Return what ``text`` (``1.5 s``) is in the unit of ``key`` (``updelay_ms``: 1500), if that.

    None means that the key's name ends in no unit or that the text is no number with a unit.
    """
    wanted = _KEYS.get(key.rpartition("_")[2])
    found = _QUANTITY.fullmatch(text)
    if wanted is None or found is None:
        return None
    word, size, units = wanted
    given = units.get(found[2].lower())
    return Quantity(Fraction(found[1]) * given / size, word) if given else None


_TIME = {
    **dict.fromkeys(("us", "usec", "usecs", "\u00b5s", "\u03bcs"), Fraction(1, 1_000_000)),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), Fraction(1, 1000)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Fraction(3600)),
    **dict.fromkeys(("d", "day", "days"), Fraction(86400)),
}
_SIZE = {
    **dict.fromkeys(("b", "byte", "bytes"), Fraction(1)),
    **dict.fromkeys(("k", "kb"), Fraction(1000)),
    **dict.fromkeys(("m", "mb"), Fraction(1000**2)),
    **dict.fromkeys(("g", "gb"), Fraction(1000**3)),
    "kib": Fraction(1024),
    "mib": Fraction(1024**2),
    "gib": Fraction(1024**3),
}
_KEYS = {
    "ms": ("milliseconds", Fraction(1, 1000), _TIME),
    "s": ("seconds", Fraction(1), _TIME),
    "days": ("days", Fraction(86400), _TIME),
    "bytes": ("bytes", Fraction(1), _SIZE),
}
"""How the name of a key ends: the word for its unit, its size, and the units that fit."""
