"""Power sensors on MQTT: one thread for the sensors of one broker, or of the fleet's in order.

Nothing is ever published. A message is judged here, so that a flood costs this thread its time and
the agent's loop none: it takes at most :data:`RATE` messages a second from the socket, and hands
over in bunches. The broker holds back the rest, or drops it.
"""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from linkhold.decide.power.meaning import What, meaning
from linkhold.decide.power.values import Said
from linkhold.decide.power.wanted import matches, said
from linkhold.model import BrokerError
from linkhold.model.power_sources import SensorMessage
from linkhold.mqtt import CODE_FAILURE, Connected, Lost, Received, Subscribed

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from linkhold.config.power import SensorSettings
    from linkhold.mqtt import Connection, Notice

RATE = 100
"""Messages a second that are read; a site's sensors send a few a minute."""
MAX_WAITING = 256
"""Judged messages that may wait for the agent's loop; the oldest are dropped and counted."""
ANSWER_S = 10.0
RETRY_S, RETRY_MAX_S, STABLE_S = 1.0, 60.0, 30.0


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker: ``place`` for people, and how to connect.

    ``connect`` raises BrokerError with the reason; it may block for some seconds.
    """

    place: str
    connect: Callable[[], Connection]


class MqttPowerSensor:
    """Listens to the sensors of one broker, the first of ``brokers`` that takes us.

    ``report`` is called on ``loop``, never again after :meth:`stop`. ``spread_s`` is the most that
    a first connect waits, so that a fleet does not storm; ``tick_s`` a fraction of the keepalive.
    ``counters``: power_mqtt_connects,
    power_mqtt_losses, power_mqtt_messages, power_mqtt_dropped, power_mqtt_errors.
    """

    def __init__(
        self,
        brokers: Sequence[Broker],
        sensors: Sequence[SensorSettings],
        loop: asyncio.AbstractEventLoop,
        report: Callable[[Said], object],
        *,
        spread_s: float = 0.0,
        tick_s: float = 1.0,
        rng: random.Random | None = None,
    ) -> None:
        self.counters: Counter[str] = Counter(
            power_mqtt_connects=0,
            power_mqtt_losses=0,
            power_mqtt_messages=0,
            power_mqtt_dropped=0,
        )
        self._brokers = tuple(brokers)
        self._sensors = tuple(sensors)
        self._loop = loop
        self._report = report
        self._spread_s = spread_s
        self._tick_s = tick_s
        self._rng = rng or random.Random()  # noqa: S311 -- jitter, no secret
        self._waiting: deque[Said] = deque(maxlen=MAX_WAITING)
        self._handing = threading.Lock()
        self._scheduled = False
        self._stopped = threading.Event()
        self._wake_read, self._wake_write = socket.socketpair()
        self._wake_write.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="power-mqtt", daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def stop(self) -> None:
        """End soon. Nothing is waited for: the thread may be connecting to a host that is away."""
        self._stopped.set()
        with contextlib.suppress(OSError):
            self._wake_write.send(b"\0")

    # The thread.

    def _run(self) -> None:
        self._pause(self._rng.uniform(0, self._spread_s))
        failures = 0
        while not self._stopped.is_set():
            up_for_s = self._round()
            failures = 0 if up_for_s >= STABLE_S else failures + 1
            most_s = min(RETRY_MAX_S, RETRY_S * 2.0 ** min(max(failures - 1, 0), 6))
            # Full jitter, and a little at least: a broker that drops us at once is no reason to
            # come at once.
            self._pause(self._rng.uniform(0.1, max(most_s, self._spread_s)))
        self._wake_read.close()
        self._wake_write.close()

    def _pause(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def _round(self) -> float:
        """Try the brokers in order, up to one that serves; return how many seconds one did."""
        reasons: list[str] = []
        up_for_s = 0.0
        for broker in self._brokers:
            if self._stopped.is_set():
                break
            began_s = time.monotonic()
            reasons.append(f"{broker.place}: {self._guarded(broker)}")
            up_for_s = time.monotonic() - began_s
            if up_for_s >= STABLE_S:
                break
        self._lost(reasons)
        return up_for_s

    def _guarded(self, broker: Broker) -> str:
        """Connect and listen; return why that ended. The thread outlives every surprise."""
        try:
            connection = broker.connect()
        except BrokerError as error:
            return str(error)
        try:
            return self._serve(connection)
        except Exception as error:  # noqa: BLE001 -- whatever it was, the next try may do
            self.counters["power_mqtt_errors"] += 1
            return f"{type(error).__name__}: {error}"
        finally:
            connection.abandon()

    def _lost(self, reasons: list[str]) -> None:
        """Tell that nobody can be heard: what sensors said before is no news of now."""
        why = f"its broker is not reached ({'; '.join(reasons)})"[:300]
        for sensor in self._sensors:
            self._hand(Said(sensor.name, meaning(What.COMM_LOST, why)))

    def _serve(self, connection: Connection) -> str:
        """Subscribe and listen until the connection ends; return why it did."""
        reason = self._accepted(connection)
        if reason:
            return reason
        self.counters["power_mqtt_connects"] += 1
        topics = sorted({topic for one in self._sensors for topic in _topics(one)})
        connection.subscribe(*topics)
        bucket, filled_s = float(RATE), time.monotonic()
        while not self._stopped.is_set():
            now_s = time.monotonic()
            bucket, filled_s = min(RATE, bucket + (now_s - filled_s) * RATE), now_s
            if bucket < 1:
                self._pause(1 / RATE)
                continue
            for notice in connection.service(self._tick_s, self._wake_read.fileno()):
                if isinstance(notice, Lost):
                    self.counters["power_mqtt_losses"] += 1
                    return notice.reason
                if isinstance(notice, Received):
                    bucket -= 1
                self._handle(notice, topics)
        connection.close()
        return "stopped"

    def _accepted(self, connection: Connection) -> str:
        until_s = time.monotonic() + ANSWER_S
        while (left_s := until_s - time.monotonic()) > 0 and not self._stopped.is_set():
            for notice in connection.service(left_s, self._wake_read.fileno()):
                if isinstance(notice, Connected):
                    return ""
                if isinstance(notice, Lost):
                    return notice.reason
        return "no answer"

    def _handle(self, notice: Notice, topics: Sequence[str]) -> None:
        if isinstance(notice, Received):
            self.counters["power_mqtt_messages"] += 1
            message = SensorMessage(notice.topic, notice.payload, notice.retained)
            for sensor in self._sensors:
                if any(matches(pattern, notice.topic) for pattern in _topics(sensor)):
                    self._hand(said(sensor, message))
        elif isinstance(notice, Subscribed):
            refused = {
                topic
                for topic, code in zip(topics, notice.codes, strict=False)
                if code >= CODE_FAILURE
            }
            for sensor in self._sensors:
                if found := refused & set(_topics(sensor)):
                    why = f"the broker refuses the topic {min(found)}: its ACL"
                    self._hand(Said(sensor.name, meaning(What.COMM_LOST, why)))

    def _hand(self, what: Said) -> None:
        """Queue for the loop, which is called once for all that waits."""
        with self._handing:
            self.counters["power_mqtt_dropped"] += len(self._waiting) == MAX_WAITING
            self._waiting.append(what)
            if self._scheduled or self._stopped.is_set():
                return
            self._scheduled = True
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take)

    # The loop.

    def _take(self) -> None:
        with self._handing:
            waiting = list(self._waiting)
            self._waiting.clear()
            self._scheduled = False
        for what in waiting:
            if not self._stopped.is_set():
                self._report(what)


def _topics(sensor: SensorSettings) -> tuple[str, ...]:
    return (*sensor.topics, sensor.status_topic) if sensor.status_topic else sensor.topics
