"""The form in which the tables of this package say what a text of a driver means.

A pattern is written in lower case and is found anywhere in the text. ``*`` stands for any text,
``^`` at its start and ``$`` at its end tie it to the start and the end of the text. The first
pattern of a table that is found decides.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from linkhold.model.kernel_log import EndsLink, LineClass, LineSeverity


class Outcome(NamedTuple):
    """What the texts of a group of patterns report."""

    cls: LineClass
    severity: LineSeverity
    ends_link: EndsLink


REMEMBERED = 1024
"""Texts whose rule is remembered, a few hundred bytes each."""
SAME_DIGITS = bytes.maketrans(b"123456789", b"000000000")
"""For bytes, whose translate() takes a tenth of the time of that of texts."""

_C, _S, _E = LineClass, LineSeverity, EndsLink

NOTHING = Outcome(_C.NONE, _S.NONE, _E.NO)
"""Ends the search: a text that a later pattern must not take for a fault."""
LINK_DOWN = Outcome(_C.LINK_DOWN, _S.WARNING, _E.YES)
LINK_UP = Outcome(_C.LINK_UP, _S.INFO, _E.RETURNS)
BOND_FAILOVER = Outcome(_C.BOND_FAILOVER, _S.WARNING, _E.NO)
BOND_MOVED = Outcome(_C.BOND_FAILOVER, _S.INFO, _E.NO)
BOND_DOWN = Outcome(_C.BOND_DOWN, _S.CRITICAL, _E.YES)
BOND_UP = Outcome(_C.BOND_UP, _S.INFO, _E.RETURNS)
TX_TIMEOUT = Outcome(_C.TX_TIMEOUT, _S.ERROR, _E.LIKELY)
TX_DEAD = Outcome(_C.TX_TIMEOUT, _S.CRITICAL, _E.YES)
FIRMWARE_WARNING = Outcome(_C.FIRMWARE_FAULT, _S.WARNING, _E.NO)
FIRMWARE_ERROR = Outcome(_C.FIRMWARE_FAULT, _S.ERROR, _E.LIKELY)
FIRMWARE_DEAD = Outcome(_C.FIRMWARE_FAULT, _S.CRITICAL, _E.YES)
HARDWARE_WARNING = Outcome(_C.HARDWARE_ERROR, _S.WARNING, _E.NO)
HARDWARE_ERROR = Outcome(_C.HARDWARE_ERROR, _S.ERROR, _E.LIKELY)
HARDWARE_DEAD = Outcome(_C.HARDWARE_ERROR, _S.CRITICAL, _E.YES)
RESET = Outcome(_C.RESET, _S.WARNING, _E.LIKELY)
RESET_DONE = Outcome(_C.RESET, _S.INFO, _E.RETURNS)
REMOVED = Outcome(_C.REMOVED, _S.CRITICAL, _E.YES)
UNREGISTERED = Outcome(_C.REMOVED, _S.ERROR, _E.YES)
VF_REMOVED = Outcome(_C.REMOVED, _S.WARNING, _E.NO)
DEGRADED = Outcome(_C.DEGRADED, _S.WARNING, _E.NO)
DEGRADED_ERROR = Outcome(_C.DEGRADED, _S.ERROR, _E.NO)
CONFIG = Outcome(_C.CONFIG, _S.INFO, _E.NO)
CONFIG_WARNING = Outcome(_C.CONFIG, _S.WARNING, _E.NO)


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """One pattern. ``needle`` is its longest literal part, ``regex`` None when it is all.

    Each rule is equal to itself alone, which makes it a cheap key of a cache.
    """

    needle: str
    regex: re.Pattern[str] | None
    outcome: Outcome
    why: str

    def fits(self, text: str) -> bool:
        """Whether the pattern is in ``text``."""
        return self.needle in text and (self.regex is None or self.regex.search(text) is not None)


Table = tuple[Rule, ...]


def group(family: str, outcome: Outcome, meaning: str, *patterns: str) -> Table:
    """Return the rules of patterns that mean the same; ``why`` names family and pattern."""
    return tuple(
        _rule(pattern, outcome, f"{family}: {pattern} ({meaning})") for pattern in patterns
    )


class Search:
    """Finds the first rule of a table that a text fits.

    Lines of one fault differ in numbers: queues, addresses, times. Rules without a digit see them
    all alike, so what they say of one such text is remembered for the others.
    """

    def __init__(self, *table: Rule) -> None:
        numbered = [(place, rule) for place, rule in enumerate(table)]
        self.plain = tuple(one for one in numbered if not _has_digit(one[1]))
        self._others = tuple(one for one in numbered if _has_digit(one[1]))

    def first(self, text: str) -> Rule | None:
        """Return the first rule whose pattern is in ``text`` (lower case), if any."""
        alike = text.encode("utf-8", "surrogatepass").translate(SAME_DIGITS)
        place, found = _among_plain(self, alike)
        for other, rule in self._others:
            if other > place:
                break
            if rule.fits(text):
                return rule
        return found


@lru_cache(maxsize=REMEMBERED)
def _among_plain(search: Search, alike: bytes) -> tuple[int, Rule | None]:
    """Return the first rule without a digit that fits, and its place in the table."""
    text = alike.decode("utf-8", "surrogatepass")
    for place, rule in search.plain:
        if rule.fits(text):
            return place, rule
    return sys.maxsize, None


def _has_digit(rule: Rule) -> bool:
    body = rule.needle if rule.regex is None else rule.regex.pattern
    return any(character.isdigit() for character in body)


def forget() -> None:
    """Forget the texts that are remembered."""
    _among_plain.cache_clear()


def _rule(pattern: str, outcome: Outcome, why: str) -> Rule:
    bare = pattern.removeprefix("^").removesuffix("$")
    parts = bare.split("*")
    needle = max(parts, key=len)
    if bare == pattern and len(parts) == 1:
        return Rule(needle, None, outcome, why)
    start = "^" if pattern.startswith("^") else ""
    end = "$" if pattern.endswith("$") else ""
    body = ".*?".join(map(re.escape, parts))
    return Rule(needle, re.compile(f"{start}{body}{end}", re.DOTALL), outcome, why)
