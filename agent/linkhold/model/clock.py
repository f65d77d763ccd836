"""An instant on both clocks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """One instant on both clocks.

    ``mono_ns`` (CLOCK_MONOTONIC, nanoseconds) is what every decision uses; ``wall_s`` (seconds
    since 1970, UTC) is only ever shown to people, since it may jump.
    """

    mono_ns: int
    wall_s: float = field(compare=False)

    def seconds_since(self, earlier: Moment) -> float:
        """Return the seconds from ``earlier`` to this moment, by the monotonic clock."""
        return (self.mono_ns - earlier.mono_ns) / 1e9
