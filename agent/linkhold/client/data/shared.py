"""Numbers that the workers of one data set share with their trainer.

There is no lock: a worker that is killed while it holds one would stop all others for ever. Each
worker writes its own row. Rows are 8-byte numbers, written whole by the hardware.
"""

from __future__ import annotations

import contextlib
import sys
from multiprocessing import sharedctypes
from multiprocessing.context import get_spawning_popen
from typing import Any

ROWS = 129
"""The trainer's own, and 128 workers; workers beyond share rows, and may lose a count."""
RETRIES, WAITED, SINCE = range(3)
COLUMNS = 3
SAID = 0
HEAD = 1
BEFORE_BOOT = -1e9


class Shared:
    """Counters and waits of all processes that read one data set.

    Goes to children by fork, spawn and forkserver. Copied or pickled in any other way the copy
    begins at zero.
    """

    def __init__(self) -> None:
        self._cells: Any = sharedctypes.RawArray("d", HEAD + ROWS * COLUMNS)
        self._cells[SAID] = BEFORE_BOOT

    def __getstate__(self) -> dict[str, Any]:
        return {"_cells": self._cells} if get_spawning_popen() is not None else {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state:
            self._cells = state["_cells"]
        else:
            Shared.__init__(self)

    @property
    def retries(self) -> int:
        """Attempts after a failed one, of all workers."""
        return int(sum(self._column(RETRIES)))

    @property
    def waited_s(self) -> float:
        """Seconds that workers spent in pauses and on hold, of all workers, finished waits only."""
        return float(sum(self._column(WAITED)))

    @property
    def waiting(self) -> int:
        """How many workers wait at this moment."""
        return sum(since > 0 for since in self._column(SINCE))

    def forget_waits(self) -> None:
        """Forget that workers wait: they are no more (for the trainer)."""
        for row in range(1, ROWS):
            self._cells[_cell(row, SINCE)] = 0.0

    def count_retry(self) -> None:
        """Count one more attempt of this process."""
        self._cells[_cell(_row(), RETRIES)] += 1

    def begin_wait(self, now_s: float) -> None:
        """Note that this process waits since ``now_s`` of the monotonic clock."""
        self._cells[_cell(_row(), SINCE)] = now_s

    def end_wait(self, now_s: float) -> None:
        """Note that its wait is over."""
        row = _row()
        since = self._cells[_cell(row, SINCE)]
        if since > 0:
            self._cells[_cell(row, SINCE)] = 0.0
            self._cells[_cell(row, WAITED)] += max(0.0, now_s - since)

    def first_to_say(self, now_s: float, quiet_s: float) -> bool:
        """Tell whether this process is the one that speaks of the outage.

        It is when nobody waits for longer and nothing was said for ``quiet_s`` seconds.
        """
        row = _row()
        mine = (self._cells[_cell(row, SINCE)], row)
        others = ((since, other) for other, since in enumerate(self._column(SINCE)) if since > 0)
        if any(other < mine for other in others) or now_s - self._cells[SAID] < quiet_s:
            return False
        self._cells[SAID] = now_s
        return True

    def _column(self, column: int) -> list[float]:
        return list(self._cells[HEAD + column :: COLUMNS])


def worker_id() -> int | None:
    """Return the number of this DataLoader worker, None in the trainer itself."""
    data = sys.modules.get("torch.utils.data")
    info = None
    with contextlib.suppress(AttributeError):  # torch is only half imported
        info = data.get_worker_info() if data is not None else None
    return None if info is None else int(info.id)


def _row() -> int:
    number = worker_id()
    return 0 if number is None else 1 + number % (ROWS - 1)


def _cell(row: int, column: int) -> int:
    return HEAD + row * COLUMNS + column
