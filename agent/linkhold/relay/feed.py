"""One broker of the fleet, in a thread: what it sends goes to the relay, acknowledgements back.

A message is acknowledged only when the relay says so, after the sink accepted what it led to.
The broker sends no more than :data:`RECEIVE_MAXIMUM` that are not, which bounds the queue.
"""

from __future__ import annotations

import contextlib
import queue
import random
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.config.access import password_of, tls_of
from linkhold.model import BrokerError, WireError
from linkhold.mqtt import (
    CODE_FAILURE,
    Acknowledged,
    Connected,
    Connection,
    Lost,
    Received,
    Subscribed,
)
from linkhold.relay.decide.retained import Retained
from linkhold.relay.decide.values import BrokerSeen, Heard, Status
from linkhold.relay.messages import read, subscriptions
from linkhold.relay.roll_call import RollCall
from linkhold.wire import command_topic, node_prefix

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.config.brokers import BrokerSettings
    from linkhold.mqtt import Notice
    from linkhold.relay.decide.values import Key

RECEIVE_MAXIMUM = 200
SESSION_EXPIRY_S = 7 * 86400
"""As long as nodes keep their events: a relay that was away that long gets what it missed."""
CONNACK_S = 10.0
KEEPALIVE_S = 15
USER_TIMEOUT_MS = 10_000
TICK_S = 1.0
BACKOFF_S = (0.5, 1.0, 2.0, 5.0, 10.0)
MOST_OUTGOING = 5000
MOST_WORDS = 300


@dataclass(frozen=True, slots=True)
class Receipt:
    """What acknowledges one message: the connection it came on, and its number there."""

    feed: Feed
    generation: int
    mid: int

    def give(self) -> None:
        """Let the broker forget the message."""
        self.feed.acknowledge(self.generation, self.mid)


@dataclass(frozen=True, slots=True)
class Delivery:
    """What a broker sent, None for something that says nothing, and the receipt for it.

    ``complete`` names a broker of which all that it keeps has been delivered.
    """

    heard: Heard | BrokerSeen | None
    receipt: Receipt | None = None
    damaged: str = ""
    complete: str = ""


class Feed:
    """Keeps one connection to a broker. ``deliver`` is called in the feed's thread.

    With ``keep`` the broker keeps the session, and what comes for it, while nobody is connected.
    ``commands_heard`` is shared by all feeds (see :class:`RollCall`).
    """

    def __init__(
        self,
        name: str,
        settings: BrokerSettings,
        deliver: Callable[[Delivery], None],
        *,
        keep: bool = True,
        commands_heard: threading.Event | None = None,
    ) -> None:
        self.broker = f"{settings.host}:{settings.tcp_port}"
        self._client_id = f"linkhold-relay-{name}"
        self._settings = settings
        self._deliver = deliver
        self._session_expiry_s = SESSION_EXPIRY_S if keep else 0
        self._generation = 0
        self._heard = commands_heard or threading.Event()
        self._roll_call = RollCall(self._heard)
        self._retained = Retained(0.0)
        self._errands: queue.SimpleQueue[Callable[[Connection], None]] = queue.SimpleQueue()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed {self.broker}", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End the connection; the broker keeps the session and what comes for it."""
        self._stopping.set()
        self._wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        elif self._thread.ident is None:
            self._close()

    def acknowledge(self, generation: int, mid: int) -> None:
        """Acknowledge a message, unless its connection is over: then it comes again."""

        def errand(connection: Connection) -> None:
            if generation == self._generation:
                connection.acknowledge(mid)

        self._send(errand)

    def publish(self, topic: str, payload: bytes, expiry_s: int) -> None:
        """Publish a request soon; one that finds no connection is dropped: it is asked again."""

        def errand(connection: Connection) -> None:
            with contextlib.suppress(BrokerError):
                connection.publish(topic, payload, qos=1, expiry_s=expiry_s)

        if self._errands.qsize() < MOST_OUTGOING:
            self._send(errand)

    def check(self, key: Key, *, learn: bool = False) -> None:
        """Find out whether a node is connected; it is delivered as online or offline.

        The command is an empty one, which agents ignore. With ``learn`` the node is there, and
        the answer only tells whether nodes hear commands at all.
        """

        def errand(connection: Connection) -> None:
            topic = command_topic(node_prefix(*key), "replay")
            with contextlib.suppress(BrokerError):
                mid = connection.publish(topic, b"{}", qos=1, expiry_s=1)
                self._roll_call.asked(mid, None if learn else key)

        self._send(errand)

    def refresh(self) -> None:
        """Ask for all that the broker keeps once more."""

        def errand(_connection: Connection) -> None:
            if self._retained.complete:
                self._retained = Retained(time.monotonic())

        self._send(errand)

    def _send(self, errand: Callable[[Connection], None]) -> None:
        self._errands.put(errand)
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake
            self._wake_write.send(b"\0")

    # The thread.

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            reason = self._guarded()
            lasted = time.monotonic() - began_s > BACKOFF_S[-1] * 3
            failures = 0 if lasted else min(failures + 1, len(BACKOFF_S) - 1)
            self._deliver(Delivery(BrokerSeen(self.broker, up=False, reason=reason[:MOST_WORDS])))
            self._pause(random.uniform(0.5, 1) * BACKOFF_S[failures])  # noqa: S311 -- jitter
        self._close()

    def _close(self) -> None:
        self._wake_read.close()
        self._wake_write.close()

    def _pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        while not self._stopping.is_set() and (left_s := until_s - time.monotonic()) > 0:
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            poll.poll(left_s * 1000)
            self._drain()
            self._forget()

    def _forget(self) -> None:
        """Drop errands of a connection that is over."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._errands.get_nowait()

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while self._wake_read.recv(4096):
                pass

    def _guarded(self) -> str:
        """Serve one connection; return why it is over."""
        try:
            return self._attempt()
        except BrokerError as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 -- the feed must outlive every surprise
            return f"{type(error).__name__}: {error}"

    def _attempt(self) -> str:
        connection = self._connection()
        self._generation += 1
        self._forget()
        self._roll_call = RollCall(self._heard)
        try:
            connection.open_tcp(self._settings.host, self._settings.tcp_port)
            self._until(connection, Connected)
            connection.subscribe(*subscriptions(), retained=False)
            answer = self._until(connection, Subscribed)
            if isinstance(answer, Subscribed) and max(answer.codes) >= CODE_FAILURE:
                raise BrokerError("it refuses the subscription; the relay must read linkhold/v1/#")
            self._deliver(Delivery(BrokerSeen(self.broker, up=True)))
            self._retained = Retained(time.monotonic())
            return self._serve(connection)
        finally:
            if not connection.ended:
                connection.close() if self._stopping.is_set() else connection.abandon()

    def _connection(self) -> Connection:
        return Connection(
            self._client_id,
            keepalive_s=KEEPALIVE_S,
            username=self._settings.username or None,
            password=password_of(self._settings),
            tls=tls_of(self._settings),
            session_expiry_s=self._session_expiry_s,
            user_timeout_ms=USER_TIMEOUT_MS,
            receive_maximum=RECEIVE_MAXIMUM,
        )

    def _until(self, connection: Connection, kind: type[Notice]) -> Notice:
        """Wait for one answer; what a kept session sends before it is taken too."""
        until_s = time.monotonic() + CONNACK_S
        found: Notice | None = None
        while found is None and time.monotonic() < until_s and not self._stopping.is_set():
            for notice in connection.service(TICK_S, self._wake_read.fileno()):
                if isinstance(notice, Lost):
                    raise BrokerError(notice.reason)
                if isinstance(notice, kind):
                    found = notice
                else:
                    self._take(notice)
            self._drain()
            self._run_errands(connection)
        if found is None:
            raise BrokerError("no answer")
        return found

    def _serve(self, connection: Connection) -> str:
        while not self._stopping.is_set():
            self._fetch(connection)
            wait_s = min(TICK_S, self._retained.wait_s(time.monotonic()))
            for notice in connection.service(wait_s, self._wake_read.fileno()):
                if isinstance(notice, Lost):
                    return notice.reason
                self._take(notice)
            self._call()
            self._drain()
            self._run_errands(connection)
        return "the relay ends"

    def _call(self) -> None:
        """Deliver who was found to be there, or not."""
        called = (
            *((key, Status(online=True)) for key in self._roll_call.present()),
            *((key, Status(online=False)) for key in self._roll_call.absent()),
        )
        for key, status in called:
            self._deliver(Delivery(Heard(self.broker, key, retained=False, body=status)))

    def _fetch(self, connection: Connection) -> None:
        """Ask for the next part of what the broker keeps, until all of it has come."""
        if self._retained.complete:
            return
        while (demand := self._retained.next(time.monotonic())) is not None:
            if demand.end:
                connection.unsubscribe(*demand.topics)
            else:
                connection.subscribe(*demand.topics, qos=demand.qos, retained=demand.retained)
        if self._retained.complete:
            self._deliver(Delivery(None, complete=self.broker))

    def _run_errands(self, connection: Connection) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._errands.get_nowait()(connection)

    def _take(self, notice: Notice) -> None:
        if isinstance(notice, Acknowledged):
            self._roll_call.answered(notice.mid, notice.code)
        if isinstance(notice, Subscribed):
            self._retained.answered(time.monotonic())
        if not isinstance(notice, Received):
            return
        receipt = Receipt(self, self._generation, notice.mid) if notice.mid else None
        try:
            heard = read(notice, self.broker)
            if heard is not None and notice.retained:
                self._retained.heard(heard.key, notice.topic.rpartition("/")[2], time.monotonic())
            elif heard is not None:
                self._roll_call.spoke(heard.key)
            self._deliver(Delivery(heard, receipt))
        except WireError as error:
            self._deliver(Delivery(None, receipt, str(error)))
