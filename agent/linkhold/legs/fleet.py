"""Leg B: the agent's own connection to the fleet's brokers, in one thread.

The agent's loop hands over the newest state and never waits; events come from the outbox's
keeper. At any fault the connection is thrown away, and what was not answered is sent again, in
order and with the same ids, on the next one.
"""

from __future__ import annotations

import contextlib
import random
import select
import socket
import threading
import time
from typing import TYPE_CHECKING

from linkhold.config.access import password_of, tls_of
from linkhold.decide.readings import LegReading
from linkhold.legs.backoff import Backoff
from linkhold.legs.fleet_pace import Timing
from linkhold.legs.fleet_pump import Ledger
from linkhold.legs.fleet_session import NO_ANSWER, Session, Station
from linkhold.legs.fleet_slot import Slot
from linkhold.model import BrokerError
from linkhold.mqtt import Connected, Connection, Lost, Will
from linkhold.wire import status_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.config.brokers import BrokerSettings
    from linkhold.config.settings import MqttSettings
    from linkhold.decide.readings import Reading
    from linkhold.legs.fleet_diagnose import Report
    from linkhold.legs.fleet_feed import Feed
    from linkhold.model import Identity
    from linkhold.mqtt import Received

USER_TIMEOUT_MS = 3000
WILL_DELAY_S = 10
SESSION_EXPIRY_S = WILL_DELAY_S + 5
"""Longer than the will's delay: a broker publishes the will when the session ends (MQTT v5,
3.1.3.2.2), so a session without expiry would announce each lost connection at once."""
MAX_REASON = 300


class FleetLeg:
    """Publishes presence, state and events to the first broker that takes them.

    ``report`` is called in the leg's thread, must not block, and is never called any more once
    :meth:`stop` has returned. ``previous`` is (session, last seq) of the agent before this one.
    ``diagnose`` gets each message of ``cmd/diagnose``, likewise.
    All methods may be called from any thread and only :meth:`stop` waits.
    """

    def __init__(
        self,
        identity: Identity,
        version: str,
        settings: MqttSettings,
        feed: Feed,
        report: Callable[[Reading], None],
        *,
        diagnose: Callable[[Received], None] = lambda _: None,
        previous: tuple[str, int] | None = None,
        timing: Timing | None = None,
        rng: random.Random | None = None,
    ) -> None:
        timing = timing or Timing()
        least_s = max(timing.backoff_least_s, settings.connect_jitter_s)
        self._spread_s = min(least_s, timing.backoff_most_s)
        self._timing = timing
        self._settings = settings
        self._rng = rng or random.Random()  # noqa: S311 -- jitter, no secret
        self._calm = Backoff(self._spread_s, timing.backoff_most_s, timing.stable_s)
        self._backoff = self._calm
        self._ledger = Ledger()
        self._slot = Slot()
        self._said = LegReading("b", "")
        self._shaky = False
        self._up_since_s: float | None = None
        self._report_to = report
        self._diagnose_to = diagnose
        self._reporting = threading.Lock()
        self._muted = False
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_read.setblocking(False)
        self._wake_write.setblocking(False)
        self._station = Station(
            identity,
            version,
            previous,
            feed,
            self._report,
            self._timing,
            self._ledger,
            self._wake,
            tick_s=settings.keepalive_s / 4,
            diagnose=self._diagnose,
        )
        self._thread = threading.Thread(target=self._run, name="leg-b", daemon=True)
        feed.listen(self._news)

    def start(self) -> None:
        """Start connecting; without brokers the leg reports ``off`` and does nothing."""
        if self._settings.fleet:
            self._thread.start()
        else:
            self._say("off", "no broker configured")

    def publish_state(self, cloud_event: bytes, next_seq: int) -> None:
        """Publish this state as soon as possible, unless a newer one comes first.

        ``next_seq`` is the seq that the next event will have; the birth names it.
        """
        self._slot.put_state(cloud_event, next_seq)
        self._wake()

    def publish_report(self, report: Report) -> bool:
        """Publish a report as soon as possible; False when too many wait already."""
        taken = self._slot.reports.put(report)
        self._wake()
        return taken

    def withdraw(self, report: Report) -> None:
        """Do not publish a report that is not on its way yet."""
        self._slot.reports.withdraw(report)

    def hurry(self) -> None:
        """Try now: a link came up. An open connection is tested by publishing the state."""
        self._slot.hurry = True
        self._wake()

    def stop(self, reason: str, timeout_s: float) -> bool:
        """Announce a planned stop, send what is possible and end, within ``timeout_s``.

        Returns False when the thread could not end in time, for instance while it connects: it
        then ends later and unheard, as another leg may be at work by then.
        """
        self._slot.stop_at_s = time.monotonic() + timeout_s * 0.9
        self._slot.stop_reason = reason or "stopped"
        self._wake()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        elif self._thread.ident is None:
            self._close()
        with self._reporting:
            self._muted = True
        return not self._thread.is_alive()

    def counters(self) -> Mapping[str, int]:
        """Return how often things happened since the start."""
        requests = self._ledger.requests
        ignored = {"requests_ignored": requests.ignored, "requests_dropped": requests.dropped}
        return {**self._ledger.counters, **ignored}

    def _news(self) -> None:
        self._slot.news += 1
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it is awake; closed: it has ended
            self._wake_write.send(b"\0")

    def _report(self, reading: Reading) -> None:
        with self._reporting:
            if not self._muted:
                self._report_to(reading)

    def _diagnose(self, message: Received) -> None:
        with self._reporting:
            if not self._muted:
                self._diagnose_to(message)

    def _say(self, status: str, reason: str) -> None:
        reading = LegReading("b", status, reason[:MAX_REASON])
        if reading != self._said:
            self._said = reading
            with contextlib.suppress(Exception):  # the receiver's fault must not end the leg
                self._report(reading)

    # The thread.

    def _run(self) -> None:
        self._say("connecting", "")
        self._pause(self._rng.uniform(0, self._settings.connect_jitter_s))
        while not self._slot.stop_reason:
            self._slot.hurry = False
            up_for_s = self._round()
            self._backoff, most_s = self._backoff.failed(up_for_s)
            self._pause(self._rng.uniform(0, most_s))
        self._say("off", self._slot.stop_reason)
        self._close()

    def _close(self) -> None:
        self._wake_write.close()
        self._wake_read.close()

    def _pause(self, seconds: float) -> None:
        until_s = time.monotonic() + seconds
        hurried = False
        while not self._slot.stop_reason and (left_s := until_s - time.monotonic()) > 0:
            select_readable(self._wake_read, left_s)
            self._drain()
            if self._slot.hurry and not hurried:
                hurried = True
                self._backoff = self._calm  # the past says nothing about the new link
                soon_s = time.monotonic() + self._rng.uniform(0, self._timing.hurry_s)
                until_s = min(until_s, soon_s)

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while self._wake_read.recv(4096):
                pass

    def _round(self) -> float:
        """Try the brokers in order, up to one that served well; return how long one was up.

        A broker that takes connections and does not keep or answer them is passed over like
        one that takes none: else it would keep all others from being tried.
        """
        longest_s = up_for_s = 0.0
        reasons: list[str] = []
        for broker in self._settings.fleet:
            if up_for_s:  # other nodes lost that broker too, and all go on to the next
                self._pause(self._rng.uniform(0, self._spread_s))
            if self._slot.stop_reason:
                break
            place = f"{broker.host}:{broker.tcp_port}"
            up_for_s, reason = self._guarded(broker, place)
            longest_s = max(longest_s, up_for_s)
            served = up_for_s >= self._timing.stable_s
            if served:
                reasons.clear()  # why others did not serve is long ago
            reasons.append(f"{place}: {reason}")
            if served and reason != NO_ANSWER:
                break
            if self._said.status == "up":
                self._say_down(reasons)
        self._say_down(reasons)
        return longest_s

    def _say_down(self, reasons: list[str]) -> None:
        if not self._slot.stop_reason:
            self._say("down", "; ".join(reasons))

    def _guarded(self, broker: BrokerSettings, place: str) -> tuple[float, str]:
        """Return how long a connection was up, 0 without one, and why there is none any more."""
        self._up_since_s = None
        try:
            reason = self._attempt(broker, place)
        except BrokerError as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 -- the leg must outlive every surprise
            self._ledger.counters["errors"] += 1
            reason = f"{type(error).__name__}: {error}"
        return self._up_for_s(), reason

    def _up_for_s(self) -> float:
        if self._up_since_s is None:
            return 0.0
        up_for_s = time.monotonic() - self._up_since_s
        self._shaky = up_for_s < self._timing.stable_s
        if not self._slot.stop_reason:
            self._ledger.counters["losses"] += 1
        return up_for_s

    def _attempt(self, broker: BrokerSettings, place: str) -> str:
        connection = self._connection(broker)
        try:
            connection.open_tcp(broker.host, broker.tcp_port)
            accepted = self._accepted(connection)
            self._up_since_s = time.monotonic()
            self._ledger.counters["connects"] += 1
            return self._serve(connection, accepted, place)
        finally:
            if not connection.ended:
                connection.abandon()

    def _connection(self, broker: BrokerSettings) -> Connection:
        identity = self._station.identity
        return Connection(
            f"linkhold-{identity.site}-{identity.node}",
            keepalive_s=self._settings.keepalive_s,
            will=Will(status_topic(self._station.prefix), b"offline", WILL_DELAY_S),
            username=broker.username or None,
            password=password_of(broker),
            tls=tls_of(broker),
            session_expiry_s=SESSION_EXPIRY_S,
            user_timeout_ms=USER_TIMEOUT_MS,
        )

    def _accepted(self, connection: Connection) -> Connected:
        until_s = time.monotonic() + self._timing.connack_s
        while (left_s := until_s - time.monotonic()) > 0 and not self._slot.stop_reason:
            for notice in connection.service(min(1.0, left_s), self._wake_read.fileno()):
                if isinstance(notice, Connected):
                    return notice
                if isinstance(notice, Lost):
                    raise BrokerError(notice.reason)
            self._drain()
        raise BrokerError(NO_ANSWER)

    def _serve(self, connection: Connection, accepted: Connected, place: str) -> str:
        now_s = time.monotonic()
        session = Session(self._station, self._slot, connection, accepted, now_s)
        try:
            session.begin(now_s)
            while True:
                self._say_up(session, place, now_s)
                session.step(now_s)
                if session.over:
                    return self._end(connection, session.over)
                notices = connection.service(session.wait_s(now_s), self._wake_read.fileno())
                now_s = time.monotonic()
                self._drain()
                for notice in notices:
                    if isinstance(notice, Lost):
                        return notice.reason
                    session.handle(notice)
        finally:
            session.end()

    def _say_up(self, session: Session, place: str, now_s: float) -> None:
        if session.proven(self._timing.settle_s if self._shaky else 0.0, now_s):
            reading = session.reading(place)
            self._say(reading.status, reading.reason)

    def _end(self, connection: Connection, reason: str) -> str:
        if self._slot.stop_reason:
            connection.close()  # takes the will back; a connection that hangs keeps it
        return reason


def select_readable(sock: socket.socket, timeout_s: float) -> None:
    """Wait until ``sock`` has something to read, at most ``timeout_s``."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.poll(timeout_s * 1000)
