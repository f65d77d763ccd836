"""When to connect and how fast to send: pure, with the time in seconds handed in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Every time of the fleet leg, in seconds; ``rate`` is events a second at most.

    After a connection that was lost within ``stable_s`` the next one counts as ``up`` only once
    it held for ``settle_s``: a broker that accepts and drops is down, not up and down by turns.
    """

    connack_s: float = 10.0
    ack_s: float = 10.0
    probe_s: float = 300.0
    backoff_least_s: float = 1.0
    backoff_most_s: float = 60.0
    stable_s: float = 30.0
    settle_s: float = 5.0
    hurry_s: float = 0.5
    rate: float = 200.0


class Pacer:
    """A token bucket: at most ``rate`` a second, and a tenth of that at once."""

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._burst = max(1.0, rate / 10)
        self._tokens = self._burst
        self._at_s = now_s

    def take(self, now_s: float) -> bool:
        """Tell whether one more may go now, and count it."""
        self._tokens = min(self._burst, self._tokens + (now_s - self._at_s) * self._rate)
        self._at_s = now_s
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def wait_s(self) -> float:
        """Return how long after the last :meth:`take` the next one may go."""
        return max(0.0, (1 - self._tokens) / self._rate)
