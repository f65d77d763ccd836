"""In which order a broker's retained messages are asked for: pure, time handed in.

A broker drops what a subscriber does not acknowledge fast enough, and tells nobody: mosquitto with
its defaults queues 1,000 messages of QoS 1 for it (max_queued_messages), so that of 1,000 nodes
the states of 800 would be missing. And what the relay acknowledges waits for Alertmanager. So what
is retained is asked for without QoS, one kind after the other, and then by name what did not come.
The next connection asks for all of it again, so that nothing hangs on an acknowledgement.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.roster import KnownNodes
from linkhold.wire import ROOT, birth_topic, node_prefix, state_topic

if TYPE_CHECKING:
    from linkhold.relay.decide.values import Key

QUIET_S = 0.3
"""A part is over when no retained message came for so long."""
MOST_PART_S = 60.0
BATCH = 500
"""Topics of one subscription by name: half of what every broker queues."""
LEAVES = ("status", "birth", "state")
"""Who is there first, then who stopped on purpose: both decide what an absence means."""
NAMED = {"birth": birth_topic, "state": state_topic}


@dataclass(frozen=True, slots=True)
class Demand:
    """A subscription to make, or to ``end``; ``retained``: with what the broker keeps."""

    topics: tuple[str, ...]
    qos: int = 0
    retained: bool = True
    end: bool = False


class Retained:
    """What to subscribe to on one connection; ``complete`` once all that there is has come.

    Whom it knows, a roster decides as for the relay's picture. It is one of its own: the picture
    is another thread's, and takes in later what is heard here.
    """

    def __init__(self, now_s: float) -> None:
        self.complete = False
        self._parts = list(LEAVES)
        self._answered = True
        self._asked_s = self._heard_s = now_s - QUIET_S
        self._seen: dict[str, set[Key]] = {leaf: set() for leaf in LEAVES}
        self._known = KnownNodes()
        self._missing: list[str] | None = None
        self._named: tuple[str, ...] = ()

    def answered(self, now_s: float) -> None:
        """Take in that the broker answered a subscription."""
        self._answered, self._heard_s = True, now_s

    def heard(self, key: Key, leaf: str, now_s: float) -> None:
        """Take in a retained message."""
        self._heard_s = now_s
        if leaf in self._seen and self._known.take(key):
            self._seen[leaf].add(key)

    def next(self, now_s: float) -> Demand | None:
        """Return what to do now, None while there is nothing; call it again after each answer."""
        if self.complete or not self._is_over(now_s):
            return None
        if self._named:
            ended, self._named = self._named, ()
            return Demand(ended, end=True)
        demand = self._demand()
        self._answered, self._asked_s = demand is None, now_s
        return demand

    def _demand(self) -> Demand | None:
        if self._parts:
            return Demand((_all(self._parts.pop(0)),))
        if self._missing is None:
            # From here on the session keeps what comes, over a loss of the connection too.
            self._missing = self._unseen()
            return Demand(tuple(map(_all, LEAVES)), qos=1, retained=False)
        self._named, self._missing = tuple(self._missing[:BATCH]), self._missing[BATCH:]
        if self._named:
            return Demand(self._named)
        self.complete = True
        return None

    def _unseen(self) -> list[str]:
        """Return the topics that known nodes should have and of which nothing came."""
        return sorted(
            topic(node_prefix(*key))
            for leaf, topic in NAMED.items()
            for key in self._known.nodes - self._seen[leaf]
        )

    def _is_over(self, now_s: float) -> bool:
        if now_s - self._asked_s > MOST_PART_S:
            return True
        return self._answered and now_s - self._heard_s >= QUIET_S

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before :meth:`next` is worth a call, in seconds."""
        return 60.0 if self.complete else max(0.02, QUIET_S - (now_s - self._heard_s))


def _all(leaf: str) -> str:
    return f"{ROOT}/+/+/{leaf}"
