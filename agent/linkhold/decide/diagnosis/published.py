"""A diagnosis as it is published: without what may be secret, and within a size. Pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from linkhold.wire import dumps

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_BYTES = 256 * 1024
"""Of ``diag/<id>`` (docs/diagnose.md, "From afar")."""
LEAST_BYTES = 1024
"""Room for the verdict at least: a broker that takes less is asked all the same."""
SHORT_CHARACTERS = 100
MOST_FIELDS = 40
DEEPEST = 6
HIDDEN = "***"

TEXT_CHARACTERS = 4000
"""Of one text: the patterns below look again from every place at which they may begin."""

_SCHEME = r"(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]{0,30}://"
_USER = re.compile(_SCHEME + r")[^/\s@]*@")
_QUERY = re.compile(_SCHEME + r"[^\s?#]*)[?#]\S*")
_NAMED = re.compile(
    r"(?i)((?:password|passwd|secret|token|api[_-]?key|access[_-]?key|credential|signature)"
    r"\w{0,30}[\"']?\s{0,5}[=:]\s{0,5})[^\s,;]+"
)
_HEADER = re.compile(
    r"(?i)(authorization\s{0,5}[:=]\s{0,5}|\bbearer\s{1,5})(?:(?:bearer|basic)\s{1,5})?\S+"
)


def published(document: Mapping[str, Any], most_bytes: int = MOST_BYTES) -> bytes:
    """Return ``document`` as JSON of at most ``most_bytes`` (1 KiB at least), without secrets.

    What is too long is cut field by field, the largest first: ``cut`` names each such field and
    says in words what is left out of it.
    """
    most_bytes = max(LEAST_BYTES, most_bytes)
    found = {
        str(key)[:SHORT_CHARACTERS]: _clean(value, 1)
        for key, value in list(document.items())[:MOST_FIELDS]
    }
    cuts: dict[str, str] = {}
    counts = {key: len(value) for key, value in found.items() if isinstance(value, list)}
    encoded = dumps(found)
    while len(encoded) > most_bytes:
        if not found:  # names alone are too long
            return dumps({"cut": {"all": "it is left out"}})
        _cut_one(found, counts, cuts)
        encoded = dumps({**found, "cut": cuts})
    return encoded


def redacted(text: str) -> str:
    """Return a text without the users, passwords and queries of URLs, keys and tokens.

    A text of more than 4000 characters is cut, and says so.
    """
    if len(text) > TEXT_CHARACTERS:
        text = f"{text[:TEXT_CHARACTERS]} ... (cut)"
    text = _QUERY.sub(rf"\1?{HIDDEN}", _USER.sub(rf"\1{HIDDEN}@", text))
    return _NAMED.sub(rf"\1{HIDDEN}", _HEADER.sub(rf"\1{HIDDEN}", text))


def _clean(value: Any, depth: int) -> Any:
    """Return a value of JSON with every text redacted; what nests too deep is left out."""
    if isinstance(value, str):
        return redacted(value)
    if isinstance(value, dict) and depth < DEEPEST:
        return {redacted(str(key)): _clean(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)) and depth < DEEPEST:
        return [_clean(one, depth + 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no such number
    return value if value is None or isinstance(value, (bool, int, float)) else HIDDEN


def _cut_one(found: dict[str, Any], counts: Mapping[str, int], cuts: dict[str, str]) -> None:
    """Make the largest field smaller: half of a list, the head of a text, nothing of others."""
    name = max(found, key=lambda key: len(dumps(found[key])))
    value = found[name]
    if isinstance(value, list) and value:
        found[name] = value[: len(value) // 2]
        cuts[name] = f"{counts[name] - len(found[name])} of {counts[name]} entries are left out"
    elif isinstance(value, str) and len(value) > SHORT_CHARACTERS:
        found[name] = value[:SHORT_CHARACTERS]
        cuts[name] = f"the text goes on after {SHORT_CHARACTERS} characters"
    else:
        del found[name]
        cuts[name] = "it is left out"
