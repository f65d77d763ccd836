"""The fleet's word that work on this node is planned, read strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.readings import MaintenanceReading
from linkhold.model import WireError
from linkhold.wire.maintenance import parse_maintenance_request

if TYPE_CHECKING:
    from linkhold.mqtt import Received


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
