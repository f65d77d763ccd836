"""A breaker: after failures in a row no calls, then a single probe, then all of them again.

It never calls anything itself and holds its lock only while it changes its few fields: a call that
hangs keeps nobody from asking. Whoever wants to call asks :meth:`Breaker.admit`, calls, and says
how it went. The link's state drives it too: :meth:`Breaker.trip` opens it at once, and
:meth:`Breaker.recover` lets a probe through as soon as the link is back.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LONGEST_ASKED_S = 300.0
"""A Retry-After keeps all calls away no longer: it was said to one of them."""

_dice = random.SystemRandom()  # never the global generator: training runs are seeded


class State(Enum):
    """Whether calls pass."""

    CLOSED = "closed"
    """All of them."""
    OPEN = "open"
    """None."""
    HALF_OPEN = "half-open"
    """One, the probe; whether it is under way is not told."""


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave for one call, to be given back by telling how it went."""

    serial: int
    probe: bool


class Breaker:
    """Closed, open or half-open; safe to use from any thread, also as a plain object.

    >>> now = 0.0
    >>> breaker = Breaker(failures=1, open_s=4.0, now_s=lambda: now, share=lambda: 1.0)
    >>> breaker.failed(breaker.admit())
    >>> breaker.state.value, breaker.admit()
    ('open', None)
    >>> now = 4.0
    >>> probe, second = breaker.admit(), breaker.admit()
    >>> probe.probe, second
    (True, None)
    >>> breaker.succeeded(probe)
    >>> breaker.state.value
    'closed'

    Times are in seconds of ``now_s``. An open phase lasts half to all of its length, by
    ``share`` (0 to 1, own dice), so that nodes do not probe in step. A probe that never reports
    is given up after ``longest_open_s``.
    """

    def __init__(
        self,
        *,
        failures: int = 3,
        open_s: float = 4.0,
        longest_open_s: float = 30.0,
        now_s: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = _dice.random,
    ) -> None:
        self._most = failures
        self._first_s = open_s
        self._longest_s = longest_open_s
        self._now_s = now_s
        self._share = share
        self._row = 0
        self._phases = 0
        self._tripped = False
        self._until_s: float | None = None
        self._probe: Permit | None = None
        self._probe_lost_s = 0.0
        self._serial = 0
        self._lock = threading.Lock()

    @property
    def state(self) -> State:
        """Whether calls pass now."""
        until_s = self._until_s
        if self._tripped:
            return State.OPEN
        if until_s is None:
            return State.CLOSED
        return State.OPEN if self._now_s() < until_s else State.HALF_OPEN

    def admit(self) -> Permit | None:
        """Return leave for one call, None if it must not be made now."""
        with self._lock:
            state = self.state
            if state is State.OPEN or (state is State.HALF_OPEN and self._probing()):
                return None
            self._serial += 1
            permit = Permit(self._serial, probe=state is State.HALF_OPEN)
            if permit.probe:
                self._probe, self._probe_lost_s = permit, self._now_s() + self._longest_s
            return permit

    def succeeded(self, permit: Permit) -> None:
        """Take note that the call of ``permit`` went well: closed, unless the link says no."""
        with self._lock:
            self._free(permit)
            if not self._tripped:
                self._close()

    def failed(self, permit: Permit, after_s: float | None = None) -> None:
        """Take note that it failed; ``after_s`` is how long the other side asked to wait."""
        with self._lock:
            was_probe = self._free(permit)
            if self._tripped:
                return
            self._row += 1
            # Calls that were under way when it opened say nothing new.
            if was_probe or (self._until_s is None and self._row >= self._most):
                self._open(after_s or 0.0)

    def forgot(self, permit: Permit) -> None:
        """Take note that the call of ``permit`` ended without telling anything (cancelled)."""
        with self._lock:
            self._free(permit)

    def trip(self) -> None:
        """Open at once, until :meth:`recover`: the link is down, or the node holds uploads."""
        with self._lock:
            self._tripped = True

    def recover(self) -> None:
        """Let a single probe through from now on, after :meth:`trip`."""
        with self._lock:
            if self._tripped:
                self._tripped, self._probe = False, None
                self._until_s = self._now_s()
                self._phases = 0  # how long it was open before says nothing about now

    def after_fork(self) -> None:
        """Become the child's: the parent's probe is not ours, its threads hold no lock here."""
        self._lock = threading.Lock()
        self._probe = None

    def _probing(self) -> bool:
        return self._probe is not None and self._now_s() < self._probe_lost_s

    def _free(self, permit: Permit) -> bool:
        """Give the permit back; return whether it was the probe that others wait for."""
        was_probe = permit == self._probe
        if was_probe:
            self._probe = None
        return was_probe

    def _close(self) -> None:
        self._row = self._phases = 0
        self._until_s = self._probe = None

    def _open(self, least_s: float) -> None:
        length_s = min(self._longest_s, self._first_s * 2.0 ** min(self._phases, 64))
        self._phases += 1
        asked_s = min(least_s, LONGEST_ASKED_S)
        self._until_s = self._now_s() + max(asked_s, length_s * (0.5 + self._share() / 2))
