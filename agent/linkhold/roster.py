"""Whom one who listens to a fleet keeps track of: so many nodes, and so many of one name. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NODES = 20_000
MOST_SITES = 64
"""Nodes of one name, each of another site: a broker may let a node write under any site, and one
that made up thousands would leave no room for the others."""


class Roster:
    """Counts nodes by name; a name of which no node is left is forgotten."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._nodes_of = Counter(names)
        self._nodes = self._nodes_of.total()

    def has_room(self, name: str) -> bool:
        """Whether one more node of this name may enter."""
        return self._nodes < MOST_NODES and self._nodes_of[name] < MOST_SITES

    def enter(self, name: str) -> None:
        """Count one more."""
        self._nodes += 1
        self._nodes_of[name] += 1

    def leave(self, name: str) -> None:
        """Count one less of those that entered."""
        self._nodes -= 1
        self._nodes_of[name] -= 1
        if not self._nodes_of[name]:
            del self._nodes_of[name]
