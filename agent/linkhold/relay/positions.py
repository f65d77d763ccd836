"""How far each node's events are known, over restarts of the relay.

Without the file nothing is wrong but that a gap between two relays' lives is not seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.exporter import write_whole
from linkhold.model import StoreError, WireError
from linkhold.relay.decide import gaps
from linkhold.wire import dumps, is_topic_safe, load_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkhold.relay.decide.gaps import Tracks
    from linkhold.relay.decide.values import Key

NAME = "positions.json"
MOST_BYTES = 1 << 25
SCHEMA = 1


def load(folder: Path) -> tuple[dict[Key, Tracks], float]:
    """Return what the relay before this one knew; nothing from a file that is damaged.

    With it, until when (wall clock) that relay may have dealt with events beyond it.
    """
    try:
        with (folder / NAME).open("rb") as file:
            document = load_json(file.read(MOST_BYTES))
        nodes = document["nodes"] if document["schema"] == SCHEMA else {}
        tracks = {_key(name): _tracks(value) for name, value in nodes.items()}
        return tracks, float(document["dealt_until_s"])
    except (OSError, WireError, KeyError, TypeError, ValueError, AttributeError):
        return {}, 0.0


def save(folder: Path, tracks: Mapping[Key, Tracks], dealt_until_s: float) -> None:
    """Write what is known now; raises :class:`StoreError`."""
    nodes = {f"{site}/{node}": gaps.stored(known) for (site, node), known in tracks.items()}
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
    document = {"schema": SCHEMA, "dealt_until_s": dealt_until_s, "nodes": nodes}
    write_whole(folder / NAME, dumps(document))


def _key(name: str) -> Key:
    site, _, node = name.partition("/")
    if not is_topic_safe(site) or not is_topic_safe(node):
        raise ValueError(name)
    return site, node


def _tracks(value: Mapping[str, int]) -> Tracks:
    return gaps.read_stored({str(session): int(seen) for session, seen in value.items()})
