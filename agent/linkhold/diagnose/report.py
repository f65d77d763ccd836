"""A diagnosis as a JSON document, below the 256 KiB of ``diag/<id>``."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from linkhold.model.diagnosis import Diagnosis, Verdict

ALSO_MOST = 20
MISSING_MOST = 50
TEXT_CHARACTERS = 400


def document(found: Diagnosis) -> dict[str, Any]:
    """Return what ``--json`` prints, and what is published of a diagnosis."""
    return {
        "schema": 1,
        **_verdict(found.verdict),
        "also": [_verdict(one) for one in found.also[:ALSO_MOST]],
        "evidence": [
            {**asdict(row), "mark": row.mark.value, "text": row.text[:TEXT_CHARACTERS]}
            for row in found.evidence
        ],
        "missing": [
            {"step": one.step, "why": one.why[:TEXT_CHARACTERS]}
            for one in found.missing[:MISSING_MOST]
        ],
        "took_s": found.took_s,
    }


def _verdict(one: Verdict) -> dict[str, Any]:
    return {
        "state": one.state.value,
        "place": one.place.value,
        "sure": one.sure.value,
        "sentence": one.sentence[:TEXT_CHARACTERS],
        "next": list(one.next),
    }
