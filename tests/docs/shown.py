"""What a page shows as output, held against what is printed."""

from __future__ import annotations

import re

ANYTHING = "…"
"""On a page: what is left out of a line; a line that is nothing else: lines that are left out."""


def masked(text: str) -> str:
    """Return a line without its numbers and times, and with single spaces."""
    plain = re.sub(r"<?\d+ (?:s|min|h|d)\b", "T", text)
    plain = re.sub(r"\d+(?:[.:]\d+)*", "N", plain)
    return re.sub(r"\s+", " ", plain).strip()


def lacking(page: str, printed: str) -> list[str]:
    """Return the lines that a page shows and that are not printed, in their order."""
    said = [masked(line) for line in printed.splitlines()]
    at, missing = 0, []
    for line in page.splitlines():
        if line.strip() in {"", ANYTHING}:
            continue
        form = re.escape(masked(line)).replace(ANYTHING, ".*")
        found = next((n for n in range(at, len(said)) if re.fullmatch(form, said[n])), None)
        if found is None:
            missing.append(line)
        else:
            at = found + 1
    return missing
