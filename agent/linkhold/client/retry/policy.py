"""What a retry is allowed to do: frozen values, checked when they are made. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

STOPS = ("network", "uploads")
"""States of the node that stop attempts: the network is down; uploads are on hold."""
NODE, PROCESS = "node", "process"
BREAKERS = (NODE, PROCESS)
"""Who shares a breaker: this user's processes of the node, or one process."""
MOST_RETRIES = 10_000
MOST_CALLS = 1024


@dataclass(frozen=True, slots=True)
class Policy:
    """How often and how long one call is tried.

    ``attempts`` counts calls of the function, the first one included. ``time_limit_s`` holds for
    all of it: attempts, pauses, and waiting for the node or the breaker; an attempt that is under
    way is never interrupted. The n-th pause is drawn from 0 to ``first_pause_s`` x 2^(n-1), at
    most ``longest_pause_s`` (full jitter). After an outage that held calls back, each starts at a
    random moment of ``spread_s``.

    Raises :class:`TypeError` or :class:`ValueError` for the first value that is wrong.
    """

    attempts: int = 15
    time_limit_s: float = 300.0
    first_pause_s: float = 1.0
    longest_pause_s: float = 30.0
    spread_s: float = 5.0

    def __post_init__(self) -> None:
        """Check every field."""
        check_whole("attempts", self.attempts, MOST_RETRIES)
        check_seconds("time_limit_s", self.time_limit_s, above_zero=True)
        check_seconds("first_pause_s", self.first_pause_s)
        check_seconds("longest_pause_s", self.longest_pause_s)
        check_seconds("spread_s", self.spread_s)

    def widest_s(self, failed: int) -> float:
        """Return the upper end of the pause after ``failed`` attempts, in seconds."""
        doublings = min(max(failed, 1) - 1, 64)  # beyond, a float would overflow
        return min(self.longest_pause_s, self.first_pause_s * 2.0**doublings)


@dataclass(frozen=True, slots=True)
class Limits:
    """What all calls of one dependency together are allowed.

    ``budget`` retries in ``budget_window_s`` by all processes of this user on the node, None for
    any number; first attempts are free. ``calls_at_once`` on the node, None for any number.
    ``failures`` in a row open the breaker, for ``open_s`` at first, twice as long after each failed
    probe up to ``longest_open_s``. ``breaker`` says whose it is: the ``node``'s, shared as the
    budget is, or the ``process``'s. ``stop_on`` names the states of the node in
    which no attempt is made: ``network`` (down), ``uploads`` (on hold); empty for a dependency
    on the node itself.

    Raises :class:`TypeError` or :class:`ValueError` for the first value that is wrong.
    """

    budget: int | None = 600
    budget_window_s: float = 60.0
    calls_at_once: int | None = None
    failures: int = 3
    open_s: float = 4.0
    longest_open_s: float = 30.0
    breaker: str = NODE
    stop_on: tuple[str, ...] = STOPS

    def __post_init__(self) -> None:
        """Check every field."""
        if self.budget is not None:
            check_whole("budget", self.budget, MOST_RETRIES, least=0)
        check_seconds("budget_window_s", self.budget_window_s, above_zero=True)
        if self.calls_at_once is not None:
            check_whole("calls_at_once", self.calls_at_once, MOST_CALLS)
        check_whole("failures", self.failures, MOST_RETRIES)
        check_seconds("open_s", self.open_s, above_zero=True)
        check_seconds("longest_open_s", self.longest_open_s, above_zero=True)
        if self.breaker not in BREAKERS:
            raise ValueError(f"breaker: {self.breaker!r} is not one of {', '.join(BREAKERS)}")
        _check_stops(self.stop_on)


def check_whole(name: str, value: Any, most: int, *, least: int = 1) -> None:
    """Raise :class:`TypeError` or :class:`ValueError` unless it is from ``least`` to ``most``."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: {value!r} is no whole number")
    if not least <= value <= most:
        raise ValueError(f"{name}: {value} is not {least} to {most}")


def check_seconds(name: str, value: Any, *, above_zero: bool = False) -> None:
    """Raise :class:`TypeError` or :class:`ValueError` unless it is a finite time in seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name}: {value!r} is no number of seconds")
    if not math.isfinite(value) or value < 0 or (above_zero and value == 0):
        least = "more than 0" if above_zero else "0 or more"
        raise ValueError(f"{name}: {value!r} is not {least}")


def _check_stops(value: Any) -> None:
    if not isinstance(value, tuple):
        raise TypeError(f"stop_on: {value!r} is no tuple; allowed in it: {', '.join(STOPS)}")
    for name in value:
        if name not in STOPS:
            raise ValueError(f"stop_on: {name!r} is not one of {', '.join(STOPS)}")
