"""Tells the node's agent what a Hold has counted, for the agent's metrics.

One short connection to the control socket at a time, from the listener's thread: it waits for
100 ms at most, and an agent that does not take it is asked again later. One that has no room is
asked again for half a second: the ranks of a node are in step, and the last word of each comes at
the same moment.
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.client import fork
from linkhold.model.numbers import JobLabel, Numbers
from linkhold.paths import CONTROL_SOCKET
from linkhold.wire.numbers import clean_label, numbers_request

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGED_S, UNCHANGED_S = 15.0, 60.0
"""Pauses between two words: after a change, and without one (the agent forgets who is silent)."""
WAIT_S = 0.1
PATIENCE_S, LONGEST_PAUSE_MS = 0.5, 50
"""Of one word, where the agent has no room; the pauses are as they fall."""
MOST_ANSWER_BYTES = 4096
BUSY = b'"busy":true'
NO_RUN = re.compile(r"|none|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""torchrun's TORCHELASTIC_RUN_ID where nobody named the run (torch/distributed/run.py)."""


class Teller:
    """Tells the numbers of one Hold in one process; a forked child has none of its own to tell."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._process = secrets.token_hex(8)
        self._label: JobLabel | None = None
        self._told: Numbers | None = None
        self._session = ""
        self._last_s = time.monotonic()

    def due(self, numbers: Numbers, now_s: float, session: str) -> bool:
        """Whether to tell these now, ``now_s`` of time.monotonic().

        ``session`` is the agent's: one that was started again knows nothing, and is told at once.
        A sum that grows as one process after the other comes by would look like news.
        """
        if self._pid != os.getpid():
            return False
        if self._told is not None and session != self._session:
            return True
        pause_s = UNCHANGED_S if numbers == self._told else CHANGED_S
        return now_s - self._last_s >= pause_s

    def tell(self, run_dir: Path, numbers: Numbers, now_s: float, session: str) -> bool:
        """Tell them; return whether the agent took them. Raises nothing, waits as above."""
        self._last_s = now_s
        if session != self._session:
            self._session, self._told = session, None
        if self._label is None:
            self._label = job_label(os.environ)
        request = numbers_request(self._label, self._process, numbers)
        if self._pid != os.getpid() or not _taken(run_dir / CONTROL_SOCKET, request):
            return False
        self._told = numbers
        return True


def job_label(environment: Mapping[str, str]) -> JobLabel:
    """Return how this process's job is named in metrics: by its script and its named run."""
    named = environment.get("TORCHELASTIC_RUN_ID", "")
    run = "" if NO_RUN.fullmatch(named) else named
    slurm = environment.get("SLURM_JOB_ID", "")
    run = run or (f"slurm{slurm}" if slurm else "")
    return JobLabel(clean_label(_script()) or "python", clean_label(run))


def _script() -> str:
    """Return the name of what runs: ``train.py``, or ``package.train`` after ``python -m``."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name).removesuffix(".__main__")
    name = sys.argv[0] if sys.argv else ""
    return "" if name in {"", "-c"} else Path(name).name


def _taken(path: Path, request: bytes) -> bool:
    until_s = time.monotonic() + PATIENCE_S
    answer = _ask(path, request)
    while BUSY in answer and time.monotonic() < until_s:
        time.sleep(secrets.randbelow(LONGEST_PAUSE_MS) / 1000)  # the trainer's random stays its own
        answer = _ask(path, request)
    return answer.startswith(b'{"ok":true')


def _ask(path: Path, request: bytes) -> bytes:
    """Return the agent's answer, empty where there is none. Raises nothing."""
    with fork.no_fork(), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(WAIT_S)
        try:
            asking.connect(str(path))
            with suppress(BrokenPipeError, ConnectionResetError):  # why waits to be read
                asking.sendall(request)
            return asking.recv(MOST_ANSWER_BYTES)
        except BlockingIOError:  # connect(2): more wait than the socket has room for
            return BUSY
        except OSError:
            return b""
