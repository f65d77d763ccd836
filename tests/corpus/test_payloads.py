"""Payloads of public reports, where they lie on this machine: each gets the expected event."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from linkhold import cli

CORPUS = Path(__file__).resolve().parents[3] / "shared/cases/payloads.json"
PROSE = {"note", "why"}


def test_every_row_has_the_expected_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Event, severity and all figures of each row are told as expected, by the command itself."""
    if not CORPUS.exists():
        pytest.skip(f"{CORPUS} is not on this machine")
    rows: list[dict[str, Any]] = json.loads(CORPUS.read_text(encoding="utf-8"))

    assert cli.main(["explain", "payload", "--json", str(CORPUS)]) == 0

    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    wrong = [
        (row["id"], key, wanted, found.get(key))
        for row, found in zip(rows, told, strict=True)
        for key, wanted in row["expect"].items()
        if key not in PROSE and found.get(key) != wanted
    ]
    assert wrong == []
    assert all(found["why"] for found in told)
