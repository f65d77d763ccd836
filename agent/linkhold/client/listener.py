"""The one thread per run folder that follows the agent's state and tells who waits for it.

It only ever replaces :attr:`Listener.newest` and raises flags; training threads read that
attribute without a lock. Nothing that goes wrong in here reaches training: it is counted.
"""

from __future__ import annotations

import threading
import time
import weakref
from typing import TYPE_CHECKING, Protocol

from linkhold import paths
from linkhold.client import decision, fork, sources
from linkhold.client.boot import boot_id
from linkhold.client.decision import Seen
from linkhold.model import WireError
from linkhold.wire import parse_state

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import TypeAlias

    from linkhold.wire import StateView

    _Methods: TypeAlias = "tuple[weakref.WeakMethod[Callable[[], None]], ...]"

WAIT_CONNECTED_S = 1.0
"""A message ends the wait at once; this long the thread sleeps without one."""
WAIT_ALONE_S = 0.3
WAIT_NOBODY_S = 1.0
"""Pause between two looks while there is no trace of an agent."""
AFTER_ERROR_S = 1.0
FILE_PERIOD_NS = 1_000_000_000
DOUBT_S = 6.0
"""When the newest state is older than this, one heartbeat is missing: look at the file too."""


class Source(Protocol):
    """What a Hold needs of whoever follows the state."""

    newest: StateView | None
    counters: dict[str, int]

    def ensure(self) -> None:
        """Listen from now on, in this process."""

    def add(self, alarm: Callable[[], None]) -> None:
        """Call the bound method ``alarm`` on every change, while its object lives."""

    def remove(self, alarm: Callable[[], None]) -> None:
        """Stop calling ``alarm``."""

    def attend(self, chore: Callable[[], None]) -> None:
        """Call the bound method ``chore`` about once a second, while its object lives."""

    def neglect(self, chore: Callable[[], None]) -> None:
        """Stop calling ``chore``."""

    def where(self) -> Path:
        """Return the run folder that is looked at now."""

    @property
    def looked(self) -> bool:
        """Whether a state is known, or it is clear that no agent is there to send one."""


class Listener:
    """Follows the state of the agent in one run folder (None: wherever the agent is found)."""

    def __init__(self, run_dir: Path | None) -> None:
        self.newest: StateView | None = None
        self.counters: dict[str, int] = {}
        self._run_dir = run_dir
        self._alarms: _Methods = ()
        self._chores: _Methods = ()
        self._fresh = False
        self._file_due_ns = 0
        self._broker: sources.BrokerSource | None = None
        self._parked: list[sources.BrokerSource] = []
        self._renew()
        fork.remember(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._looked = threading.Event()
        self._thread: threading.Thread | None = None

    def where(self) -> Path:
        """Return the run folder that is looked at now."""
        return self._run_dir or paths.find_run_dir()

    def add(self, alarm: Callable[[], None]) -> None:
        """Call the bound method ``alarm`` on every change, while its object lives."""
        with self._lock:
            self._alarms = (*_others(self._alarms, alarm), weakref.WeakMethod(alarm))

    def remove(self, alarm: Callable[[], None]) -> None:
        """Stop calling ``alarm``; without any the thread ends by itself within a second."""
        with self._lock:
            self._alarms = _others(self._alarms, alarm)

    def attend(self, chore: Callable[[], None]) -> None:
        """Call the bound method ``chore`` about once a second, while its object lives."""
        with self._lock:
            self._chores = (*_others(self._chores, chore), weakref.WeakMethod(chore))

    def neglect(self, chore: Callable[[], None]) -> None:
        """Stop calling ``chore``."""
        with self._lock:
            self._chores = _others(self._chores, chore)

    def ensure(self) -> None:
        """Start the thread unless it runs; raises nothing, without a thread all is let pass."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            return
        sources.prepare()
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._thread = threading.Thread(target=self._run, name="linkhold", daemon=True)
            try:
                self._thread.start()
            except RuntimeError:  # no more threads, or the interpreter is ending
                self._count("listener_errors")

    @property
    def looked(self) -> bool:
        """Whether a state is known, or it is clear that no agent is there to send one."""
        return self._looked.is_set()

    def wait_first(self, timeout_s: float) -> None:
        """Wait for :attr:`looked`, at most ``timeout_s`` seconds."""
        self._looked.wait(timeout_s)

    def after_fork(self) -> None:
        """Close the child's copy of the socket; listen again only when asked to."""
        if self._broker is not None:
            self._broker.abandon()
            self._parked.append(self._broker)  # its finalizer might want a dead thread's lock
            self._broker = None
        self._renew()

    def _living(self) -> _Methods:
        return tuple(ref for ref in self._alarms if ref() is not None)

    def _run(self) -> None:
        broker, file = sources.BrokerSource(self._count), sources.FileSource()
        self._broker = broker
        while self._wanted(broker):
            try:
                self._turn(broker, file)
            except Exception:  # noqa: BLE001 - training must never lose its listener
                self._count("listener_errors")
                broker.drop(time.monotonic_ns())
                time.sleep(AFTER_ERROR_S)

    def _wanted(self, broker: sources.BrokerSource) -> bool:
        if self._living():
            return True
        with self._lock:
            if self._living():
                return True
            broker.close()
            self._broker = self._thread = None
            return False

    def _turn(self, broker: sources.BrokerSource, file: sources.FileSource) -> None:
        run_dir = self.where()
        self._hear(broker, run_dir)
        self._look(broker, file, run_dir)
        now_ns = time.monotonic_ns()
        fresh = decision.is_fresh(self.newest, now_ns)
        if fresh is not self._fresh:
            self._fresh = fresh
            self._alarm()
        if not self.looked and (self.newest is not None or not broker.open):
            self._looked.set()
            self._alarm()
        self._work()
        if not broker.open:
            time.sleep(WAIT_ALONE_S if paths.agent_files_in(run_dir) else WAIT_NOBODY_S)

    def _hear(self, broker: sources.BrokerSource, run_dir: Path) -> None:
        try:
            if not broker.open:
                broker.connect(run_dir / paths.BROKER_SOCKET, time.monotonic_ns())
            for payload in broker.poll(self._patience(), time.monotonic_ns()):
                self._take(payload)
        except Exception:  # noqa: BLE001 - the file must still be read
            self._count("broker_errors")
            broker.drop(time.monotonic_ns())

    def _patience(self) -> float:
        return WAIT_CONNECTED_S if self.looked else 0.02

    def _look(self, broker: sources.BrokerSource, file: sources.FileSource, run_dir: Path) -> None:
        now_ns = time.monotonic_ns()
        known = self.newest
        trusted = broker.speaking and known is not None and now_ns - known.mono_ns < DOUBT_S * 1e9
        if trusted or now_ns < self._file_due_ns:
            return
        self._file_due_ns = now_ns + FILE_PERIOD_NS
        content = file.read(run_dir / paths.STATE_FILE)
        if content is not None:
            self._take(content)

    def _take(self, payload: bytes) -> None:
        if not payload:
            return  # the retained state was cleared
        try:
            found = parse_state(payload)
        except WireError:
            self._count("garbage")
            return
        known = self.newest
        seen = decision.sift(known, found, boot_id(), time.monotonic_ns())
        self._count(seen.value)
        if seen is Seen.NEWER:
            self.newest = found
            if not decision.same_advice(known, found):
                self._alarm()

    def _alarm(self) -> None:
        for ref in self._alarms:
            alarm = ref()
            if alarm is not None:
                alarm()

    def _work(self) -> None:
        for ref in self._chores:
            chore = ref()
            try:
                if chore is not None:
                    chore()
            except Exception:  # noqa: BLE001 - the agent must still be heard
                self._count("chore_errors")

    def _count(self, name: str) -> None:
        self.counters[name] = self.counters.get(name, 0) + 1


def _others(methods: _Methods, method: Callable[[], None]) -> _Methods:
    """Return the living methods but one."""
    return tuple(ref for ref in methods if ref() not in (None, method))


_listeners: dict[Path | None, Listener] = {}


def listener_for(run_dir: Path | None) -> Listener:
    """Return the listener of ``run_dir``; every Hold of one process shares it."""
    return _listeners.setdefault(run_dir, Listener(run_dir))
