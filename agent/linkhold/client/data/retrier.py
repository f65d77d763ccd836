"""One read, tried again in place until it works, is out of time, or is hopeless."""

from __future__ import annotations

import multiprocessing
import random
import traceback
from typing import TYPE_CHECKING, TypeVar

from linkhold.client.data import randomness
from linkhold.client.pause import Clock
from linkhold.client.retry import nesting
from linkhold.client.retry.families import family
from linkhold.client.upload_handle import words

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from linkhold.client.data.gate import Gate
    from linkhold.client.data.shared import Shared
    from linkhold.client.retry.families import Family
    from linkhold.client.retry.policy import Policy
    from linkhold.client.voice import Voice

    Random = tuple[Any, ...]

T = TypeVar("T")

SLICE_S = 0.25
"""So often a wait looks whether it is in vain, and feeds watchdogs."""
QUIET_S = 60.0
"""At most one line about the same data set in this time."""
WORTH_A_LINE_S = 1.0
"""A single hiccup is counted and not spoken of."""

FD_PASSING = (
    "/multiprocessing/resource_sharer.py",
    "/multiprocessing/reduction.py",
    "/torch/multiprocessing/reductions.py",
)

_dice = random.SystemRandom()  # never the global generator: training runs are seeded


def retryable(error: BaseException) -> Family | None:
    """Return the family of an error that another attempt may cure, None for all others.

    Errors of passing descriptors between processes look like network errors and are none: a
    worker that ends closes its end (facts: pytorch issues 28950, 1551, 9127).
    """
    return None if passed_by(error, FD_PASSING) else family(error)


def passed_by(error: BaseException, files: tuple[str, ...]) -> bool:
    """Tell whether the error came out of one of these source files."""
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_filename.endswith(files) for frame, _line in frames)


def attempt(act: Callable[[], T]) -> T:
    """Return ``act()``, while which no retry inside it retries: they would multiply."""
    mark = nesting.Mark()
    try:
        return act()
    finally:
        mark.end()


class Retrier:
    """Tries reads of one data set again, in whichever process it is."""

    def __init__(
        self,
        policy: Policy,
        gate: Gate,
        shared: Shared,
        voice: Voice,
        clock: Clock | None = None,
    ) -> None:
        self.shared = shared
        self.policy = policy
        self.gate = gate
        self.voice = voice
        self.collated: int | None = None
        """How often the collate function of the loader ran here; None: nobody tells."""
        self._clock = clock or Clock()
        self.on_wait: Callable[[], object] | None = None

    def __getstate__(self) -> dict[str, object]:
        """Leave the watchdogs to the trainer."""
        return {**self.__dict__, "on_wait": None}

    def call(self, act: Callable[[], T]) -> T:
        """Return ``act()``, tried again while its errors are retryable.

        Retries of :mod:`linkhold.client.retry` inside it do not retry, and inside one of those
        this does not. Before each further attempt the random generators are set back. Raises
        what ``act`` raised last, or at once what is not retryable.
        """
        before = randomness.capture()
        try:
            return attempt(act)
        except Exception as error:
            if nesting.inside() or retryable(error) is None:
                raise
            failed = error
        return self.again(act, failed, before)

    def again(self, act: Callable[[], T], error: Exception, before: Random) -> T:
        """Try ``act`` again after it failed with ``error``; see :meth:`call`."""
        trial = _Trial(self, error)
        try:
            while True:
                trial.wait_out()
                randomness.restore(before)
                self.shared.count_retry()
                try:
                    result = attempt(act)
                except Exception as newer:  # noqa: BLE001 - judged in there, or raised
                    trial.judge(newer)
                    continue
                trial.succeed()
                return result
        finally:
            trial.end()

    def now_s(self) -> float:
        """Return the seconds of the monotonic clock."""
        return self._clock.now_ns() / 1e9

    def sleep(self, seconds: float) -> None:
        """Sleep one slice and feed watchdogs."""
        self._clock.sleep(seconds)
        if self.on_wait is not None:
            self.on_wait()


class _Trial:
    """The attempts of one read after its first failure."""

    def __init__(self, retrier: Retrier, error: Exception) -> None:
        self._retrier = retrier
        self._policy, self._gate = retrier.policy, retrier.gate
        self._shared, self._voice = retrier.shared, retrier.voice
        self._began_s = retrier.now_s()
        self._failures, self._error = 1, error
        self._spoke = False
        self._shared.begin_wait(self._began_s)

    def wait_out(self) -> None:
        """Pause, and longer while the node is cut off; raises the last error when in vain."""
        known = retryable(self._error)
        asked_s = (known and known.retry_after_s) or 0.0  # never less than the server asks for
        due_s = self._now() + asked_s + _dice.uniform(0, self._policy.widest_s(self._failures))
        why: str | None = None
        while True:
            closed = self._gate.closed()
            now_s = self._now()
            if why is not None and closed is None:
                due_s = now_s + _dice.uniform(0, self._policy.spread_s)
            why = closed
            self._give_up_in_vain(now_s)
            if why is None and now_s >= due_s:
                return
            self._say_once(now_s, why)
            left_s = self._began_s + self._policy.time_limit_s - now_s
            until_s = left_s if why is not None else min(left_s, due_s - now_s)
            self._retrier.sleep(min(SLICE_S, until_s))

    def judge(self, error: Exception) -> None:
        """Take note of a further failure; raises one that no attempt can cure."""
        if retryable(error) is None:
            raise error
        self._failures, self._error = self._failures + 1, error

    def succeed(self) -> None:
        """Say that it works again, if this process said that it did not."""
        if self._spoke:
            waited_s = self._now() - self._began_s
            # A warning as well: whoever read the start reads the end.
            self._voice.warning(
                f"data comes again after {waited_s:.1f} s, {self._failures} failures"
            )

    def end(self) -> None:
        """Close the books."""
        self._shared.end_wait(self._now())

    def _now(self) -> float:
        return self._retrier.now_s()

    def _give_up_in_vain(self, now_s: float) -> None:
        waited_s = now_s - self._began_s
        if waited_s >= self._policy.time_limit_s:
            self._voice.warning(
                f"data given up after {waited_s:.0f} s and {self._failures} attempts "
                f"(max_wait_s): {words(self._error)}"
            )
            raise self._error
        parent = multiprocessing.parent_process()
        if parent is not None and not parent.is_alive():
            raise self._error  # the trainer is gone: nobody waits for this worker's data

    def _say_once(self, now_s: float, why: str | None) -> None:
        if self._spoke or (why is None and now_s - self._began_s < WORTH_A_LINE_S):
            return
        if self._shared.first_to_say(now_s, QUIET_S):
            self._spoke = True
            reason = why or words(self._error)
            self._voice.warning(
                f"reading data waits, at most {self._policy.time_limit_s:.0f} s: {reason}"
            )
