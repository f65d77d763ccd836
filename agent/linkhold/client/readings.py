"""What a Hold tells of itself: every property may be read from any thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.client import decision, saves
from linkhold.client.summary import collect

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold import model
    from linkhold.client.boundary import Together
    from linkhold.client.checkpoints import Checkpoints
    from linkhold.client.cover import Cover
    from linkhold.client.data.loader import Counts
    from linkhold.client.decision import Guidance
    from linkhold.client.listener import Source
    from linkhold.client.pause import Clock, Pause
    from linkhold.client.upload import Uploader
    from linkhold.model.numbers import Numbers


class Readings:
    """The properties of a :class:`~linkhold.client.Hold`, which has what they are read from."""

    _checkpoints: Checkpoints
    _clock: Clock
    _cover: Cover
    _guidance: Guidance
    _pause: Pause
    _together: Together | None
    _source: Source
    _uploader: Uploader | None
    _read: tuple[Counts, ...]
    _calls_before: tuple[int, int]

    @property
    def local_only(self) -> bool:
        """Whether the agent asks for a checkpoint that had better stay on the local disk.

        Before its deadline there is no time for an upload: the agent says so, or 1.5 times what a
        save takes here does not fit. :meth:`upload` queues one all the same.
        """
        if self._guidance.checkpoint is None and self._guidance.stop is None:
            return False
        now_ns = self._clock.now_ns()
        guidance = self._in_force(now_ns)
        if guidance.checkpoint is not None and guidance.checkpoint.local_only:
            return True
        left_s = decision.seconds_left(guidance.stop, now_ns)
        return not saves.fits(saves.expected_s(self._checkpoints.saves), left_s)

    @property
    def stop_due(self) -> bool:
        """Whether to end now, resumably: call :meth:`exit`."""
        return self._stop() is not None

    @property
    def stop_reason(self) -> str | None:
        """Why to end, None when there is no reason to."""
        stop = self._stop()
        return None if stop is None else stop.reason

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the machine goes; None when no stop is due or it has no deadline."""
        return decision.seconds_left(self._stop(), self._clock.now_ns())

    @property
    def held_s(self) -> float:
        """Seconds that training has been on hold so far, the current hold included."""
        return self._pause.held_s

    @property
    def numbers(self) -> Numbers:
        """What this Hold was good for so far: see :class:`linkhold.model.numbers.Numbers`."""
        tally = None if self._uploader is None else self._uploader.tally
        return collect(self._pause.held_s, self._pause.holds, tally, self._read, self._calls_before)

    @property
    def waiting_for(self) -> str | None:
        """Why training is on hold at this moment, None while it runs."""
        return self._pause.waiting_for

    @property
    def on_wait(self) -> Callable[[], object] | None:
        """Called at least twice a second while training is on hold, to feed watchdogs."""
        return self._pause.on_wait

    @on_wait.setter
    def on_wait(self, hook: Callable[[], object] | None) -> None:
        self._pause.on_wait = hook

    def feed(self) -> None:
        """Call :attr:`on_wait` now, for training that is slow for a reason of its own."""
        self._pause.feed()

    @property
    def may_save(self) -> bool:
        """Whether a checkpoint has somewhere to go; the same on all ranks that agree.

        Only ever no with ``checkpoint_to="remote"``, while uploads are on hold.
        """
        return self._checkpoints.may_save(self._in_force(self._clock.now_ns()))

    @property
    def last_save_s(self) -> float | None:
        """Seconds that the last save took, None before the first."""
        return self._checkpoints.saves.last_s

    @property
    def save_s(self) -> float | None:
        """Moving mean of the save times in seconds, None before the first."""
        return self._checkpoints.saves.mean_s

    @property
    def counters(self) -> dict[str, int]:
        """How many states came and what became of them, and what went wrong in listening."""
        return dict(self._source.counters)

    @property
    def covered(self) -> dict[str, int]:
        """How many of this process's TCP connections have keepalive by us, or why they do not.

        ``covered``; left alone as ``own`` (a setting of their program), ``local`` (they stay in
        this machine) or ``excluded``; ``refused`` by the kernel. Empty before the first look.
        """
        return dict(self._cover.counts)

    @property
    def ranks(self) -> int:
        """How many ranks agree with this one, itself included; 1 where it is on its own."""
        return 1 if self._together is None else self._together.rounds.group.ranks

    def _in_force(self, now_ns: int) -> Guidance:
        if self._together is not None:
            return self._guidance  # as agreed; the agent's silence was each rank's to weigh before
        fresh = decision.is_fresh(self._source.newest, now_ns)
        return decision.in_force(self._guidance, fresh=fresh, now_ns=now_ns)

    def _stop(self) -> model.StopRequest | None:
        if self._guidance.stop is None:
            return None
        return self._in_force(self._clock.now_ns()).stop
