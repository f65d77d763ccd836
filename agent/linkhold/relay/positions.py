"""How far each node's events are known and who is gone since when, over restarts of the relay.

Without the file nothing is wrong but that a gap between two relays' lives is not seen, and that
the time in which a planned stop may come back begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.exporter import write_whole
from linkhold.kept import read_kept
from linkhold.model import StoreError, WireError
from linkhold.relay.decide import gaps
from linkhold.relay.decide.values import Known
from linkhold.wire import dumps, is_topic_safe, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkhold.relay.decide.gaps import Tracks
    from linkhold.relay.decide.values import Key

NAME = "positions.json"
MOST_BYTES = 1 << 25
SCHEMA = 1


def load(folder: Path) -> Known:
    """Return what the relay before this one knew; nothing from a file that is damaged."""
    try:
        document = load_json(read_kept(folder / NAME, MOST_BYTES))
        nodes = document["nodes"] if document["schema"] == SCHEMA else {}
        tracks = {_key(name): _tracks(value) for name, value in nodes.items()}
        gone = {_key(name): float(since) for name, since in document.get("gone", {}).items()}
        return Known(tracks, gone, float(document["dealt_until_s"]))
    except (OSError, WireError, KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return Known()


def save(folder: Path, known: Known) -> None:
    """Write what is known now; raises :class:`StoreError`."""
    nodes = {"/".join(key): gaps.stored(tracks) for key, tracks in known.tracks.items()}
    gone = {"/".join(key): round(since_s, 3) for key, since_s in known.gone.items()}
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
    document = {
        "schema": SCHEMA,
        "dealt_until_s": known.dealt_until_s,
        "nodes": nodes,
        "gone": gone,
    }
    write_whole(folder / NAME, dumps(document))


def _key(name: str) -> Key:
    site, _, node = name.partition("/")
    if not is_topic_safe(site) or not is_topic_safe(node):
        raise ValueError(name)
    return site, node


def _tracks(value: Mapping[str, int]) -> Tracks:
    return gaps.read_stored({str(session): int(seen) for session, seen in value.items()})
