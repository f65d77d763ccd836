"""What is common to all services: answers that make no sense, JSON that is none."""

from __future__ import annotations

import json
from typing import Any

from linkhold.decide.notices.values import Odd

EXCERPT = 40
BOM = "\ufeff"
"""What some servers write before JSON, and what JSON readers refuse."""


def refuse_page(body: str) -> None:
    """Raise Odd for a page: a portal or proxy answers in the service's place."""
    if body.removeprefix(BOM).lstrip()[:1] == "<":
        raise Odd("a page where data is due: a captive portal or proxy, neither notice nor calm")


def document(body: str, wanted: type | tuple[type, ...]) -> Any:
    """Return the JSON of a body; raise Odd for broken JSON or another type than ``wanted``."""
    refuse_page(body)
    try:
        value = json.loads(body.removeprefix(BOM), parse_constant=str)
    except (ValueError, RecursionError):
        raise Odd("the JSON is cut off or malformed") from None
    if not isinstance(value, wanted):
        due = wanted.__name__ if isinstance(wanted, type) else "document"
        raise Odd(f"a JSON {type(value).__name__} where a {due} is due")
    return value


def fields(value: dict[str, Any]) -> dict[str, Any]:
    """Return an object's fields by names in lower case without underscores: versions differ."""
    return {name.replace("_", "").lower(): inner for name, inner in value.items()}


def said(value: object) -> str:
    """Return a field as text, empty where it is none."""
    return value.strip() if isinstance(value, str) else ""


def excerpt(text: str) -> str:
    """Return the beginning of a text, fit to be shown."""
    return ascii(text.strip()[:EXCERPT])
