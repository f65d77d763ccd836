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
    r"(\d{4})([-/])(\d\d)\2(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,]\d+)?)?"
    r"\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?",
    re.ASCII | re.IGNORECASE,
)
_HTTP = re.compile(
    r"(?:[A-Za-z]{3,9},\s*)?(\d{1,2})[ -]([A-Za-z]{3})[a-z]*[ -](\d{4}) (\d\d):(\d\d):(\d\d)"
    r"\s*(Z|UTC|GMT|[+-]\d\d:?\d\d)?",
    re.ASCII | re.IGNORECASE,
)
YEARS = range(1971, 2200)
"""Others are the zero of some language (0001-01-01), or no date that a clock could show."""
EPOCH = re.compile(r"\d{10}|\d{13}", re.ASCII)
"""Seconds or milliseconds since 1970, for the dates from 2001 to 2286."""


def seconds(text: object, zone: timezone = timezone.utc) -> float | None:
    """Return seconds since 1970 of a date, None for what is none.

    Understood are RFC 3339 with T or blank, RFC 1123, AWS's ``2 Jan 2006 15:04:05 GMT``, in
    English whatever the locale, and seconds or milliseconds since 1970. ``zone`` is what a date
    without one is in.
    """
    plain = "" if isinstance(text, bool) else str(text).strip()
    if iso := _ISO.fullmatch(plain):
        year, _, month, day, hour, minute, second = iso.groups()[:7]
        fields = (int(part or 0) for part in (year, month, day, hour, minute, second))
        return _seconds(tuple(fields), iso[8], zone)
    if http := _HTTP.fullmatch(plain):
        month = str(MONTHS.get(http[2].lower(), 0))
        fields = (int(part) for part in (http[3], month, http[1], http[4], http[5], http[6]))
        return _seconds(tuple(fields), http[7], timezone.utc)
    if EPOCH.fullmatch(plain):
        return float(plain[:10])
    return None


def rfc3339(at_s: float) -> str:
    """Return a date as people and programs read it, in UTC, to the second."""
    return datetime.fromtimestamp(at_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _zone(text: str | None, usual: timezone) -> timezone:
    if not text:
        return usual
    if text.upper() in {"Z", "UTC", "GMT"}:
        return timezone.utc
    digits = text[1:].replace(":", "")
    minutes = int(digits[:2]) * 60 + int(digits[2:])
    return timezone(timedelta(minutes=-minutes if text[0] == "-" else minutes))


def _seconds(fields: tuple[int, ...], zone: str | None, usual: timezone) -> float | None:
    year, month, day, hour, minute, second = fields
    if year not in YEARS:
        return None
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone, usual))
    except ValueError:  # the 31st of June, or a zone that is a day wide
        return None
    return at.timestamp()
