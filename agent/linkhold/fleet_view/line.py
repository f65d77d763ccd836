"""The connection to one broker, in a thread of its own: lost, it is made again without end."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import select
import socket
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from linkhold.config.access import password_of, tls_of
from linkhold.fleet_view.brokers import place_of
from linkhold.fleet_view.words import printable
from linkhold.model import BrokerError
from linkhold.mqtt import Connected, Connection, Lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.config.brokers import BrokerSettings
    from linkhold.mqtt import Notice

CONNACK_S = 10.0
KEEPALIVE_S = 15
USER_TIMEOUT_MS = 10_000
LEAST_PAUSE_S, MOST_PAUSE_S = 0.5, 30.0
TICK_S = 1.0


@dataclass(frozen=True, slots=True)
class BrokerNews:
    """A connection began (``up``) or ended, or could not be made, for this reason."""

    broker: str
    up: bool
    reason: str = ""


class Work(Protocol):
    """What is done on a connection; everything is called in the line's thread."""

    def begin(self, connection: Connection, now_s: float) -> None:
        """Start on a new connection."""

    def take(self, notice: Notice, now_s: float) -> None:
        """Take in what happened on it."""

    def step(self, connection: Connection, now_s: float) -> float:
        """Do what can be done now; return in how many seconds to be called again."""


class Line:
    """Keeps a connection to ``broker`` and has ``work`` use it.

    ``tell`` is called in the line's thread with each :class:`BrokerNews`. ``what`` becomes a part
    of the client id.
    """

    def __init__(
        self,
        broker: BrokerSettings,
        work: Work,
        tell: Callable[[BrokerNews], None],
        what: str,
        *,
        rng: random.Random | None = None,
    ) -> None:
        self.place = place_of(broker)
        self._broker = broker
        self._work = work
        self._tell = tell
        self._client_id = f"linkhold-{what}-{socket.gethostname()[:32]}-{os.getpid()}-"
        self._rng = rng or random.Random()  # noqa: S311 -- jitter, no secret
        self._stopping = False
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._thread = threading.Thread(target=self._run, name=f"line {self.place}", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def stop(self, timeout_s: float = 1.0) -> None:
        """Disconnect and end; a thread that hangs in a connect ends with the process."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._wake_write.send(b"\0")
        self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = LEAST_PAUSE_S
        while not self._stopping:
            began_s = time.monotonic()
            try:
                reason = self._serve()
            except BrokerError as error:
                reason = str(error)
            except Exception as error:  # noqa: BLE001 -- the line must outlive every surprise
                reason = f"{type(error).__name__}: {error}"
            if not self._stopping:
                self._tell(BrokerNews(self.place, up=False, reason=printable(reason, 200)))
                held_s = time.monotonic() - began_s
                pause_s = LEAST_PAUSE_S if held_s > MOST_PAUSE_S else min(pause_s * 2, MOST_PAUSE_S)
                self._pause(self._rng.uniform(LEAST_PAUSE_S, pause_s))

    def _pause(self, seconds: float) -> None:
        poll = select.poll()
        poll.register(self._wake_read, select.POLLIN)
        poll.poll(seconds * 1000)

    def _serve(self) -> str:
        """Connect and work until the connection ends; return why it did."""
        connection = Connection(
            self._client_id + secrets.token_hex(4),
            keepalive_s=KEEPALIVE_S,
            username=self._broker.username or None,
            password=password_of(self._broker),
            tls=tls_of(self._broker),
            user_timeout_ms=USER_TIMEOUT_MS,
        )
        try:
            connection.open_tcp(self._broker.host, self._broker.tcp_port)
            self._accepted(connection)
            self._tell(BrokerNews(self.place, up=True))
            return self._work_on(connection)
        finally:
            connection.close()

    def _accepted(self, connection: Connection) -> None:
        until_s = time.monotonic() + CONNACK_S
        while (left_s := until_s - time.monotonic()) > 0 and not self._stopping:
            for notice in connection.service(min(TICK_S, left_s), self._wake_read.fileno()):
                if isinstance(notice, Connected):
                    return
                if isinstance(notice, Lost):
                    raise BrokerError(notice.reason)
        raise BrokerError("no answer")

    def _work_on(self, connection: Connection) -> str:
        self._work.begin(connection, time.monotonic())
        while not self._stopping:
            wait_s = min(TICK_S, self._work.step(connection, time.monotonic()))
            notices = connection.service(wait_s, self._wake_read.fileno())
            now_s = time.monotonic()
            for notice in notices:
                if isinstance(notice, Lost):
                    return notice.reason
                self._work.take(notice, now_s)
        return "stopped"
