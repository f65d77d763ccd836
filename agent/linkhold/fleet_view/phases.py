"""In which order the retained messages of a fleet are asked for: pure, time handed in.

A broker drops what a new subscriber does not take fast enough, and tells nobody: mosquitto with
its defaults sends 1,020 retained messages of QoS 1 and forgets the others (max_inflight_messages
20, max_queued_messages 1000). So the small ``status`` of all nodes is asked for first and without
QoS, then one kind of document after the other, then by name what did not come.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.fleet_view.picture import split_topic
from linkhold.roster import KnownNodes
from linkhold.wire import ROOT, node_prefix, state_topic

if TYPE_CHECKING:
    from linkhold.fleet_view.picture import Key

QUIET_S = 0.4
"""A phase is over when no retained message came for so long."""
MOST_PHASE_S = 15.0
BATCH = 500
"""Topics of one subscription by name: half of what every broker queues."""
_ORDER = (("status", 0), ("state", 1), ("birth", 1))


@dataclass(frozen=True, slots=True)
class Wish:
    """Topics to subscribe to now."""

    topics: tuple[str, ...]
    qos: int


class Phases:
    """What to subscribe to on one connection; ``complete`` once all that there is has come."""

    def __init__(self, now_s: float) -> None:
        self.complete = False
        self._phase = 0
        self._subscribed = True
        self._asked_s = self._heard_s = now_s
        self._known = KnownNodes()
        self._with_state: set[Key] = set()
        self._asked: set[Key] = set()

    def subscribed(self, now_s: float) -> None:
        """Take in that the broker answered the subscription."""
        self._subscribed, self._heard_s = True, now_s

    def heard(self, topic: str, now_s: float) -> None:
        """Take in a retained message."""
        self._heard_s = now_s
        place = split_topic(topic)
        if place is not None and self._known.take(place[0]) and place[1] == "state":
            self._with_state.add(place[0])

    def next(self, now_s: float) -> Wish | None:
        """Return what to subscribe to now, None while there is nothing to do."""
        if self.complete or not self._is_over(now_s):
            return None
        if self._phase < len(_ORDER):
            leaf, qos = _ORDER[self._phase]
            self._phase += 1
            wish = Wish((f"{ROOT}/+/+/{leaf}",), qos)
        else:
            missing = sorted(self._known.nodes - self._with_state - self._asked)[:BATCH]
            if not missing:
                self.complete = True
                return None
            self._asked.update(missing)
            wish = Wish(tuple(state_topic(node_prefix(*key)) for key in missing), 1)
        self._subscribed, self._asked_s = False, now_s
        return wish

    def _is_over(self, now_s: float) -> bool:
        if self._phase == 0 or now_s - self._asked_s > MOST_PHASE_S:
            return True
        return self._subscribed and now_s - self._heard_s >= QUIET_S

    def wait_s(self, now_s: float) -> float:
        """Return how long to wait before :meth:`next` is worth a call, in seconds."""
        if self.complete:
            return 60.0
        return max(0.02, QUIET_S - (now_s - self._heard_s))
