"""Looks into other network namespaces, and changes of sysctls there, by a helper process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.children import ask, ourselves
from linkhold.inside.helper import Visit, Visited, answered, asked
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterable

ANSWER_BYTES = 64 << 20
"""Half a million connections."""
VISIT_S = 10.0

__all__ = ["Visit", "Visited", "visit"]


def visit(visits: Iterable[Visit], timeout_s: float = VISIT_S) -> list[Visited]:
    """Visit network namespaces in this order, all by one helper process, and return what it found.

    Blocking: for commands and threads. Trouble with one namespace is in its own answer. Raises
    :class:`Unavailable` when the helper as a whole gave no answer within ``timeout_s``.
    """
    wanted = list(visits)
    if not wanted:
        return []
    command = ourselves("linkhold.inside.helper")
    document = ask(command, asked(wanted), timeout_s=timeout_s, most_bytes=ANSWER_BYTES)
    try:
        return answered(document)
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable("the namespace helper answered what is no answer of its own") from error
