"""The axis of time of a picture: where moments lie, and where its ticks stand."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.report.spans import Period

MOST_TICKS = 9
MINUTE_S, HOUR_S, DAY_S = 60, 3600, 86400
STEPS_S = (
    *(MINUTE_S * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(HOUR_S * hours for hours in (1, 2, 3, 6, 12)),
    *(DAY_S * days for days in (1, 2, 7, 14, 28, 91, 365, 3650)),
)


@dataclass(frozen=True, slots=True)
class Axis:
    """A period from ``left`` to ``right``, in units of the picture."""

    period: Period
    left: float
    right: float

    def x(self, at_s: float) -> float:
        """Return where a moment lies; one outside of the period lies at its border."""
        share = (at_s - self.period.from_s) / max(self.period.seconds, 1e-9)
        return self.left + min(1.0, max(0.0, share)) * (self.right - self.left)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Yield moments and how they are named, UTC."""
        step_s = next((one for one in STEPS_S if self.period.seconds / one <= MOST_TICKS), 0)
        if not step_s:
            return
        at_s = -(-self.period.from_s // step_s) * step_s
        while at_s <= self.period.until_s:
            yield at_s, tick_name(at_s)
            at_s += step_s


def tick_name(at_s: float) -> str:
    """Return a date at midnight, else a time of day."""
    moment = time.gmtime(at_s)
    if at_s % DAY_S == 0:
        return time.strftime("%-d %b", moment)
    return time.strftime("%H:%M", moment)


def stamp(at_s: float) -> str:
    """Return a moment as people read it, UTC, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(max(0.0, min(at_s, 2.5e11))))
