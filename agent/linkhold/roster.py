"""Whom one who listens to a fleet follows: so many nodes, and so many of one name. Pure.

A broker may let a node write under any site (docs/brokers.md), so that one node is as many as it
likes. Nothing that it says tells it from nodes of one name in a thousand racks: to the broker they
are one user. What tells them apart is how much they need. A rack's node is a presence and a few
alerts; the one that makes up sites is no danger to others until it takes their room or the memory.
So three bounds, which count pairs of site and name:

- all names: :data:`MOST_NODES`;
- a name: :data:`MOST_SITES`, as many racks as a large fleet has and a twentieth of all;
- a name at more than :data:`MOST_IN_FULL` sites (:meth:`Roster.is_many`) is followed in short. At
  the relay a node takes 4 kB, 800 kB when it says all that it may, and then 150 kB in short. So
  one that makes up sites takes 210 MB of the 384 of the relay's unit, and alone fills neither.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_NODES = 20_000
MOST_SITES = 1024
"""Nodes of one name, each of another site."""
MOST_IN_FULL = 64
"""Nodes of one name of which all is kept that a node may say."""
MOST_TOLD = 64
"""Names of which it is told that they have no room."""
ADVICE = (
    "give nodes names of their own, or, if one node makes up sites, take its certificate back "
    "(docs/brokers.md)"
)


class Roster:
    """Counts nodes by name; a name of which no node is left is forgotten."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._nodes_of = Counter(names)
        self._nodes = self._nodes_of.total()
        self._told: set[str] = set()

    def has_room(self, name: str) -> bool:
        """Whether one more node of this name may enter."""
        return self._nodes < MOST_NODES and self._nodes_of[name] < MOST_SITES

    def is_many(self, name: str) -> bool:
        """Whether nodes of this name are followed in short, as there are so many."""
        return self._nodes_of[name] > MOST_IN_FULL

    def refused(self, name: str) -> str:
        """Return why a node of this name has no room, in words; empty when that was told before.

        Told once for each name, and once when there is no room for any.
        """
        full = self._nodes >= MOST_NODES
        told = "" if full else name
        if told in self._told or len(self._told) >= MOST_TOLD:
            return ""
        self._told.add(told)
        if full:
            return (
                f"{self._nodes} nodes are followed and no more, so {name} and others are not: "
                "empty the retained status of those that are gone for good, or follow each part "
                "of the fleet on its own"
            )
        count = self._nodes_of[name]
        return f"{name}: nodes of this name are followed at {count} sites and no more; {ADVICE}"

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


class KnownNodes:
    """The nodes, by site and name, that one connection has heard of and a roster has room for.

    A roster of its own: a picture's belongs to another thread, and takes in later what is heard.
    """

    def __init__(self) -> None:
        self.nodes: set[tuple[str, str]] = set()
        self._roster = Roster()

    def take(self, key: tuple[str, str]) -> bool:
        """Take in a node, where there is room for it; tell whether it is known now."""
        if key not in self.nodes and self._roster.has_room(key[1]):
            self._roster.enter(key[1])
            self.nodes.add(key)
        return key in self.nodes
