"""The form in which the tables of this package say what a text of a driver means.

A pattern is written in lower case and is found anywhere in the text. ``*`` stands for any text,
``^`` at its start and ``$`` at its end tie it to the start and the end of the text. The first
pattern of a table that is found decides.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from linkhold.model.kernel_log import EndsLink, LineClass, LineSeverity


class Outcome(NamedTuple):
    """What the texts of a group of patterns report."""

    cls: LineClass
    severity: LineSeverity
    ends_link: EndsLink


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


@dataclass(frozen=True, slots=True)
class Rule:
    """One pattern. ``needle`` is its longest literal part, ``regex`` None when it is all."""

    needle: str
    regex: re.Pattern[str] | None
    outcome: Outcome
    why: str


Table = tuple[Rule, ...]


def group(family: str, outcome: Outcome, meaning: str, *patterns: str) -> Table:
    """Return the rules of patterns that mean the same; ``why`` names family and pattern."""
    return tuple(
        _rule(pattern, outcome, f"{family}: {pattern} ({meaning})") for pattern in patterns
    )


def first(table: Table, text: str) -> Rule | None:
    """Return the first rule whose pattern is in ``text`` (lower case), if any."""
    for rule in table:
        if rule.needle in text and (rule.regex is None or rule.regex.search(text) is not None):
            return rule
    return None


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
