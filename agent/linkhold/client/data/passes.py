"""One pass over a loader with workers: nothing delivered twice, nothing left out."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from linkhold.client.data.courses import Missing
from linkhold.client.data.rebuilds import WorkersLost
from linkhold.client.data.verdict import Verdict, judge
from linkhold.client.upload_handle import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.client.data.courses import Course
    from linkhold.client.data.crew import Crew
    from linkhold.client.data.rebuilds import Rebuilds
    from linkhold.client.voice import Voice

START_PAUSE_S = 1.0
"""Pause after new workers could not be started, for lack of memory or processes."""


class Pass:
    """The iterator that a training loop gets. Starts at its first batch."""

    def __init__(self, crew: Crew, course: Course, rebuilds: Rebuilds, voice: Voice) -> None:
        self._crew, self._course = crew, course
        self._rebuilds, self._voice = rebuilds, voice
        self._begun = self._ended = False

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self._ended:
            raise StopIteration
        while True:
            try:
                handed_on, batch = self._course.step() if self._begun else self._begin()
            except StopIteration:
                self.close()
                raise
            except Exception as error:
                if not self._mend(error):
                    raise  # here, where no frame keeps the error and so the workers alive
                continue
            if handed_on:
                self._rebuilds.progress()
                return batch

    def close(self) -> None:
        """End the pass and let go of its workers."""
        if not self._ended:
            self._ended = True
            if self._begun:
                self._crew.release()

    def __del__(self) -> None:
        self.close()

    def _begin(self) -> tuple[bool, Any]:
        self._begun = True
        self._rebuilds.begin()
        self._course.begin()
        return False, None

    def _mend(self, error: Exception) -> bool:
        """Replace the workers if that helps; return whether it did."""
        verdict = self._judge(error)
        if verdict is Verdict.BATCH:
            self._course.failed()
        if verdict is not Verdict.REBUILD:
            return False
        fault: Exception | None = error
        while fault is not None:
            self._spend(fault)
            fault = self._replace()
        return True

    def _judge(self, error: Exception) -> Verdict:
        if isinstance(error, Missing):
            return Verdict.REBUILD
        return judge(error, killed=self._crew.killed)

    def _spend(self, error: Exception) -> None:
        course = self._course
        refusal = course.refusal()
        if refusal is not None:
            raise WorkersLost(f"data workers died ({words(error)}); {refusal}") from error
        try:
            line = self._rebuilds.spend(words(error), course.delivered, course.due())
        except WorkersLost as lost:
            self._crew.end()
            self._ended = True
            raise lost from error
        self._voice.warning(line)

    def _replace(self) -> Exception | None:
        """Start new workers; return the error if they died at once or could not be started."""
        try:
            self._course.go_on(gently=self._rebuilds.in_vain > 1)
        except Exception as error:
            if self._judge(error) is not Verdict.REBUILD and not isinstance(error, OSError):
                raise
            time.sleep(START_PAUSE_S)
            return error
        return None
