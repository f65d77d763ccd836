"""What an error of a loader's iterator means: pure.

The texts are torch's (torch/utils/data/dataloader.py and torch/csrc/DataLoader.cpp). Whether an
error was raised by the data set in a worker is read off its traceback: torch hands such errors on
through ``ExceptionWrapper.reraise``.
"""

from __future__ import annotations

import traceback
from enum import Enum

from linkhold.client.data.retrier import FD_PASSING, passed_by

CHANNEL = (*FD_PASSING, "/multiprocessing/queues.py", "/multiprocessing/connection.py")
"""Errors out of these reached the trainer on the way, not from the data set."""


class Verdict(Enum):
    """What to do about an error."""

    WAIT = "nothing came in time: look around and go on waiting"
    REBUILD = "workers or the way from them are gone: start new ones"
    BATCH = "the data set's own error in the place of a batch: let it through"
    OTHER = "not about the workers: let it through"


def judge(error: Exception, *, killed: bool) -> Verdict:
    """Return what an error of ``next()`` means; ``killed`` tells whether a worker was killed.

    Another loader's dead worker raises here as well (torch's SIGCHLD handler): not our business.
    """
    if _from_worker(error):
        return Verdict.BATCH
    text = str(error) if isinstance(error, RuntimeError) else ""
    if text.startswith("DataLoader timed out after"):
        return Verdict.WAIT
    if text.startswith("DataLoader worker (pid"):
        ours = killed or text.startswith("DataLoader worker (pid(s)")
        return Verdict.REBUILD if ours else Verdict.OTHER
    if text.startswith("Pin memory thread exited") or passed_by(error, CHANNEL):
        return Verdict.REBUILD
    return Verdict.OTHER


def _from_worker(error: BaseException) -> bool:
    frames = traceback.walk_tb(error.__traceback__)
    return any(frame.f_code.co_name == "reraise" for frame, _line in frames)
