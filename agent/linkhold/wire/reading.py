"""JSON from outside, and what is wrong with a document in the words of a person."""

from __future__ import annotations

import json
from typing import Any

from linkhold.model import WireError

MOST_SHOWN = 120
MOST, MOST_DIGITS = 2.0**64, 20
_OTHER_TYPE = "a value is of another type than linkhold writes"


def load_json(payload: bytes | str) -> Any:
    """Parse JSON from outside; raises :class:`WireError` for whatever is wrong with it.

    Numbers are below 2**64: one that is too large for a float would be an infinity otherwise, and a
    time beyond that, from a damaged file, none to calculate with.
    """
    try:
        text = payload if isinstance(payload, str) else str(payload, "utf-8")
        found = json.loads(
            text, parse_constant=_no_such_number, parse_float=_finite, parse_int=_whole
        )
        if "\\u" in text:  # half a pair of UTF-16 is no text, and could not be written again
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except (ValueError, RecursionError) as error:
        raise WireError(f"no JSON: {error}") from error


def flaw(error: Exception) -> str:
    """Return what is wrong with a document whose reading ended in ``error``.

    The texts of KeyError, TypeError and AttributeError are about the program; those of ValueError
    are about values.
    """
    if isinstance(error, KeyError):
        return f"{str(error)[:MOST_SHOWN]} is missing"
    if isinstance(error, (TypeError, AttributeError)):
        return _OTHER_TYPE
    if isinstance(error, (OverflowError, RecursionError)) or "unpack" in str(error):
        return "a value is out of range"
    return str(error)[:MOST_SHOWN]


def _no_such_number(name: str) -> None:
    raise WireError(f"no JSON: {name} is no number in JSON")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS or abs(number := int(text)) >= MOST:
        raise WireError(f"no JSON: {text[:MOST_SHOWN]} is out of range")
    return number


def _finite(text: str) -> float:
    number = float(text)
    if abs(number) >= MOST:
        raise WireError(f"no JSON: {text[:MOST_SHOWN]} is out of range")
    return number
