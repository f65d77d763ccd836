"""The thread that owns the outbox: the agent's loop and the fleet leg only hand things over.

No method of :class:`Keeper` except :meth:`~Keeper.start`, :meth:`~Keeper.flush` and
:meth:`~Keeper.stop` waits, whatever the disk does. All that waits becomes one transaction.
Callbacks given to it (``report``, ``reply``, listeners) are called in its thread and must not
block; an exception in one is counted and goes no further.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from linkhold.decide.readings import OutboxReading
from linkhold.store.outbox import Entry, Mark, ReplayRequest, Status, Stored
from linkhold.store.outbox_file import OpenedStore, open_store
from linkhold.store.outbox_ring import Losses, shed
from linkhold.store.outbox_shelf import Batch, Cursor, Shelf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from linkhold.config.settings import OutboxSettings
    from linkhold.decide.readings import Reading

MAX_INBOX = 20_000
"""Events that may wait for the disk; beyond, information is dropped first and counted."""
MAX_QUERIES = 16
"""Questions of the control socket that may wait."""
MAX_ASKS = 256
"""Questions of the fleet leg that may wait; it has a handful at a time."""


@dataclass(frozen=True, slots=True)
class KeeperTiming:
    """Seconds. ``counts_s`` and ``losses_s`` bound how often numbers alone are reported."""

    stalled_s: float = 5.0
    purge_s: float = 60.0
    counts_s: float = 5.0
    losses_s: float = 10.0


@dataclass(slots=True)
class _Work:
    """What one round of the thread takes from the inbox."""

    events: list[Stored]
    baseline: bytes | None
    marks: list[Mark]
    asks: list[Callable[[], None]]
    last: bool


class Keeper:
    """Owns the outbox in ``state_dir`` in a daemon thread of its own.

    ``report`` gets :class:`OutboxReading` and :class:`OverflowReading` in the keeper's thread.
    ``fleet`` False records events as ``local``: they are history and will not be sent.
    """

    def __init__(
        self,
        state_dir: Path,
        settings: OutboxSettings,
        report: Callable[[Reading], None],
        *,
        fleet: bool,
        timing: KeeperTiming | None = None,
        opener: Callable[[Path, OutboxSettings], OpenedStore] = open_store,
    ) -> None:
        self._errors = 0
        self._refused = 0
        self._report_to = report
        self._status = Status.PENDING if fleet else Status.LOCAL
        self._timing = timing or KeeperTiming()
        self._news = threading.Condition()
        self._events: deque[Stored] = deque()
        self._baseline: bytes | None = None
        self._marks: list[Mark] = []
        self._asks: deque[Callable[[], None]] = deque()
        self._queries: deque[Callable[[], None]] = deque()
        self._inbox_losses = Losses()
        self._stopping = False
        self._busy_since_s: float | None = None
        self._listener: Callable[[], None] = lambda: None
        self._losses = Losses()
        self._shelf = Shelf(state_dir, settings, opener, self._losses)
        self._opened: OpenedStore | None = None
        self._ready = threading.Event()
        self._reading = OutboxReading("starting")
        self._reported = OutboxReading("")
        self._reported_s = self._losses_s = self._purged_s = float("-inf")
        self._thread = threading.Thread(target=self._run, name="outbox", daemon=True)

    # For the agent's loop.

    def start(self, timeout_s: float = 2.0) -> OpenedStore:
        """Start the thread and return what it found, waiting at most ``timeout_s``.

        A disk that does not answer in time is a ``problem`` of the answer; events are taken
        all the same and written when it does.
        """
        self._thread.start()
        if self._ready.wait(timeout_s) and self._opened is not None:
            return self._opened
        return OpenedStore(None, problem=f"the disk did not answer within {timeout_s:g} s")

    def record(self, events: Sequence[Entry], baseline: bytes) -> None:
        """Take events, and the state after them, for one transaction. Never blocks."""
        with self._news:
            self._events.extend(Stored(0, entry, self._status) for entry in events)
            self._baseline = baseline
            if len(self._events) > MAX_INBOX:
                kept, dropped = shed(self._events, MAX_INBOX)
                self._events = deque(kept)
                self._inbox_losses.add_dropped(dropped)
            self._news.notify()

    def configure(self, settings: OutboxSettings, *, fleet: bool) -> None:
        """Use other bounds, and mark coming events for a fleet or not."""
        with self._news:
            self._status = Status.PENDING if fleet else Status.LOCAL
        self._ask(self._asks, MAX_ASKS, lambda: self._shelf.configure(settings))

    def status(self) -> OutboxReading:
        """Return the health as it is now: ``stalled`` when the disk lets the thread hang.

        For the loop to ask at each heartbeat: a thread that hangs cannot report it itself.
        """
        since, reading = self._busy_since_s, self._reading
        if since is None or time.monotonic() - since < self._timing.stalled_s:
            return reading
        waiting = len(self._events)
        reason = f"the disk has not answered for {self._timing.stalled_s:g} s"
        return OutboxReading("stalled", reason, reading.pending + waiting, reading.parked)

    def counters(self) -> Mapping[str, int]:
        """Return how often things happened since the start; for any thread."""
        return {
            "outbox_errors": self._errors,
            "outbox_lost_events": self._losses.total,
            "outbox_refused_questions": self._refused,
            "outbox_forgotten_answers": self._shelf.forgotten_marks,
        }

    def history(
        self,
        since_wall_s: float,
        limit: int,
        types: Sequence[str],
        reply: Callable[[list[Stored]], None],
    ) -> bool:
        """Have ``reply`` called with the newest ``limit`` events since a wall-clock time.

        False, and no reply, when :data:`MAX_QUERIES` questions wait already. While the disk
        hangs no reply comes: the one who asks has a deadline of its own.
        """
        asked = tuple(types)
        return self._ask(
            self._queries,
            MAX_QUERIES,
            lambda: reply(self._shelf.history(since_wall_s, limit, asked)),
        )

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was recorded before is on disk or, volatile, in the ring."""
        done = threading.Event()
        return self._ask(self._asks, MAX_ASKS, done.set) and done.wait(timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Write what waits and end; False when the disk did not allow it within the time."""
        with self._news:
            self._stopping = True
            self._news.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # For the fleet leg; replies come in the keeper's thread.

    def listen(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when there may be new pending events."""
        self._listener = listener

    def fetch(self, cursor: Cursor, limit: int, reply: Callable[[Batch], None]) -> bool:
        """Have ``reply`` called with the pending events after ``cursor``."""
        return self._ask(self._asks, MAX_ASKS, lambda: reply(self._shelf.pending(cursor, limit)))

    def parked(self, limit: int, reply: Callable[[tuple[Stored, ...]], None]) -> bool:
        """Have ``reply`` called with the oldest parked event of each type."""
        return self._ask(self._asks, MAX_ASKS, lambda: reply(self._shelf.parked(limit)))

    def replay(
        self, request: ReplayRequest, reply: Callable[[tuple[list[Stored], int]], None]
    ) -> bool:
        """Have ``reply`` called with the requested events and the number of missing ones."""
        return self._ask(self._asks, MAX_ASKS, lambda: reply(self._shelf.replay(request)))

    def mark(self, marks: Sequence[Mark]) -> None:
        """Take answers of brokers for the next transaction. Never blocks."""
        with self._news:
            self._marks.extend(marks)
            self._news.notify()

    def unpark(self, event_type: str) -> bool:
        """Make the parked events of one type pending again."""
        return self._ask(self._asks, MAX_ASKS, lambda: self._unpark(event_type))

    def _unpark(self, event_type: str) -> None:
        self._shelf.unpark(event_type)
        self._listener()

    def _ask(self, queue: deque[Callable[[], None]], limit: int, ask: Callable[[], None]) -> bool:
        with self._news:
            if len(queue) >= limit:
                self._refused += 1
                return False
            queue.append(ask)
            self._news.notify()
        return True

    # The thread.

    def _run(self) -> None:
        self._busy_since_s = time.monotonic()
        self._opened = self._shelf.open(self._busy_since_s)
        self._ready.set()
        self._guarded(self._report)
        while True:
            self._busy_since_s = None
            work = self._take()
            self._guarded(partial(self._round, work))
            if work.last:
                self._shelf.close()
                self._busy_since_s = None
                return
            del work  # else the rows of its answers stay in memory until the next round

    def _guarded(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:  # noqa: BLE001 -- a thread that died would lose every later event
            self._errors += 1

    def _take(self) -> _Work:
        with self._news:
            self._news.wait_for(self._has_work, self._idle_s())
            self._busy_since_s = time.monotonic()
            work = _Work(
                events=list(self._events),
                baseline=self._baseline,
                marks=self._marks,
                asks=[*self._asks, *self._queries],
                last=self._stopping,
            )
            self._events.clear()
            self._baseline, self._marks = None, []
            self._asks.clear()
            self._queries.clear()
            self._losses.add(self._inbox_losses.take())
        return work

    def _has_work(self) -> bool:
        return (
            bool(self._stopping or self._events or self._marks or self._asks or self._queries)
            or self._baseline is not None
        )

    def _idle_s(self) -> float:
        now_s, timing = time.monotonic(), self._timing
        due = [self._purged_s + timing.purge_s]
        if self._shelf.status == "volatile":
            due.append(self._shelf.retry_at_s)
        if self._reading != self._reported:
            due.append(self._reported_s + timing.counts_s)
        if self._losses.waiting:
            due.append(self._losses_s + timing.losses_s)
        return min(max(0.0, min(due) - now_s), timing.purge_s)

    def _round(self, work: _Work) -> None:
        now_s = time.monotonic()
        if work.last:
            self._shelf.retry_at_s = now_s
        self._shelf.store(work.events, work.baseline, work.marks, now_s)
        for ask in work.asks:
            self._guarded(ask)
        if now_s - self._purged_s >= self._timing.purge_s:
            self._purged_s = now_s
            self._shelf.purge(time.time())
        self._report()
        if work.events:
            self._guarded(self._listener)

    def _report(self) -> None:
        now_s, shelf, timing = time.monotonic(), self._shelf, self._timing
        pending, parked = shelf.waiting()
        self._reading = OutboxReading(shelf.status, shelf.reason, pending, parked)
        damage, shelf.damage = shelf.damage, []
        for text in damage:
            self._guarded(partial(self._report_to, OutboxReading("damaged", text)))
        began_s = self._busy_since_s or now_s
        urgent = damage or self._alarm(self._reading) != self._alarm(self._reported)
        late = now_s - self._reported_s >= timing.counts_s and self._reading != self._reported
        if urgent or late or now_s - began_s > timing.stalled_s:
            self._reported, self._reported_s = self._reading, now_s
            self._guarded(partial(self._report_to, self._reading))
        if now_s - self._losses_s >= timing.losses_s:
            lost = self._losses.take()
            if lost is not None:
                self._losses_s = now_s
                self._guarded(partial(self._report_to, lost))

    @staticmethod
    def _alarm(reading: OutboxReading) -> tuple[str, str, bool]:
        return reading.status, reading.reason, reading.parked > 0
