"""How a Hold ends: on request with a marker and an exit code, or because the loop is done."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from linkhold.client import launcher, marker, summary
from linkhold.client.agreement.torch_group import Late
from linkhold.client.agreement.vector import OutOfStep, Reason
from linkhold.client.boundary import ALONE, Boundary
from linkhold.client.decision import NOBODY
from linkhold.client.pause import RESUMABLE
from linkhold.client.readings import Readings
from linkhold.client.upload_calls import UploadCalls
from linkhold.client.upload_handle import words
from linkhold.wire import rfc3339

if TYPE_CHECKING:
    from linkhold.client.boundary import Together
    from linkhold.client.telling import Teller
    from linkhold.model.numbers import Numbers

EXIT_RESERVE_S = 5.0
"""Left of a stop's deadline for the interpreter to end."""
DRAIN_S = 60.0
MOST_CODE = 255
DRAIN_AFTER_ERROR_S = 5.0


class Ending(Boundary, Readings, UploadCalls):
    """``exit()`` and ``close()`` of a :class:`linkhold.client.Hold`."""

    _teller: Teller

    def exit(self, code: int = RESUMABLE) -> NoReturn:
        """End the program resumably: raises :class:`SystemExit` with ``code``.

        First a marker for the launcher is written (``$LINKHOLD_STOP_MARKER``, else
        ``.linkhold-stop`` in the working folder; JSON with reason, at, step, code), then uploads
        are finished as in :meth:`close`, until 5 s before the deadline, for 60 s without one.
        While they are on hold and none is under way it waits no longer than 60 s in a row,
        however far away the deadline is. Then ranks that agree wait for each other, as one may
        still be saving, and torchrun, which would start them again, is ended. Raises
        :class:`ValueError` for what is no exit code.
        """
        if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code <= MOST_CODE:
            raise ValueError(f"exit: {code!r} is no exit code; 0 to {MOST_CODE} are")
        self._leave(self.stop_reason or self._pause.gave_up or "asked by the program", code)
        raise SystemExit(code)

    def close(self, drain_s: float = DRAIN_S) -> None:
        """Finish uploads within ``drain_s`` seconds and stop listening; may be called twice.

        A hold may end, so uploads on hold are waited for. While only the newest may go it waits
        for that one and for the one under way, not for older ones. Other ranks learn of it at
        their next agreement; they are waited for 2 s.
        """
        self._finish(drain_s, drain_s)
        if self._together is not None:
            self._part(self._together)
        self._end_agreement()

    def _leave(self, reason: str, code: int) -> None:
        """Do all of :meth:`exit` but the end of this process."""
        left_s = self.seconds_left
        content = {"reason": reason, "at": rfc3339(time.time()), "step": self._step, "code": code}
        problem = marker.leave({**content, "pid": os.getpid()})
        if problem is not None:
            self._voice.warning(f"no stop marker for the launcher: {problem}")
        self._voice.info(f"ending at step {self._step}, exit code {code}: {reason}")
        end_s = None if left_s is None else time.monotonic() + left_s - EXIT_RESERVE_S
        self._finish(DRAIN_S if left_s is None else max(0.0, left_s - EXIT_RESERVE_S), DRAIN_S)
        if self._together is not None:
            self._wait_for_others(self._together, end_s)
        self._end_agreement()
        self._end_launcher()

    def _finish(self, drain_s: float, held_s: float) -> None:
        """End all but the agreement with other ranks."""
        if self._closed:
            return
        self._closed = True
        self._end_uploads(drain_s, held_s)
        numbers = self.numbers
        said = summary.line(numbers)
        if said:
            self._voice.info(said)
        self._source.remove(self._raise_attention)
        self._source.neglect(self._cover.tick)
        self._source.neglect(self._tell_numbers)
        self._tell(numbers, last=True)

    def _tell_numbers(self) -> None:
        """Tell the agent what was counted, if it is time to; on the listener's thread."""
        self._tell(self.numbers, last=False)

    def _tell(self, numbers: Numbers, *, last: bool) -> None:
        view, now_s = self._source.newest, time.monotonic()
        if view is not None and (last or self._teller.due(numbers, now_s, view.session)):
            self._teller.tell(self._source.where(), numbers, now_s, view.session)

    def _end_agreement(self) -> None:
        self._together, self._ahead = None, ALONE
        self._guidance, self._attention = NOBODY, False

    def _close_after_error(self) -> None:
        """Leave without a word of agreement: ranks that wait for this one are told at once."""
        self._finish(DRAIN_AFTER_ERROR_S, DRAIN_AFTER_ERROR_S)
        if self._together is not None:
            self._together.rounds.group.destroy()
        self._end_agreement()

    def _part(self, together: Together) -> None:
        try:
            if together.rounds.part(self._wish(together)):
                together.rounds.group.destroy()
                return
        except (RuntimeError, ValueError):
            return  # the others are gone already, or torch.distributed was ended before
        self._voice.info("other ranks still train: they hold nothing together from now on")

    def _wait_for_others(self, together: Together, end_s: float | None) -> None:
        """Wait until every rank ends, until ``end_s`` (time.monotonic()) if there is a deadline.

        The group's threads end here too: one that still has the last agreement in its hands while
        the interpreter ends aborts the process (pytorch/pytorch issue 190489), and the exit code
        would not be the resumable one.
        """
        try:
            done = self._all_leave(together, end_s)
        except Late:
            done = "the time is up, and other ranks have not come to their end"
        except (RuntimeError, ValueError, OutOfStep) as error:
            done = f"a rank has ended before the others were done: {words(error)}"
        if done is None:
            together.rounds.group.destroy()
        else:
            self._voice.warning(done)

    def _all_leave(self, together: Together, end_s: float | None) -> str | None:
        """Agree until all ranks end; return why this one waits no longer, None if all do."""
        first_s: float | None = None
        while True:
            wish = replace(self._wish(together), leaving=True, checkpoint=0, hold=Reason.NONE)
            agreed = together.rounds.meet(wish, end_s)
            together.waiting.over()
            if agreed.leaving or agreed.closing:
                return None
            now_s = time.monotonic()
            first_s = now_s if first_s is None else first_s
            if now_s - first_s > DRAIN_S:
                return f"this rank ends alone: for {DRAIN_S:g} s others have gone on training"

    def _end_launcher(self) -> None:
        pid = launcher.find()
        problem = None if pid is None else launcher.end(pid)
        if problem is not None:
            self._voice.warning(f"torchrun may start this run again: it was not ended: {problem}")

    def _raise_attention(self) -> None:
        raise NotImplementedError
