"""Whether the node can reach anything at all: looked at only after a read has failed.

Workers look at the agent's state file themselves. A thread and a connection to the broker in each
of them would cost memory all day for the sake of the seconds of an outage. Uploads on hold stop no
reads: after an outage they stay so for a while, and training waits for its data.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Protocol

from linkhold import paths
from linkhold.client import decision
from linkhold.client.boot import boot_id
from linkhold.client.decision import Seen
from linkhold.client.retry.node import stopped
from linkhold.client.sources import FileSource
from linkhold.model import WireError
from linkhold.wire import parse_state

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.wire import StateView


class Gate(Protocol):
    """What says whether a read can succeed."""

    def closed(self) -> str | None:
        """Say why no read can succeed now; None when one may."""


class NoGate:
    """Knows of no agent: every read may."""

    def closed(self) -> None:
        """Let every read be tried."""


class StateGate:
    """The newest state of the agent in ``run_dir`` (None: wherever the agent is found)."""

    def __init__(self, run_dir: Path | None = None) -> None:
        self._run_dir = run_dir
        self._file = FileSource()
        self._view: StateView | None = None

    def closed(self) -> str | None:
        """Say why no read can succeed now; None when one may, or when no agent tells."""
        now_ns = time.monotonic_ns()
        self._look(now_ns)
        return stopped(self._view, ("network",), now_ns)

    def _look(self, now_ns: int) -> None:
        folder = self._run_dir or paths.find_run_dir()
        content = self._file.read(folder / paths.STATE_FILE)
        if content is None:
            return
        try:
            found = parse_state(content)
        except WireError:
            return
        if decision.sift(self._view, found, boot_id(), now_ns) is Seen.NEWER:
            self._view = found

    def __reduce__(self) -> tuple[Any, ...]:
        """Carry the folder alone to another process."""
        return StateGate, (self._run_dir,)
