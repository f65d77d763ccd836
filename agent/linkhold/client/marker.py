"""The file that tells a launcher that the run stopped on purpose and may be started again."""

from __future__ import annotations

import contextlib
import json
import operator
import os
from pathlib import Path
from typing import Any

MARKER_VARIABLE = "LINKHOLD_STOP_MARKER"
MARKER_NAME = ".linkhold-stop"
NOTE_VARIABLE = "LINKHOLD_LAUNCHER_NOTE"
"""Names a file for the launcher's eyes alone: see :mod:`linkhold.client.torchrun`."""


def leave(content: dict[str, Any]) -> str | None:
    """Write ``$LINKHOLD_STOP_MARKER``, or ``.linkhold-stop`` here, whole or not at all.

    So is the launcher's note, where it wants one. Returns the reason in words when that failed;
    nothing may prevent the exit.
    """
    note = os.environ.get(NOTE_VARIABLE)
    problems = [_write(os.environ.get(MARKER_VARIABLE) or MARKER_NAME, content)]
    if note:
        problems.append(_write(note, content))
    return "; ".join(problem for problem in problems if problem) or None


def _write(name: str, content: dict[str, Any]) -> str | None:
    """Write one JSON object; return the reason in words when that failed."""
    try:
        path = Path(name)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
    except (OSError, ValueError) as error:
        return str(error)
    try:
        with draft.open("w", encoding="utf-8") as file:
            json.dump(content, file, default=_plain)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except (OSError, ValueError, TypeError) as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        return f"{path}: {error}"
    return None


def _plain(value: Any) -> int | str:
    """Return what JSON has no word for, such as a step number of numpy or torch."""
    try:
        return operator.index(value)
    except TypeError:
        return str(value)
