"""What the agent's loop hands over to the thread of the fleet leg."""

from __future__ import annotations

import threading

from linkhold.legs.fleet_diagnose import Reports


class Slot:
    """What the agent's loop wants of the leg now: of all but reports only the newest counts."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state: bytes | None = None
        self._version = 0
        self.reports = Reports()
        self.next_seq = 1
        self.news = 0
        self.hurry = False
        self.stop_reason = ""
        self.stop_at_s = float("inf")

    def put_state(self, state: bytes, next_seq: int) -> None:
        """Replace the state to publish."""
        with self._lock:
            self._state, self.next_seq = state, next_seq
            self._version += 1

    def state_after(self, version: int) -> tuple[bytes | None, int]:
        """Return the newest state and its version; no state when ``version`` is it already."""
        with self._lock:
            return (None if version == self._version else self._state), self._version
