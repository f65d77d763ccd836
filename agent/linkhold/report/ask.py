"""Asks every node of a broker for what happened, a few at a time, by ``cmd/replay``."""

from __future__ import annotations

import secrets
import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.fleet_view.inbox import Listening
from linkhold.fleet_view.picture import split_topic
from linkhold.mqtt import CODE_FAILURE, CODE_NO_SUBSCRIBER, Acknowledged, Received
from linkhold.report.sources import Collected
from linkhold.wire import ROOT, command_topic, dumps, node_prefix, rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.fleet_view.inbox import Inbox
    from linkhold.fleet_view.picture import Key
    from linkhold.mqtt import Connection, Notice
    from linkhold.report.records import Record

AT_ONCE = 8
"""Nodes that answer at the same time: each sends 200 events a second at most (fleet_pace.py)."""
LIMIT = 1000
"""Events of one answer; a node serves no more (fleet_replay.py)."""
MOST_ROUNDS = 20
PATIENCE_S = 20.0
"""A node that sends nothing for so long does not answer."""
EXPIRY_S = 60


@dataclass(slots=True)
class Asked:
    """A request under way.

    ``heard_s`` is when the node last sent something, monotonic; ``mid`` names the publication.
    ``times`` are those of the events that came since, by id: the answer names its last one, as
    what happens now comes between what happened then.
    """

    key: Key
    request: str
    since_s: float
    heard_s: float
    rounds: int = 1
    mid: int = 0
    times: dict[str, float] = field(default_factory=dict)


class Asking:
    """The work of a line that takes the present in, then asks for the past.

    ``done`` is set when every node has answered or will not; ``silent`` are those that did not,
    ``cut`` those that have more to tell than was asked for, ``refused`` is why the broker passed
    requests to nobody.
    """

    def __init__(self, broker: str, inbox: Inbox, since_s: float, names: Iterable[str]) -> None:
        self.done = threading.Event()
        self.collected = Collected()
        self.silent: list[Key] = []
        self.cut: list[Key] = []
        self.asked = 0
        self.refused = ""
        self._listening = Listening(broker, inbox)
        self._since_s = since_s
        self._names = frozenset(names)
        self._online: set[Key] = set()
        self._waiting: deque[Key] = deque()
        self._under_way: dict[Key, Asked] = {}
        self._known: set[Key] = set()
        self._subscribed = False

    def begin(self, connection: Connection, now_s: float) -> None:
        """Start, or go on after a loss: what was under way is asked for again."""
        self._listening.begin(connection, now_s)
        self._subscribed = False
        self._waiting.extendleft(self._under_way)
        self._under_way = {}

    def take(self, notice: Notice, now_s: float) -> None:
        """Take in what a node says."""
        if isinstance(notice, Acknowledged):
            self._acknowledged(notice)
            return
        if not isinstance(notice, Received):
            self._listening.take(notice, now_s)
            return
        place = split_topic(notice.topic)
        if place is not None and place[1].startswith("event/"):
            self._event(place[0], notice.payload, now_s)
            return
        if place is not None and place[1] == "status":
            self._presence(place[0], online=notice.payload == b"online")
        self._listening.take(notice, now_s)

    def _acknowledged(self, notice: Acknowledged) -> None:
        """Take in what became of a request; one that nobody gets is not waited for."""
        asked = next((one for one in self._under_way.values() if one.mid == notice.mid), None)
        if asked is None or notice.code not in {CODE_NO_SUBSCRIBER, *range(CODE_FAILURE, 256)}:
            return
        del self._under_way[asked.key]
        self.silent.append(asked.key)
        if notice.code >= CODE_FAILURE:
            self.refused = notice.text

    def _presence(self, key: Key, *, online: bool) -> None:
        if online and (not self._names or {key[1], "/".join(key)} & self._names):
            self._online.add(key)
        else:
            self._online.discard(key)

    def _event(self, key: Key, payload: bytes, now_s: float) -> None:
        record = self.collected.add(payload)
        asked = self._under_way.get(key)
        if record is None or asked is None or record.key != key:
            return
        asked.heard_s = now_s
        if record.type == "agent.replayed" and record.data.get("request") == asked.request:
            self._answered(asked, record)
        else:
            asked.times[record.id] = record.at_s

    def _answered(self, asked: Asked, record: Record) -> None:
        """Take in that a node has answered; one whose answer was full has perhaps more to tell."""
        del self._under_way[asked.key]
        if record.data.get("count") != LIMIT:
            return
        last_s = asked.times.get(str(record.data.get("last")), 0.0)
        if asked.rounds >= MOST_ROUNDS or last_s <= asked.since_s:
            self.cut.append(asked.key)
            return
        again = Asked(asked.key, "", last_s, asked.heard_s, asked.rounds + 1)
        self._under_way[asked.key] = again

    def step(self, connection: Connection, now_s: float) -> float:
        """Subscribe, ask, and give up what does not answer."""
        wait_s = self._listening.step(connection, now_s)
        if not self._listening.complete:
            return wait_s
        if not self._subscribed:
            connection.subscribe(f"{ROOT}/+/+/event/#", qos=1)
            self._subscribed = True
        self._waiting.extend(sorted(self._online - self._known))
        self._known |= self._online
        self._give_up(now_s)
        for asked in self._under_way.values():
            if not asked.request:
                self._ask(connection, asked, now_s)
        while self._waiting and len(self._under_way) < AT_ONCE:
            key = self._waiting.popleft()
            self._under_way[key] = Asked(key, "", self._since_s, now_s)
            self.asked += 1
            self._ask(connection, self._under_way[key], now_s)
        if not self._under_way:
            self.done.set()
        return min(wait_s, 0.5)

    def _ask(self, connection: Connection, asked: Asked, now_s: float) -> None:
        asked.request, asked.heard_s = f"report-{secrets.token_hex(8)}", now_s
        request = {"request": asked.request, "since": rfc3339(asked.since_s), "limit": LIMIT}
        topic = command_topic(node_prefix(*asked.key), "replay")
        asked.mid = connection.publish(topic, dumps(request), qos=1, expiry_s=EXPIRY_S)

    def _give_up(self, now_s: float) -> None:
        for key, asked in list(self._under_way.items()):
            if now_s - asked.heard_s > PATIENCE_S:
                del self._under_way[key]
                self.silent.append(key)
