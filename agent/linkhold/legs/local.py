"""Leg A: state and events to the training processes of this node, over the node's own broker.

Everything runs in the agent's event loop; the only thing that may block, connecting, is done
in a thread. Only the newest state matters, so a broker that does not read costs nothing but a
flag: what could not be sent is sent when it reads again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import time
from collections import deque
from typing import TYPE_CHECKING

from linkhold.children import Child, kill_leftovers
from linkhold.decide.readings import LegReading
from linkhold.legs.backoff import Backoff
from linkhold.legs.broker import (
    BrokerFiles,
    Found,
    look_up,
    open_to_trainers,
    write_files,
)
from linkhold.model import BrokerError, Unavailable
from linkhold.mqtt import Acknowledged, Connected, Connection, Lost, Will
from linkhold.threads import in_thread
from linkhold.wire import CONTENT_TYPE, birth_topic, event_topic, state_topic, status_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from linkhold.decide.readings import Reading

MAX_WAITING_EVENTS = 256
SOCKET_WAIT_S = 5.0
SOCKET_POLL_S = 0.02
LEFTOVER_WAIT_S = 2.0
NAMES_WAIT_S = 5.0
FRESH_NAMES_WAIT_S = 0.5
"""How long a broker waits for names when those of the last start are known."""
FILES_WAIT_S = 5.0
LAST_WORDS_S = 0.05
"""A process that dies closes its sockets before anybody can wait for it."""
FAREWELL_S = 0.02
"""For trainers to read the farewell before the broker goes."""
MISSING_WAIT_S = 30.0
"""mosquitto may be installed, or an upgrade of it end, while the agent runs."""
HUNG_AFTER_S = 2.5
"""A broker on this machine that leaves a publication unanswered this long is hung: kill it."""
WILL_DELAY_S = 10
STAMP = re.compile(r"^\d+: ")
"""What mosquitto puts before a line until it has read that it should not."""


class LocalLeg:
    """Runs the broker and keeps the retained state in it true.

    ``report`` receives a :class:`LegReading` at each change of health; ``birth`` makes the
    retained birth document of the session. All methods belong to the event loop's thread.
    """

    def __init__(
        self,
        run_dir: Path,
        prefix: str,
        report: Callable[[Reading], None],
        birth: Callable[[], bytes] | None = None,
    ) -> None:
        self._files = BrokerFiles(run_dir)
        self._prefix = prefix
        self._report = report
        self._birth = birth
        self._status: LegReading | None = None
        self._child: Child | None = None
        self._connection: Connection | None = None
        self._watched = -1
        self._found: Found | None = None
        self._names: asyncio.Task[Found] | None = None
        self._up = False
        self._state: bytes | None = None
        self._dirty = False
        self._unanswered: dict[int, float] = {}
        self._state_mid = 0
        self._events: deque[tuple[str, bytes]] = deque(maxlen=MAX_WAITING_EVENTS)
        self._task: asyncio.Task[None] | None = None
        self._ended = asyncio.Event()
        self._trouble = ""
        self.counters = {"leg_a_restarts": 0, "leg_a_dropped_events": 0}

    @property
    def open_to_all(self) -> bool:
        """Whether every user of the node may listen: there is no group that bounds it."""
        return self._found is not None and self._found.group is None

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
            self._end_broker()

    async def _serve(self) -> str:
        """Start broker and connection, serve until one of them ends, return why."""
        found = await self._look_up()
        await self._clear_leftovers()
        await _in_time(lambda: write_files(self._files, found.user), "writing its files")
        self._ended = ended = asyncio.Event()  # a former broker may end later than we begin
        self._trouble = ""
        argv = [found.binary, "-c", str(self._files.configuration)]
        self._child = Child(argv, lambda _code: ended.set(), user=found.user)
        await self._wait_for_sockets()
        await _in_time(lambda: open_to_trainers(self._files, found.group), "opening its sockets")
        await self._connect()
        await self._ended.wait()
        await asyncio.sleep(LAST_WORDS_S)
        return self._last_words() if self._child.ended else self._trouble

    async def _look_up(self) -> Found:
        """Return program, user and group: as they are now, or were when names last had an answer.

        A look-up that hangs is waited for again at the next attempt; there is never a second one.
        """
        if self._names is None:
            self._names = asyncio.create_task(in_thread(look_up))
        wait_s = NAMES_WAIT_S if self._found is None else FRESH_NAMES_WAIT_S
        await asyncio.wait({self._names}, timeout=wait_s)
        if self._names.done():
            names, self._names = self._names, None
            self._found = names.result()
        elif self._found is None:
            raise BrokerError("the look-up of its user and group does not answer")
        return self._found

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
                self._give_up_on_broker(f"the connection to the broker was lost: {notice.reason}")

    def _welcome(self) -> None:
        self._up = True
        self._dirty = self._state is not None
        if self._child is not None:
            self._child.last_lines.clear()  # warnings of the start are not why it ends
        self._say("up", self._found.lacks if self._found else "")
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

    def _end_broker(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
        self._drop_connection()

    async def stop(self) -> None:
        """Say goodbye and end the broker, within half a second."""
        self._send(status_topic(self._prefix), b"offline", retain=True)
        await asyncio.sleep(FAREWELL_S)
        tasks = {task for task in (self._task, self._names) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _in_time(call: Callable[[], None], what: str) -> None:
    """Do what a file system may hold up, off the loop; raises :class:`BrokerError` if it does."""
    try:
        await asyncio.wait_for(in_thread(call), FILES_WAIT_S)
    except asyncio.TimeoutError:
        raise BrokerError(f"{what} took more than {FILES_WAIT_S:g} s") from None
