"""The fleet's word that work on this node is planned, read strictly."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from linkhold.decide.readings import MaintenanceReading
from linkhold.model import WireError
from linkhold.wire.maintenance import parse_maintenance_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.mqtt import Received

MOST_A_MINUTE = 10


class Announcements:
    """Takes a few requests a minute: each is an event, and thousands would hold up the agent."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._taken_s: deque[float] = deque(maxlen=MOST_A_MINUTE)

    def received(self, message: Received) -> MaintenanceReading | None:
        """Return what a message announces; None for no request, and for one too many."""
        reading, now_s = maintenance_in(message), self._clock()
        full = len(self._taken_s) == MOST_A_MINUTE and now_s - self._taken_s[0] < 60.0  # noqa: PLR2004
        if reading is None or full:
            return None
        self._taken_s.append(now_s)
        return reading


def maintenance_in(message: Received) -> MaintenanceReading | None:
    """Return what a message of ``cmd/maintenance`` announces, None for what is no request.

    A retained one would begin again at each connect, one without expiry whenever a broker finds
    it again; expiry 0 has passed (MQTT v5, 3.3.2.3.3).
    """
    if message.retained or not message.expiry_s:
        return None
    try:
        return MaintenanceReading(*parse_maintenance_request(message.payload))
    except WireError:
        return None
