"""Lines of public reports, where they lie on this machine: none stays none, the rest is told."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from linkhold.decide.kernel_log import entries, explain

CORPUS = Path(__file__).resolve().parents[3] / "shared/cases/kernel-log.tsv"
SHARE = 0.98


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    """The corpus, a row each."""
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not on this machine")
    with CORPUS.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _told(row: dict[str, str]) -> tuple[str, str]:
    text = row["raw_line"].replace("\\n", "\n")
    (entry,) = entries(io.StringIO(text))
    found = explain(entry)
    return found.cls.value, found.interface


def test_none_stays_none(rows: list[dict[str, str]]) -> None:
    """Not one harmless line is taken for a fault."""
    none = [row for row in rows if row["expected_class"] == "none"]

    assert none
    assert [row["id"] for row in none if _told(row) != ("none", "")] == []


def test_the_rest_is_told(rows: list[dict[str, str]]) -> None:
    """At least 98 of 100 lines of faults get their class and interface."""
    rest = [row for row in rows if row["expected_class"] != "none"]
    wrong = [
        row["id"]
        for row in rest
        if _told(row) != (row["expected_class"], row["interface_or_empty"])
    ]

    assert rest
    assert len(wrong) <= (1 - SHARE) * len(rest), wrong
