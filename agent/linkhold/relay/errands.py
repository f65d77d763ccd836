"""One errand to the fleet's brokers: who is there, an announcement, and who took it."""

from __future__ import annotations

import queue
import secrets
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from linkhold.model import BrokerError
from linkhold.relay.decide.values import BrokerSeen, Cleared, Report, Status
from linkhold.relay.feed import Feed
from linkhold.wire import command_topic, node_prefix
from linkhold.wire.maintenance import maintenance_request

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import Self

    from linkhold.config.brokers import BrokerSettings
    from linkhold.relay.decide.values import Key
    from linkhold.relay.feed import Delivery

EXPIRY_S = 30
WAIT_S = 0.5
NONE_S = 4.0
"""Brokers that all refuse for so long do not come back while somebody waits."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as the brokers show it; ``work`` is the id of the planned work in its state."""

    online: frozenset[str] = frozenset()
    work: str = ""


class Announcer:
    """Listens to all brokers with sessions that end with it."""

    def __init__(self, brokers: Sequence[BrokerSettings]) -> None:
        self._queue: queue.SimpleQueue[Delivery] = queue.SimpleQueue()
        name = f"errand-{secrets.token_hex(4)}"
        self._feeds = [Feed(name, one, self._queue.put, keep=False) for one in brokers]
        self._problems: dict[str, str] = {}
        self._complete: set[str] = set()
        self.nodes: dict[Key, Seen] = {}

    def __enter__(self) -> Self:
        for feed in self._feeds:
            feed.start()
        return self

    def __exit__(self, *_: object) -> None:
        for feed in self._feeds:
            feed.stop(2.0)

    def look(self, timeout_s: float) -> None:
        """Learn which nodes there are; raises :class:`BrokerError` when no broker answers."""
        began_s = time.monotonic()
        connected: set[str] = set()
        while (waited_s := time.monotonic() - began_s) < timeout_s:
            found = self._next(WAIT_S)
            if isinstance(found, BrokerSeen):
                (connected.add if found.up else connected.discard)(found.broker)
            all_known = len(connected | self._problems.keys()) >= len(self._feeds)
            if all_known and connected and connected <= self._complete:
                return
            if all_known and not connected and waited_s > NONE_S:
                break
        if not connected:
            reasons = "; ".join(f"{name}: {why}" for name, why in self._problems.items())
            raise BrokerError(f"no broker of the fleet answers: {reasons or 'no answer'}")

    def announce(self, keys: Iterable[Key], request: str, for_s: float, why: str, by: str) -> None:
        """Send an announcement to nodes, by a broker that each is connected to."""
        feeds = {feed.broker: feed for feed in self._feeds}
        for key in keys:
            feed = feeds[min(self.nodes[key].online)]
            topic = command_topic(node_prefix(*key), "maintenance")
            feed.publish(topic, maintenance_request(request, for_s, why, by), EXPIRY_S)

    def answers(self, keys: Sequence[Key], work: str, timeout_s: float) -> list[Key]:
        """Return the nodes whose state shows this work, once all do or the time is over."""
        until_s = time.monotonic() + timeout_s
        while time.monotonic() < until_s and any(self.nodes[key].work != work for key in keys):
            self._next(min(WAIT_S, max(0.0, until_s - time.monotonic())))
        return [key for key in keys if self.nodes[key].work == work]

    def _next(self, timeout_s: float) -> object:
        """Take in one message; return what it says, None for nothing in time."""
        try:
            delivery = self._queue.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if delivery.receipt is not None:
            delivery.receipt.give()
        if delivery.complete:
            self._complete.add(delivery.complete)
        heard = delivery.heard
        if isinstance(heard, BrokerSeen):
            if not heard.up:
                self._problems[heard.broker] = heard.reason
            return heard
        if heard is None:
            return heard
        if isinstance(heard.body, Cleared):
            self.nodes.pop(heard.key, None)
            return heard
        seen = self.nodes.get(heard.key, Seen())
        if isinstance(heard.body, Status):
            here = frozenset({heard.broker})
            online = seen.online | here if heard.body.online else seen.online - here
            seen = replace(seen, online=online)
        elif isinstance(heard.body, Report):
            seen = replace(seen, work=heard.body.maintenance_id)
        self.nodes[heard.key] = seen
        return heard
