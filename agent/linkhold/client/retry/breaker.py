"""A breaker: after failures in a row no calls, then a single probe, then all of them again.

It never calls anything itself and holds its lock only while it changes its few fields: a call that
hangs keeps nobody from asking. Whoever wants to call asks :meth:`Breaker.admit`, calls, and says
how it went. The link's state drives it too: :meth:`Breaker.trip` opens it at once, and
:meth:`Breaker.recover` lets a probe through as soon as the link is back.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from linkhold.client.boot import boot_id
from linkhold.client.retry import standing
from linkhold.client.retry.keep import Alone, Kind
from linkhold.client.retry.standing import Permit, Rules, Standing, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.retry.keep import Keep

__all__ = ["Breaker", "Permit", "State"]

_dice = random.SystemRandom()  # never the global generator: training runs are seeded


def file_kind(rules: Rules) -> Kind[Standing]:
    """Return how a breaker's file is written: what cannot be true by these rules is not read."""

    def unpack(content: bytes) -> Standing:
        found = standing.unpack(content, boot_id())
        return found if found.believable(time.monotonic(), rules) else Standing()

    def pack(known: Standing) -> bytes:
        return standing.pack(known, boot_id())

    return Kind("breaker", "breaker", 4096, pack, unpack)


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
    is given up after ``longest_open_s``. ``keep`` is where failures and phases are known: in this
    process, unless it is a :class:`~linkhold.client.retry.keep.Shared`. Whether the link is down
    each process hears for itself.
    """

    def __init__(
        self,
        *,
        failures: int = 3,
        open_s: float = 4.0,
        longest_open_s: float = 30.0,
        now_s: Callable[[], float] = time.monotonic,
        share: Callable[[], float] = _dice.random,
        keep: Keep[Standing] | None = None,
    ) -> None:
        self._rules = Rules(failures, open_s, longest_open_s)
        self._now_s = now_s
        self._share = share
        self._keep: Keep[Standing] = keep or Alone(Standing(), Standing.unprobed)
        self._tripped_s: float | None = None

    @property
    def state(self) -> State:
        """Whether calls pass now."""
        if self._tripped_s is not None:
            return State.OPEN
        now_s = self._now_s()
        return self._keep.change(lambda known: (known, known.state(now_s)))

    def admit(self) -> Permit | None:
        """Return leave for one call, None if it must not be made now."""
        if self._tripped_s is not None:
            return None
        serial, now_s = _dice.getrandbits(63) | 1, self._now_s()
        return self._keep.change(lambda known: known.admit(serial, now_s, self._rules))

    def succeeded(self, permit: Permit) -> None:
        """Take note that the call of ``permit`` went well: closed, unless the link says no."""
        now_s = self._now_s()
        self._note(
            lambda known: (
                known.without(permit) if self._tripped_s is not None else known.succeeded(now_s)
            )
        )

    def failed(self, permit: Permit, after_s: float | None = None) -> None:
        """Take note that it failed; ``after_s`` is how long the other side asked to wait."""
        now_s, asked_s, share = self._now_s(), after_s or 0.0, self._share()
        self._note(
            lambda known: (
                known.without(permit)
                if self._tripped_s is not None
                else known.failed(permit, now_s, self._rules, asked_s=asked_s, share=share)
            )
        )

    def forgot(self, permit: Permit) -> None:
        """Take note that the call of ``permit`` ended without telling anything (cancelled)."""
        self._note(lambda known: known.without(permit))

    def trip(self) -> None:
        """Open at once, until :meth:`recover`: the link is down, or the node holds uploads."""
        if self._tripped_s is None:
            self._tripped_s = self._now_s()

    def recover(self) -> None:
        """Let a single probe through from now on, after :meth:`trip`."""
        tripped_s, self._tripped_s = self._tripped_s, None
        if tripped_s is not None:
            now_s = self._now_s()
            self._note(lambda known: known.recovered(tripped_s, now_s))

    def after_fork(self) -> None:
        """Become the child's: its threads hold no lock here."""
        self._keep.after_fork()

    def _note(self, change: Callable[[Standing], Standing]) -> None:
        self._keep.change(lambda known: (change(known), None))
