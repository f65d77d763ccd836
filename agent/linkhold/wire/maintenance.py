"""Planned work in the state document, and the request that announces it."""

from __future__ import annotations

from typing import Any

from linkhold.model import Moment, WireError
from linkhold.model.maintenance import Maintenance
from linkhold.wire.documents import dumps, from_rfc3339, rfc3339
from linkhold.wire.reading import flaw, load_json
from linkhold.wire.topics import is_topic_safe

MOST_S = 7 * 86400.0
"""Longer than any planned work; whoever needs more announces it again."""
LEAST_S = 60.0
MOST_CHARACTERS = 200
MOST_BYTES = 2048
_KEYS = {"id", "for_s", "why", "by"}


def maintenance_document(work: Maintenance | None) -> dict[str, Any] | None:
    """Return the field ``maintenance`` of the state document."""
    if work is None:
        return None
    return {
        "id": work.id,
        "why": work.why,
        "by": work.by,
        "since": rfc3339(work.began.wall_s),
        "since_mono_ns": work.began.mono_ns,
        "until": rfc3339(work.ends.wall_s),
        "until_mono_ns": work.ends.mono_ns,
    }


def parse_maintenance(value: Any) -> Maintenance | None:
    """Return what :func:`maintenance_document` was given; raises :class:`WireError`."""
    if value is None:
        return None
    try:
        return Maintenance(
            id=str(value["id"]),
            why=str(value["why"]),
            by=str(value["by"]),
            began=Moment(int(value["since_mono_ns"]), from_rfc3339(value["since"])),
            ends=Moment(int(value["until_mono_ns"]), from_rfc3339(value["until"])),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WireError(f"maintenance: {flaw(error)}") from error


def maintenance_request(id_: str, for_s: float, why: str, by: str) -> bytes:
    """Return a request for ``cmd/maintenance``; ``for_s`` 0 ends what is announced."""
    return dumps({"id": id_, "for_s": for_s, "why": why, "by": by})


def parse_maintenance_request(payload: bytes) -> tuple[str, float, str, str]:
    """Return id, seconds, why and by; raises :class:`WireError` for whatever is no request."""
    if len(payload) > MOST_BYTES:
        raise WireError(f"request of {len(payload)} bytes; at most {MOST_BYTES}")
    document = load_json(payload)
    if not isinstance(document, dict) or set(document) != _KEYS:
        raise WireError(f"request: expected the keys {', '.join(sorted(_KEYS))}")
    id_, for_s = document["id"], document["for_s"]
    if not isinstance(id_, str) or not is_topic_safe(id_):
        raise WireError("request: id is 1 to 64 letters, digits, . _ -, with no . or - at the ends")
    if isinstance(for_s, bool) or not isinstance(for_s, (int, float)):
        raise WireError("request: for_s is no number")
    if for_s and not LEAST_S <= for_s <= MOST_S:
        raise WireError(f"request: for_s is 0, or {LEAST_S:g} to {MOST_S:g}")
    why, by = _words(document["why"], "why"), _words(document["by"], "by")
    return id_, float(for_s), why, by


def _words(value: Any, name: str) -> str:
    fits = isinstance(value, str) and 0 < len(value.strip()) <= MOST_CHARACTERS
    if not fits or not value.isprintable():
        raise WireError(f"request: {name} is 1 to {MOST_CHARACTERS} printable characters")
    return str(value.strip())
