"""All parsers of outside bytes, and the folder in which those of files read theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuzz import (
    of_dialogues,
    of_documents,
    of_files,
    of_host,
    of_kernel,
    of_network,
    of_sockets,
    of_streams,
)

if TYPE_CHECKING:
    from pathlib import Path

    from fuzz.target import Target

OF_BYTES = (
    *of_documents.TARGETS,
    *of_kernel.TARGETS,
    *of_network.TARGETS,
    *of_files.TARGETS,
    *of_sockets.TARGETS,
    *of_dialogues.TARGETS,
    *of_streams.TARGETS,
)
NAMES = (
    *(target.name for target in OF_BYTES),
    *(file.title for file in of_files.FILES),
    *(place.title for place in of_host.PLACES),
)


def find(name: str, folder: Path) -> Target:
    """Return a target; one of files uses ``folder``, which is its own."""
    for target in OF_BYTES:
        if target.name == name:
            return target
    for source in (*of_files.FILES, *of_host.PLACES):
        if source.title == name:
            return source.target(folder)
    raise KeyError(name)


def reads() -> set[str]:
    """Return every module that a target names."""
    of_bytes = {module for target in OF_BYTES for module in target.reads}
    of_files_ = {module for file in of_files.FILES for module in file.reads}
    return of_bytes | of_files_ | {module for place in of_host.PLACES for module in place.reads}
