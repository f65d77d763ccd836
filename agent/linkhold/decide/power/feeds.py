"""The cables of a server with several power supply units: what is lost of them, and no more.

Behind a UPS a PSU has voltage as long as the battery lasts, so its voltage tells nobody that mains
are there; and one that has none while the machine runs is a lost feed, no outage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.power.meaning import What, meaning
from linkhold.decide.power.values import Said

if TYPE_CHECKING:
    from collections.abc import Iterable

    from linkhold.model.power_sources import PsuInput

LEAST_FEED_VOLTS = 36.0
"""No feed of a server has less (-48 V); the 12 V of a voltage regulator on the board is none."""
DEAD_VOLTS = 10.0


def of_feeds(source: str, inputs: Iterable[PsuInput]) -> Said | None:
    """Return what the PSUs say together; None where this machine shows no feed.

    A unit without voltage is a PSU where another of the same driver has that of a feed.
    """
    told = list(inputs)
    drivers = {one.driver for one in told if abs(one.volts) >= LEAST_FEED_VOLTS}
    fed = [one for one in told if abs(one.volts) >= LEAST_FEED_VOLTS]
    lost = [one for one in told if one.driver in drivers and abs(one.volts) < DEAD_VOLTS]
    if not fed:
        return None
    # No voltage in it: it moves all the time, and each change would be told.
    shown = f"{len(fed)} of {len(fed) + len(lost)} feeds of this machine have voltage"
    reason = f"feed lost: {', '.join(one.name for one in lost)}" if lost else ""
    return Said(source, meaning(What.NONE, shown, reason=reason))
