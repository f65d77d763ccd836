"""What diagnoses in the lab found, compared with what was broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_S = 10


def check_verdicts(
    told: Mapping[str, Mapping[str, Any]], faults: Mapping[str, tuple[str, str, str]]
) -> None:
    """Check that each fault came out with its state, its place, and words of its sentence."""
    assert set(told) == set(faults)
    for name, (state, place, words) in faults.items():
        seen = told[name]
        assert (seen["state"], seen["place"]) == (state, place), (name, seen)
        assert words in seen["sentence"], (name, seen["sentence"])
        assert seen["took_s"] < MOST_S, name
