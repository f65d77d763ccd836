"""Leg A: state and events to the training processes of this node, over the node's own broker.

Everything runs in the agent's event loop; the only thing that may block, connecting, is done
in a thread. Only the newest state matters, so a broker that does not read costs nothing but a
flag: what could not be sent is sent when it reads again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import time
from typing import TYPE_CHECKING

from linkhold.children import Child, kill_leftovers
from linkhold.decide.readings import LegReading
from linkhold.legs.backoff import Backoff
from linkhold.legs.broker import (
    BrokerFiles,
    broker_user,
    find_mosquitto,
    open_to_trainers,
    write_files,
)
from linkhold.model import BrokerError, Unavailable
from linkhold.mqtt import Acknowledged, Connected, Connection, Lost, Will
from linkhold.threads import in_thread
from linkhold.wire import CONTENT_TYPE, event_topic, state_topic, status_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from linkhold.decide.readings import Reading

SOCKET_WAIT_S = 5.0
SOCKET_POLL_S = 0.02
LEFTOVER_WAIT_S = 2.0
MISSING_WAIT_S = 30.0
"""mosquitto may be installed, or an upgrade of it end, while the agent runs."""
HUNG_AFTER_S = 2.5
"""A broker on this machine that leaves a publication unanswered this long is hung: kill it."""
WILL_DELAY_S = 10
STAMP = re.compile(r"^\d+: ")
"""What mosquitto puts before a line until it has read that it should not."""


class LocalLeg:
    """Runs the broker and keeps the retained state in it true.

    ``report`` receives a :class:`LegReading` at each change of health. All methods belong to
    the event loop's thread.
    """

    def __init__(self, run_dir: Path, prefix: str, report: Callable[[Reading], None]) -> None:
        self._files = BrokerFiles(run_dir)
        self._prefix = prefix
        self._report = report
        self._status: LegReading | None = None
        self._child: Child | None = None
        self._connection: Connection | None = None
        self._registered = -1
        self._up = False
        self._state: bytes | None = None
        self._dirty = False
        self._unanswered: dict[int, float] = {}
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._trouble = ""
        self.counters = {"leg_a_restarts": 0, "leg_a_dropped_events": 0}
        self.listeners = ""

    def start(self) -> None:
        """Begin to run the broker; returns at once."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        backoff = Backoff(first_s=0.2, most_s=10.0)
        while True:
            began = time.monotonic()
            status, reason = await self._attempt()
            self._end_broker()
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
            self._report(reading)

    async def _live(self) -> str:
        """Start broker and connection, serve until one of them ends, return why."""
        binary, user = find_mosquitto(), broker_user()
        await self._clear_leftovers()
        write_files(self._files, user)
        self._ended = ended = asyncio.Event()  # a former broker may end later than we begin
        configuration = str(self._files.configuration)
        self._child = Child([binary, "-c", configuration], lambda _code: ended.set(), user=user)
        await self._wait_for_sockets()
        self.listeners = open_to_trainers(self._files)
        await self._connect()
        self._trouble = ""
        await self._ended.wait()
        return self._trouble or self._last_words()

    async def _clear_leftovers(self) -> None:
        find = in_thread(lambda: kill_leftovers("mosquitto", self._files.configuration))
        with contextlib.suppress(asyncio.TimeoutError):  # /proc may hang behind a hung process
            await asyncio.wait_for(find, LEFTOVER_WAIT_S)

    def _last_words(self) -> str:
        lines = self._child.last_lines if self._child else ()
        if not lines:
            return "the broker ended"
        return f"the broker ended: {STAMP.sub('', lines[-1])}"

    async def _wait_for_sockets(self) -> None:
        deadline = time.monotonic() + SOCKET_WAIT_S
        while not self._files.sockets_exist():
            if self._ended.is_set():
                raise BrokerError(self._last_words())
            if time.monotonic() > deadline:
                raise BrokerError("the broker made no sockets")
            await asyncio.sleep(SOCKET_POLL_S)

    async def _connect(self) -> None:
        # The client id is a secret: whoever knew it could disconnect the agent by taking it.
        connection = Connection(
            secrets.token_hex(16),
            unix=True,
            will=Will(status_topic(self._prefix), b"offline", WILL_DELAY_S),
        )
        await in_thread(lambda: connection.open_unix(self._files.agent_socket))
        self._connection = connection
        self._registered = connection.fileno()
        asyncio.get_running_loop().add_reader(self._registered, self._readable)
        self._unanswered = {0: time.monotonic()}  # 0 stands for the CONNACK

    def _readable(self) -> None:
        connection = self._connection
        if connection is None:
            return
        connection.read()
        for notice in connection.take():
            if isinstance(notice, Acknowledged):
                self._unanswered.pop(notice.mid, None)
            elif isinstance(notice, Connected):
                self._unanswered.pop(0, None)
                self._welcome()
            elif isinstance(notice, Lost):
                self._drop_connection()
                self._ended.set()
        self._flush()

    def _welcome(self) -> None:
        self._up = True
        self._say("up")
        self._send(status_topic(self._prefix), b"online", retain=True)
        self._dirty = self._state is not None

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
            self._give_up_on_broker("the broker does not answer")
        elif not self._files.sockets_exist():
            self._give_up_on_broker("the broker's sockets were removed")

    def _give_up_on_broker(self, why: str) -> None:
        self._trouble = why
        self._ended.set()

    def publish_state(self, cloud_event: bytes) -> None:
        """Publish the retained state, now or as soon as the broker can take it."""
        self._state = cloud_event
        self._dirty = True
        self._flush()

    def publish_events(self, events: Sequence[tuple[str, bytes]]) -> None:
        """Publish (type, CloudEvent) pairs; dropped and counted when the broker cannot take them.

        Trainers act on state only, so nothing depends on these.
        """
        for kind, payload in events:
            if not self._up or not self._send(event_topic(self._prefix, kind), payload):
                self.counters["leg_a_dropped_events"] += 1

    def _flush(self) -> None:
        connection = self._connection
        if not (self._dirty and self._up and connection and self._state):
            return
        if connection.wants_write:
            connection.tick()
        if not connection.wants_write:
            self._dirty = not self._send(state_topic(self._prefix), self._state, retain=True)

    def _send(self, topic: str, payload: bytes, *, retain: bool = False) -> bool:
        if self._connection is None:
            return False
        try:
            mid = self._connection.publish(
                topic, payload, qos=1, retain=retain, content_type=CONTENT_TYPE
            )
        except BrokerError:
            return False
        self._unanswered[mid] = time.monotonic()
        return True

    def _drop_connection(self) -> None:
        if self._registered >= 0:
            asyncio.get_running_loop().remove_reader(self._registered)
        if self._connection is not None:
            self._connection.abandon()
        self._registered, self._connection, self._up = -1, None, False
        self._unanswered = {}

    def _end_broker(self) -> None:
        self._drop_connection()
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    async def stop(self) -> None:
        """Say goodbye and end the broker, within half a second."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
        if self._connection is not None:
            self._send(status_topic(self._prefix), b"offline", retain=True)
            self._connection.close()
        await asyncio.sleep(0.02)  # let trainers read the farewell before the broker goes
        self._end_broker()
