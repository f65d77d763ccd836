"""How far the kernel's log was read, kept over restarts of the agent in the same boot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from linkhold.kept import read_kept
from linkhold.model.kernel_log import Position
from linkhold.store.statefile import StateFile

if TYPE_CHECKING:
    from pathlib import Path

FILE_BYTES = 4096


class LogPosition:
    """One small file in the run folder, which a reboot empties as it empties the kernel's log.

    Save a position only after what was read up to it is kept elsewhere: then a crash between the
    two shows lines twice, which their sequence numbers tell, and never loses one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = StateFile(path)
        self._saved: Position | None = None

    def load(self) -> Position | None:
        """Return what was saved; None when nothing was, or nothing that makes sense."""
        try:
            document = json.loads(read_kept(self._path, FILE_BYTES))
            boot_id, sequence, cursor = (document[key] for key in ("boot_id", "seq", "cursor"))
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return None
        sound = isinstance(boot_id, str) and isinstance(cursor, str) and type(sequence) is int
        return Position(boot_id, sequence, cursor) if sound else None

    def save(self, position: Position) -> None:
        """Keep ``position``, if it is another one. Raises StoreError."""
        if position == self._saved:
            return
        document = {
            "boot_id": position.boot_id,
            "seq": position.sequence,
            "cursor": position.cursor,
        }
        self._file.write(json.dumps(document).encode() + b"\n")
        self._saved = position
