"""What a Hold was good for, in numbers, and in one line at the end of a run.

Attempts avoided are counted by what the same back-off would have done without a word from the
node: while a call or an upload is kept back, one attempt at once, then one after each pause of
mean length (half of the widest, as jitter is full), as many as are allowed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from linkhold.client.upload_tries import FIRST_PAUSE_S, LONGEST_PAUSE_S, MAX_TRIES
from linkhold.client.voice import many
from linkhold.model.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from linkhold.client.data.loader import Counts
    from linkhold.client.upload_handle import Upload


class Tally:
    """Counts the uploads of one worker, which calls it under its own lock."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self.done = self.failed = self.retries = self.kept_back = 0
        self._avoided = 0
        self._since_s: dict[int, float] = {}

    def hold(self, waiting: Iterable[Upload]) -> None:
        """Note that none of these may go."""
        now_s = self._now_s()
        for upload in waiting:
            if upload.serial not in self._since_s:
                self._since_s[upload.serial] = now_s
                if not upload.kept_back:
                    upload.kept_back = True
                    self.kept_back += 1

    def go(self) -> None:
        """Note that uploads may go again."""
        if self._since_s:
            self._avoided, self._since_s = self.avoided, {}

    def ended(self, upload: Upload) -> None:
        """Note that an upload is done or failed for good."""
        self.done += upload.error is None
        self.failed += upload.error is not None
        self.retries += max(0, upload.attempts - 1)

    @property
    def avoided(self) -> int:
        """The attempts avoided so far, the hold that goes on included."""
        now_s = self._now_s()
        return self._avoided + sum(
            attempts_in(now_s - began_s, FIRST_PAUSE_S, LONGEST_PAUSE_S, MAX_TRIES)
            for began_s in tuple(self._since_s.values())
        )


def attempts_in(seconds: float, first_s: float, longest_s: float, most: int) -> int:
    """Return how many attempts a full-jitter back-off makes in a time, at its mean pauses. Pure.

    Pauses widen from ``first_s`` by doubling up to ``longest_s``; the first attempt is at once.
    """
    made, at_s, widest_s = 0, 0.0, first_s
    while made < most and at_s <= seconds:
        made += 1
        at_s += min(widest_s, longest_s) / 2
        widest_s = min(widest_s * 2, longest_s)
    return made


def collect(
    held_s: float,
    holds: int,
    tally: Tally | None,
    loaders: Sequence[Counts],
    before: tuple[int, int],
) -> Numbers:
    """Return all numbers; ``loaders`` are those of what ``hold.data()`` returned.

    ``before`` is what :func:`calls_so_far` returned when counting began.
    """
    uploads = tally or Tally()
    retries, avoided = calls_so_far()
    return Numbers(
        held_s=held_s,
        holds=holds,
        uploads=uploads.done,
        uploads_kept_back=uploads.kept_back,
        uploads_failed=uploads.failed,
        retries=retries - before[0] + uploads.retries,
        attempts_avoided=avoided - before[1] + uploads.avoided,
        data_retries=sum(loader.retries for loader in loaders),
        data_rebuilds=sum(loader.rebuilds for loader in loaders),
    )


def calls_so_far() -> tuple[int, int]:
    """Return the retries of this process by :mod:`linkhold.client.retry`, and attempts avoided."""
    retry = sys.modules.get("linkhold.client.retry.dependency")
    calls: list[Mapping[str, float]] = [] if retry is None else list(retry.counters().values())
    return int(sum(call["retries"] for call in calls)), sum(map(_calls_avoided, calls))


def line(numbers: Numbers) -> str:
    """Say what there is to say, in one line; empty when there is nothing."""
    parts = [
        f"training held {numbers.held_s:.1f} s in {many(numbers.holds, 'hold')}"
        if numbers.holds
        else "",
        _if(numbers.uploads_kept_back, "upload", " kept back while nothing could go"),
        _if(numbers.uploads_failed, "upload", " failed for good"),
        _if(numbers.attempts_avoided, "attempt", " avoided that could not have worked"),
        _if(numbers.retries, "further attempt", " after a failed one"),
        _if(numbers.data_retries, "read", " of data tried again"),
        f"data workers replaced {many(numbers.data_rebuilds, 'time')}"
        if numbers.data_rebuilds
        else "",
    ]
    said = "; ".join(part for part in parts if part)
    return f"this run: {said}" if said else ""


def _calls_avoided(counters: Mapping[str, float]) -> int:
    """Return the attempts that held calls did not make, each taken to have waited the mean."""
    calls = int(counters["held_calls"])
    if not calls:
        return 0
    from linkhold.client.retry.policy import Policy  # noqa: PLC0415 - there are calls: it is loaded

    policy = Policy()
    waited_s = counters["held_s"] / calls
    return calls * attempts_in(
        waited_s, policy.first_pause_s, policy.longest_pause_s, policy.attempts
    )


def _if(count: int, what: str, then: str) -> str:
    return f"{many(count, what)}{then}" if count else ""
