"""MQTT v5 for agent, client and relay; nothing else in linkhold imports paho."""

from linkhold.mqtt.connection import Connection, Will
from linkhold.mqtt.happened import (
    CODE_FAILURE,
    CODE_NO_SUBSCRIBER,
    Acknowledged,
    Connected,
    Lost,
    Notice,
    Received,
    Subscribed,
)
from linkhold.mqtt.tls import Tls

__all__ = [
    "CODE_FAILURE",
    "CODE_NO_SUBSCRIBER",
    "Acknowledged",
    "Connected",
    "Connection",
    "Lost",
    "Notice",
    "Received",
    "Subscribed",
    "Tls",
    "Will",
]
