"""The file that tells a launcher that the run stopped on purpose and may be started again."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

MARKER_VARIABLE = "LINKHOLD_STOP_MARKER"
MARKER_NAME = ".linkhold-stop"


def marker_path() -> Path:
    """Return ``$LINKHOLD_STOP_MARKER``, or ``.linkhold-stop`` in the working folder."""
    return Path(os.environ.get(MARKER_VARIABLE) or MARKER_NAME)


def leave(content: dict[str, Any]) -> str | None:
    """Write the marker as one JSON object, whole or not at all.

    Returns the reason in words when that failed; nothing may prevent the exit.
    """
    try:
        path = marker_path()
        draft = path.with_name(f"{path.name}.{os.getpid()}")
    except (OSError, ValueError) as error:
        return str(error)
    try:
        with draft.open("w", encoding="utf-8") as file:
            json.dump(content, file)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except (OSError, ValueError, TypeError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        return f"{path}: {error}"
    return None
