"""Leg A: state and events to the training processes of this node, over the node's own broker.

Everything runs in the agent's event loop; the only thing that may block, connecting, is done
in a thread. Only the newest state matters, so a broker that does not read costs nothing but a
flag: what could not be sent is sent when it reads again.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING

from linkhold.decide.readings import LegReading
from linkhold.legs.backoff import Backoff
from linkhold.legs.broker import BrokerFiles
from linkhold.legs.broker_process import OwnBroker, UnitBroker
from linkhold.model import BrokerError, Unavailable
from linkhold.mqtt import Acknowledged, Connected, Connection, Lost, Will
from linkhold.threads import in_thread
from linkhold.wire import CONTENT_TYPE, birth_topic, event_topic, state_topic, status_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from linkhold.decide.readings import Reading

MAX_WAITING_EVENTS = 256
LAST_WORDS_S = 0.05
"""A process that dies closes its sockets before anybody can wait for it."""
FAREWELL_S = 0.02
"""For trainers to read the farewell before the broker goes."""
MISSING_WAIT_S = 30.0
"""mosquitto may be installed, or an upgrade of it end, while the agent runs."""
HUNG_AFTER_S = 2.5
"""A broker on this machine that leaves a publication unanswered this long is hung: kill it."""
WILL_DELAY_S = 10


class LocalLeg:
    """Runs the broker, or uses that of systemd, and keeps the retained state in it true.

    ``report`` receives a :class:`LegReading` at each change of health; ``birth`` makes the
    retained birth document of the session. All methods belong to the event loop's thread.
    """

    def __init__(
        self,
        run_dir: Path,
        prefix: str,
        report: Callable[[Reading], None],
        birth: Callable[[], bytes] | None = None,
        *,
        by_unit: bool = False,
    ) -> None:
        self._files = BrokerFiles(run_dir)
        self._broker = UnitBroker(self._files) if by_unit else OwnBroker(self._files)
        self._prefix = prefix
        self._report = report
        self._birth = birth
        self._status: LegReading | None = None
        self._connection: Connection | None = None
        self._watched = -1
        self._up = False
        self._state: bytes | None = None
        self._dirty = False
        self._unanswered: dict[int, float] = {}
        self._state_mid = 0
        self._events: deque[tuple[str, bytes]] = deque(maxlen=MAX_WAITING_EVENTS)
        self._task: asyncio.Task[None] | None = None
        self._trouble = ""
        self._broken = False
        self.counters = {"leg_a_restarts": 0, "leg_a_dropped_events": 0}

    def start(self) -> None:
        """Begin to run the broker; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        backoff = Backoff(first_s=0.2, most_s=10.0)
        while True:
            began = time.monotonic()
            status, reason = await self._attempt()
            self._say(status, reason)
            backoff, wait_s = backoff.failed(time.monotonic() - began)
            if status == "unavailable":
                wait_s = MISSING_WAIT_S
            else:
                self.counters["leg_a_restarts"] += 1
            await asyncio.sleep(wait_s)

    async def _attempt(self) -> tuple[str, str]:
        """Run a broker as long as it lives; return what is the matter then, and why."""
        try:
            return "down", await self._live()
        except Unavailable as missing:
            return "unavailable", str(missing)
        except (OSError, BrokerError) as error:
            return "down", str(error)
        except Exception as error:  # noqa: BLE001 - the leg must outlive every surprise
            return "down", f"{type(error).__name__}: {error}"

    def _say(self, status: str, reason: str = "") -> None:
        reading = LegReading("a", status, reason)
        if reading != self._status:
            self._status = reading
            # Not called from here: what goes wrong in it must not end the leg.
            asyncio.get_running_loop().call_soon(self._report, reading)

    async def _live(self) -> str:
        try:
            return await self._serve()
        finally:
            self._drop_connection()
            await self._broker.end(broken=self._broken)

    async def _serve(self) -> str:
        """Start broker and connection, serve until one of them ends, return why."""
        self._trouble, self._broken = "", False
        await self._broker.start()
        await self._connect()
        await self._broker.ended.wait()
        await asyncio.sleep(LAST_WORDS_S)
        return self._broker.why_ended() or self._trouble

    async def _connect(self) -> None:
        # The client id is a secret: whoever knew it could disconnect the agent by taking it.
        connection = Connection(
            secrets.token_hex(16),
            unix=True,
            will=Will(status_topic(self._prefix), b"offline", WILL_DELAY_S),
        )
        await in_thread(lambda: connection.open_unix(self._files.agent_socket))
        self._connection = connection
        # A copy that only we close: paho closes its own descriptor when a publication fails, and
        # the number may be somebody else's before the loop forgets it.
        self._watched = os.dup(connection.fileno())
        asyncio.get_running_loop().add_reader(self._watched, self._readable)
        self._unanswered = {0: time.monotonic()}  # 0 stands for the CONNACK

    def _readable(self) -> None:
        if self._connection is not None:
            self._connection.read()
            self._take_notices()
            self._flush()

    def _take_notices(self) -> None:
        for notice in self._connection.take() if self._connection else ():
            if isinstance(notice, Acknowledged):
                self._unanswered.pop(notice.mid, None)
                if notice.mid == self._state_mid:
                    self._state_mid = 0
                    self._send_events()
            elif isinstance(notice, Connected):
                self._unanswered.pop(0, None)
                self._welcome()
            elif isinstance(notice, Lost):
                self._drop_connection()
                self._give_up(f"the connection to the broker was lost: {notice.reason}")

    def _welcome(self) -> None:
        self._up = True
        self._dirty = self._state is not None
        self._broker.serves()
        self._say("up", self._broker.lacks)
        self._send(status_topic(self._prefix), b"online", retain=True)
        if self._birth is not None:
            self._send(birth_topic(self._prefix), self._birth(), retain=True)

    def beat(self) -> None:
        """Keep the connection alive and look whether the broker still does its work.

        For the agent's heartbeat, which comes after a publication: an idle node then wakes for
        both at once. A broker that left one heartbeat unanswered until the next is hung.
        """
        if self._connection is None:
            return
        self._connection.tick()
        self._readable()
        oldest = next(iter(self._unanswered.values()), None)
        if oldest is not None and time.monotonic() - oldest > HUNG_AFTER_S:
            self._give_up("the broker does not answer", broken=True)
        elif not self._files.sockets_exist():
            self._give_up("the broker's sockets were removed", broken=True)

    def _give_up(self, why: str, *, broken: bool = False) -> None:
        self._trouble, self._broken = why, broken
        self._broker.ended.set()

    def publish_state(self, cloud_event: bytes) -> None:
        """Publish the retained state, now or as soon as the broker can take it."""
        self._state = cloud_event
        self._dirty = True
        self._flush()

    def publish_events(self, events: Sequence[tuple[str, bytes]]) -> None:
        """Publish (type, CloudEvent) pairs; dropped and counted when the broker cannot take them.

        Trainers act on state only: events follow once the broker has taken the state, lest they
        delay it on its way to the trainers.
        """
        surplus = len(self._events) + len(events) - MAX_WAITING_EVENTS
        self.counters["leg_a_dropped_events"] += max(0, surplus)
        self._events.extend(events)
        if not self._state_mid:
            self._send_events()

    def _send_events(self) -> None:
        while self._events:
            kind, payload = self._events.popleft()
            if not self._up or not self._send(event_topic(self._prefix, kind), payload):
                self.counters["leg_a_dropped_events"] += 1

    def _flush(self) -> None:
        connection = self._connection
        if not (self._dirty and self._up and connection and self._state):
            return
        if connection.wants_write:
            connection.tick()
        if not connection.wants_write:
            self._state_mid = self._send(state_topic(self._prefix), self._state, retain=True)
            self._dirty = not self._state_mid

    def _send(self, topic: str, payload: bytes, *, retain: bool = False) -> int:
        """Publish and return the mid, which is never 0; 0 when the broker does not take it."""
        if self._connection is None:
            return 0
        try:
            mid = self._connection.publish(
                topic, payload, qos=1, retain=retain, content_type=CONTENT_TYPE
            )
        except BrokerError:
            self._take_notices()  # a lost connection does not always wake the loop
            return 0
        self._unanswered[mid] = time.monotonic()
        return mid

    def _drop_connection(self) -> None:
        watched, self._watched = self._watched, -1
        connection, self._connection = self._connection, None
        self._up, self._unanswered, self._state_mid = False, {}, 0
        if watched >= 0:
            asyncio.get_running_loop().remove_reader(watched)
            os.close(watched)
        if connection is not None:
            connection.abandon()

    async def stop(self) -> None:
        """Say goodbye and end the broker, if it is ours, within half a second."""
        self._send(status_topic(self._prefix), b"offline", retain=True)
        await asyncio.sleep(FAREWELL_S)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._broker.stop()
