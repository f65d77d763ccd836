"""Keepalive for the TCP sockets of this process: nearly no training library asks for it.

The listener's thread looks every few seconds for sockets that it has not seen. Those that are
connected and have no setting of their own get SO_KEEPALIVE; those of C++ libraries too.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold import tcp
from linkhold.client import fork
from linkhold.model.cover import CLIENT_MARK, SHOWN, Outcome, timers_for
from linkhold.model.keepalive import Timers

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from linkhold.client.voice import Voice
    from linkhold.model.cover import Exclusions
    from linkhold.wire import StateView

    Known: TypeAlias = "Outcome | Timers"
    """What became of a socket; of a covered one, the values that it was given."""

DESCRIPTORS = "/proc/self/fd"
PERIOD_NS = 4_000_000_000
BUDGET_NS = 50_000_000
"""Longest look at a time: the thread has the agent's words to hear. The rest comes a turn later."""
SOL_SOCKET, SO_COOKIE = 1, 57  # asm-generic/socket.h, Linux 4.12


class Cover:
    """Covers the sockets of this process, see :meth:`linkhold.client.Hold.cover_sockets`.

    ``idle_s`` returns the idle time in seconds that the agent wants, None while it is not known.
    """

    def __init__(
        self, exclusions: Exclusions, idle_s: Callable[[], int | None], voice: Voice
    ) -> None:
        self.counts: dict[str, int] = {}
        self._exclusions = exclusions
        self._idle_s = idle_s
        self._voice = voice
        self._fixed: Timers | None = None
        self._known: dict[int, Known] = {}
        self._cookies = _Cookies()
        self._due_ns = 0
        self._spoken = self._failed = False
        self._lock = threading.Lock()
        fork.remember(self)

    def fix(self, timers: Timers) -> None:
        """Use these values from now on, whatever the agent says."""
        self._fixed = timers

    def tick(self) -> None:
        """Look for new sockets if it is time to; does not wait for a look that is under way."""
        if time.monotonic_ns() < self._due_ns or not self._lock.acquire(blocking=False):
            return
        try:
            self._scan(BUDGET_NS)
        finally:
            self._lock.release()

    def scan(self) -> dict[str, int]:
        """Look now, at every socket, and return the counts."""
        with self._lock:
            self._scan(None)
        return dict(self.counts)

    def after_fork(self) -> None:
        """Have a lock of the child's own; what is known of the shared sockets stays true."""
        self._lock = threading.Lock()

    def _scan(self, budget_ns: int | None) -> None:
        began_ns = time.monotonic_ns()
        try:
            names = os.listdir(DESCRIPTORS)  # noqa: PTH208 - names are all it takes
        except OSError as error:
            self._due_ns = began_ns + PERIOD_NS
            self._fail(f"{DESCRIPTORS}: {error.strerror}")
            return
        timers = self._fixed or timers_for(self._idle_s())
        before, after, late = self._known, {}, False
        for name in names:
            cookie = self._cookies.of(int(name))
            if not cookie or cookie in after:
                continue
            known = before.get(cookie)
            if _is_open(known, timers):
                late = budget_ns is not None and time.monotonic_ns() - began_ns > budget_ns
                if not late:
                    known = self._treat(int(name), cookie, known, timers)
            if known is not None:
                after[cookie] = known
        self._known = after
        self._due_ns = 0 if late else began_ns + PERIOD_NS
        self._tell(timers)

    def _treat(self, descriptor: int, cookie: int, known: Known | None, timers: Timers) -> Known:
        """Cover one socket by a copy, so that it stays the same while its owner may close it."""
        with fork.no_fork():
            try:
                sock = tcp.adopt(os.dup(descriptor))
            except OSError:
                return Outcome.UNCONNECTED  # closed meanwhile
            with contextlib.closing(sock):
                if self._cookies.of(sock.fileno()) != cookie:
                    return Outcome.UNCONNECTED  # its number is another socket's by now
                if isinstance(known, Timers):
                    return _changed(sock, known, timers)
                outcome = tcp.cover(sock, self._exclusions, timers)
                return timers if outcome is Outcome.COVERED else outcome

    def _tell(self, timers: Timers) -> None:
        """Count, and say once what is covered: at the second look, when a start is over."""
        kinds = Counter(
            Outcome.COVERED if isinstance(known, Timers) else known
            for known in self._known.values()
        )
        had_some = bool(self.counts.get(Outcome.COVERED.value))
        self.counts = {outcome.value: kinds[outcome] for outcome in SHOWN}
        if self._spoken or not had_some or not kinds[Outcome.COVERED]:
            return
        self._spoken = True
        others = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n and kind in _LEFT)
        self._voice.info(
            f"{kinds[Outcome.COVERED]} TCP sockets have keepalive now, from {timers.time_s} s of "
            f"silence on; new ones follow{f' (left alone: {others})' if others else ''}"
        )

    def _fail(self, why: str) -> None:
        if not self._failed:
            self._failed = True
            self._voice.warning(f"TCP sockets get no keepalive: {why}")


_LEFT = {outcome.value for outcome in SHOWN} - {Outcome.COVERED.value}


def _is_open(known: Known | None, timers: Timers) -> bool:
    """Whether a socket is to be looked at: new, not yet connected, or covered with old values."""
    if isinstance(known, Timers):
        return known != timers
    return known is None or known is Outcome.UNCONNECTED


def _changed(sock: tcp.Socket, before: Timers, timers: Timers) -> Known:
    try:
        return timers if tcp.change(sock, before, timers, before) else Outcome.OWN
    except OSError:
        return Outcome.REFUSED


class _Cookies:
    """Tells sockets apart: by SO_COOKIE, a number that no other socket of this boot has.

    Called without giving up the interpreter's lock (PyDLL), as it never waits: asking 1,000
    sockets takes 1.5 ms. Beside a busy loop each os.readlink() instead may wait 5 ms for that lock.
    """

    def __init__(self) -> None:
        self._getsockopt = ctypes.PyDLL(None).getsockopt
        self._getsockopt.argtypes = [ctypes.c_int] * 3 + [ctypes.c_void_p] * 2
        self._value, self._length = ctypes.c_uint64(), ctypes.c_uint32()
        self._where = (ctypes.addressof(self._value), ctypes.addressof(self._length))

    def of(self, descriptor: int) -> int:
        """Return the cookie, 0 for what is no socket."""
        self._length.value = 8
        if self._getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, *self._where):
            return 0
        return self._value.value


class _Mark:
    """An empty memfd by which the agent sees that this process has a client of its own."""

    def __init__(self) -> None:
        self._descriptor = -1
        fork.remember(self)

    def show(self) -> None:
        """Open it, once in a process; without it the agent may cover the process as well."""
        if self._descriptor < 0:
            with contextlib.suppress(OSError):
                self._descriptor = os.memfd_create(CLIENT_MARK)

    def after_fork(self) -> None:
        """Close the child's copy, unless the program closed it and uses the number otherwise."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0 and CLIENT_MARK in _target(descriptor):
            os.close(descriptor)


def _target(descriptor: int) -> str:
    return str(Path(f"{DESCRIPTORS}/{descriptor}").readlink())


mark = _Mark()


def wanted_idle_s(view: StateView | None) -> int | None:
    """Return the idle time that the agent's profile wants; None where no state says one."""
    found: object = view.document if view is not None else None
    for key in ("detail", "keepalive", "wanted", "time_s"):
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) else None
