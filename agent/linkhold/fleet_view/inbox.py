"""What the lines have heard, newest only, until the picture takes it.

However fast messages come and however slowly the terminal takes what is drawn, there is one
message for each topic and broker, and no more.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.fleet_view.line import BrokerNews
from linkhold.fleet_view.phases import Phases
from linkhold.fleet_view.picture import Heard
from linkhold.mqtt import CODE_FAILURE, Received, Subscribed
from linkhold.roster import MOST_NODES

if TYPE_CHECKING:
    import socket

    from linkhold.mqtt import Connection, Notice

MOST_TOPICS = 4 * MOST_NODES
REFUSED = "it refuses to show the fleet; see its ACL"


@dataclass(frozen=True, slots=True)
class Taken:
    """What came: brokers that were ``lost`` meanwhile count first, then what was heard.

    ``complete`` are all brokers whose retained messages have come.
    """

    lost: frozenset[str]
    news: tuple[BrokerNews, ...]
    heard: tuple[Heard, ...]
    complete: frozenset[str]


class Inbox:
    """Joins the threads of all lines; a byte on ``wake`` says that there is something.

    ``dropped`` counts messages of more topics than :data:`MOST_TOPICS`.
    """

    def __init__(self, wake: socket.socket) -> None:
        self.dropped = 0
        self._wake = wake
        self._lock = threading.Lock()
        self._heard: dict[tuple[str, str], Heard] = {}
        self._news: dict[str, BrokerNews] = {}
        self._lost: set[str] = set()
        self._complete: set[str] = set()

    def put(self, heard: Heard) -> None:
        """Take a message; it replaces one of the same topic that nobody has seen."""
        key = (heard.broker, heard.topic)
        with self._lock:
            if key not in self._heard and len(self._heard) >= MOST_TOPICS:
                self.dropped += 1
                return
            self._heard[key] = heard
        self._ring()

    def tell(self, news: BrokerNews) -> None:
        """Take the news of a broker; what a lost one said of who is there counts no more."""
        with self._lock:
            self._news[news.broker] = news
            if not news.up:
                self._lost.add(news.broker)
                stale = [key for key in self._heard if _says_who_is_there(key, news.broker)]
                for key in stale:
                    del self._heard[key]
        self._ring()

    def finished(self, broker: str) -> None:
        """Take in that all retained messages of a broker have come."""
        with self._lock:
            self._complete.add(broker)
        self._ring()

    def take(self) -> Taken:
        """Return what came since the last call."""
        with self._lock:
            taken = Taken(
                frozenset(self._lost),
                tuple(self._news.values()),
                tuple(self._heard.values()),
                frozenset(self._complete),
            )
            self._lost, self._news, self._heard = set(), {}, {}
        return taken

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake; closed: it has ended
            self._wake.send(b"\0")


def _says_who_is_there(key: tuple[str, str], broker: str) -> bool:
    return key[0] == broker and key[1].endswith("/status")


class Listening:
    """The work of a line that puts what nodes say into an :class:`Inbox`."""

    def __init__(self, broker: str, inbox: Inbox) -> None:
        self._broker = broker
        self._inbox = inbox
        self._phases = Phases(0.0)
        self._told = False

    @property
    def complete(self) -> bool:
        """Whether all that is retained has come on this connection."""
        return self._phases.complete

    def begin(self, _connection: Connection, now_s: float) -> None:
        """Ask for everything anew: what was missed meanwhile is retained."""
        self._phases = Phases(now_s)

    def take(self, notice: Notice, now_s: float) -> None:
        """Pass a message on."""
        if isinstance(notice, Received):
            if notice.retained:
                self._phases.heard(notice.topic, now_s)
            at_s = time.time()
            self._inbox.put(
                Heard(self._broker, notice.topic, notice.payload, notice.retained, at_s)
            )
        elif isinstance(notice, Subscribed):
            self._phases.subscribed(now_s)
            if any(code >= CODE_FAILURE for code in notice.codes):
                self._inbox.tell(BrokerNews(self._broker, up=True, reason=REFUSED))

    def step(self, connection: Connection, now_s: float) -> float:
        """Subscribe to what comes next."""
        wish = self._phases.next(now_s)
        if wish is not None:
            connection.subscribe(*wish.topics, qos=wish.qos)
        elif self._phases.complete and not self._told:
            self._told = True
            self._inbox.finished(self._broker)
        return self._phases.wait_s(now_s)
