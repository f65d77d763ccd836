"""How long to wait before the next try."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Backoff:
    """Doubling waits from ``first_s`` to ``most_s``, forgotten after ``stable_s`` of success."""

    first_s: float
    most_s: float
    stable_s: float = 30.0
    failures: int = 0

    def failed(self, lasted_s: float) -> tuple[Backoff, float]:
        """Return the next state and the wait in seconds, after a success of ``lasted_s``."""
        failures = 0 if lasted_s >= self.stable_s else self.failures
        wait_s = min(self.most_s, self.first_s * 2.0 ** min(failures, 30))
        return replace(self, failures=failures + 1), wait_s
