"""The date formats of metadata services, which differ by vendor and endpoint."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
TENCENT_ZONE = timezone(timedelta(hours=8))

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)
_HTTP = re.compile(
    r"(?:[A-Za-z]{3,9},\s*)?(\d{1,2})[ -]([A-Za-z]{3})[a-z]*[ -](\d{4}) (\d\d):(\d\d):(\d\d)"
    r"\s*(?:GMT|UTC|Z)?"
)


def seconds(text: object, zone: timezone = timezone.utc) -> float | None:
    """Return seconds since 1970 of a date, None for what is none.

    Understood are RFC 3339 with T or blank, RFC 1123 and AWS's ``2 Jan 2006 15:04:05 GMT``, in
    English whatever the locale. ``zone`` is what a date without one is in.
    """
    plain = text.strip() if isinstance(text, str) else ""
    if iso := _ISO.fullmatch(plain):
        year, month, day, hour, minute, second = (int(part or 0) for part in iso.groups()[:6])
        return _seconds((year, month, day, hour, minute, second), _zone(iso[7], zone))
    if http := _HTTP.fullmatch(plain):
        month = MONTHS.get(http[2].lower(), 0)
        hour, minute, second = (int(part) for part in http.groups()[3:6])
        return _seconds((int(http[3]), month, int(http[1]), hour, minute, second), timezone.utc)
    return None


def rfc3339(at_s: float) -> str:
    """Return a date as people and programs read it, in UTC, to the second."""
    return datetime.fromtimestamp(at_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _zone(text: str | None, usual: timezone) -> timezone:
    if not text:
        return usual
    if text in {"Z", "UTC"}:
        return timezone.utc
    digits = text[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _seconds(fields: tuple[int, int, int, int, int, int], zone: timezone) -> float | None:
    try:
        return datetime(*fields, tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return None
