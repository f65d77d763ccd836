"""The words in which a UPS tells its status, by NUT and by apcupsd.

Every word is judged by what it means now; nothing is remembered of words that are gone
(networkupstools/nut#2168: a remembered CAL hid a real outage). NUT's words are those of
docs/new-drivers.txt, section "status"; those of apcupsd come from src/lib/apcstatus.c.
"""

from __future__ import annotations

import re

from linkhold.decide.power.meaning import Meaning, What, meaning
from linkhold.model import Severity

TROUBLES = {
    "NOBATT": ("no battery", Severity.CRITICAL),
    "SLAVEDOWN": ("a slave does not answer", Severity.WARNING),
    "RB": ("replace battery", Severity.WARNING),
    "OVER": ("overload", Severity.WARNING),
    "OVERHEAT": ("too hot", Severity.WARNING),
    "BYPASS": ("bypass", Severity.WARNING),
    "ALARM": ("alarm", Severity.WARNING),
}
"""Words that a UPS on line must not hide (R53), in the order in which they are told."""

HARMLESS = {
    "WAIT",
    "OL",
    "OB",
    "LB",
    "HB",
    "CHRG",
    "DISCHRG",
    "TRIM",
    "BOOST",
    "ECO",
    "SLAVE",
    "HE",
}
FORCED = {"FSD", "SD"}
TESTS = {"CAL", "TEST", "SELFTEST"}

APCUPSD = {
    "ONLINE": "OL",
    "ONBATT": "OB",
    "LOWBATT": "LB",
    "REPLACEBATT": "RB",
    "OVERLOAD": "OVER",
    "COMMLOST": "NOCOMM",
}
NO_CONTACT = {"NOCOMM", "COMMLOST", "COMMBAD", "STALE"}

ERRORS_OF_CONTACT = {"DATA-STALE", "DRIVER-NOT-CONNECTED", "STALE", "COMMLOST"}
"""``ERR`` words of upsd that say that the UPS cannot be heard (docs/net-protocol.txt)."""

MOST_WORDS, WORD_CHARACTERS = 32, 32
"""Of a status, as it is kept and shown; the longest there is has some eight of ten."""

_LABEL = re.compile(
    r"^\s*(?:STATUS\s*[:=]|ups\.status\s*[:=]|VAR\s+\S+\s+ups\.status\s)\s*", re.IGNORECASE
)
"""What apcaccess, upsc and upsd itself write before the words."""


def nut_status(text: str, previous: str = "") -> Meaning:
    """Return what ``ups.status`` means; ``previous`` is what it was before, for lost contact."""
    words = _words(text)
    if words[:1] == ["ERR"]:
        return _error(words, previous)
    return by_tokens(words)


def apcupsd_status(text: str) -> Meaning:
    """Return what the STATUS of apcupsd means."""
    plain = _LABEL.sub("", text).upper().replace("SHUTTING DOWN", "FSD")
    plain = plain.replace("NETWORK ERROR", "NOCOMM")
    return by_tokens([APCUPSD.get(word, word) for word in _words(plain)])


def _words(text: str) -> list[str]:
    return _LABEL.sub("", text).strip().strip('"').upper().replace(",", " ").split()


def _error(words: list[str], previous: str) -> Meaning:
    name = words[1] if len(words) > 1 else ""
    if name not in ERRORS_OF_CONTACT:
        return meaning(What.UNKNOWN, f"upsd refused the question: {name or 'no reason given'}")
    if "OB" in _words(previous):
        why = f"contact is lost ({name}) while on battery: it still is, as far as anybody knows"
        return meaning(What.COMM_LOST, why, Severity.CRITICAL)
    return meaning(What.COMM_LOST, f"upsd has lost contact with the UPS ({name})")


def by_tokens(words: list[str]) -> Meaning:
    """Return what a set of NUT's words means, whatever their order."""
    has = set(words)
    tokens = tuple(word[:WORD_CHARACTERS] for word in words[:MOST_WORDS])
    for rule in (_forced, _contact, _testing, _output, _battery, _line):
        found = rule(has, tokens)
        if found is not None:
            return found
    return _neither(has, tokens)


def _forced(has: set[str], tokens: tuple[str, ...]) -> Meaning | None:
    if not has & FORCED:
        return None
    why = "a forced shutdown is ordered; the order stands even when mains are back"
    return meaning(What.SHUTDOWN, why, tokens=tokens)


def _contact(has: set[str], tokens: tuple[str, ...]) -> Meaning | None:
    if not has & NO_CONTACT:
        return None
    return meaning(What.COMM_LOST, "contact with the UPS is lost", tokens=tokens)


def _testing(has: set[str], tokens: tuple[str, ...]) -> Meaning | None:
    if not has & TESTS:
        return None
    why = "the UPS tests or calibrates itself: it drains the battery on purpose"
    return meaning(What.CALIBRATION, why, tokens=tokens)


def _output(has: set[str], tokens: tuple[str, ...]) -> Meaning | None:
    if "OFF" not in has or "OB" in has:
        return None
    why = "the UPS says that its output is off; some say so for a moment in a self-test"
    severity = Severity.WARNING if "OL" in has else Severity.CRITICAL
    return meaning(What.DEGRADED, why, severity, reason="output off", tokens=tokens)


def _battery(has: set[str], tokens: tuple[str, ...]) -> Meaning | None:
    if "OB" not in has:
        return None
    if "LB" in has:
        return meaning(What.LOW, "on battery (OB) and low (LB)", tokens=tokens)
    return meaning(What.LOST, "on battery (OB)", tokens=tokens)


def _line(has: set[str], tokens: tuple[str, ...]) -> Meaning | None:
    troubles = [word for word in TROUBLES if word in has]
    if troubles:
        return _degraded(has, troubles, tokens)
    if "OL" not in has:
        return None
    if "LB" in has:
        why = "low battery is claimed while on line: no outage without OB"
        return meaning(What.DEGRADED, why, reason="low battery while on line", tokens=tokens)
    if "DISCHRG" in has:
        why = "on line but discharging: a self-test or overload, no outage"
        return meaning(What.DEGRADED, why, reason="discharging while on line", tokens=tokens)
    return meaning(What.OK, "on line (OL)", tokens=tokens)


def _degraded(has: set[str], troubles: list[str], tokens: tuple[str, ...]) -> Meaning:
    where = "on line" if "OL" in has else "neither on line nor on battery"
    critical = any(TROUBLES[word][1] is Severity.CRITICAL for word in troubles)
    return meaning(
        What.DEGRADED,
        f"{where}, and the UPS needs somebody: {', '.join(troubles)}",
        Severity.CRITICAL if critical else None,
        reason=" + ".join(TROUBLES[word][0] for word in troubles),
        tokens=tokens,
    )


def _neither(has: set[str], tokens: tuple[str, ...]) -> Meaning:
    if not has:
        return meaning(What.UNKNOWN, "no status is told", Severity.INFO)
    if has <= HARMLESS:
        why = "neither OL nor OB is told, so where the power comes from is unknown"
    else:
        why = f"words of no known meaning: {', '.join(sorted(has - HARMLESS))[:80]}"
    return meaning(What.UNKNOWN, why, tokens=tokens)
