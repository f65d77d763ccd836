"""paho's callbacks and codes, as the plain values of :mod:`linkhold.mqtt.happened`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho  # noqa: TID251

from linkhold.mqtt.happened import (
    Acknowledged,
    Connected,
    Lost,
    Notice,
    Received,
    Subscribed,
)

if TYPE_CHECKING:
    from collections import deque

    from paho.mqtt.enums import MQTTErrorCode  # noqa: TID251

UNSPECIFIED_ERROR = 0x80
CONNECTION_LOST = "connection lost"


def attach(client: paho.Client, notices: deque[Notice]) -> None:
    """Turn callbacks into values. They hold no reference to the connection: no cycle, no leak."""

    def connected(_c: Any, _u: Any, _flags: Any, code: Any, properties: Any) -> None:
        notices.append(Lost(f"refused: {code}") if code.is_failure else _connected(properties))

    def disconnected(_c: Any, _u: Any, flags: Any, code: Any, _p: Any) -> None:
        notices.append(Lost(_why_lost(code, said=flags.is_disconnect_packet_from_server)))

    def published(_c: Any, _u: Any, mid: int, code: Any, _p: Any) -> None:
        notices.append(Acknowledged(mid, int(code.value), str(code)))

    def subscribed(_c: Any, _u: Any, _mid: int, codes: Any, _p: Any) -> None:
        notices.append(Subscribed(tuple(int(code.value) for code in codes)))

    def received(_c: Any, _u: Any, message: Any) -> None:
        notices.append(_received(message))

    client.on_connect = connected
    client.on_disconnect = disconnected
    client.on_publish = published
    client.on_subscribe = subscribed
    client.on_message = received


def _why_lost(code: Any, *, said: bool) -> str:
    """Return the reason of an end; paho makes up a code when the broker ``said`` nothing."""
    return CONNECTION_LOST if code.value == UNSPECIFIED_ERROR and not said else str(code)


def error_text(result: MQTTErrorCode) -> str:
    """Return the reason of a call that failed, as a person would say it."""
    if result in {paho.MQTT_ERR_CONN_LOST, paho.MQTT_ERR_NO_CONN}:
        return CONNECTION_LOST
    return paho.error_string(result)


def _connected(properties: Any) -> Connected:
    return Connected(
        receive_maximum=getattr(properties, "ReceiveMaximum", 65535),
        maximum_packet=getattr(properties, "MaximumPacketSize", None),
    )


def _received(message: Any) -> Received:
    properties = message.properties
    try:
        topic = message.topic
    except UnicodeDecodeError:
        topic = ""
    return Received(
        topic=topic,
        payload=bytes(message.payload),
        retained=bool(message.retain),
        expiry_s=getattr(properties, "MessageExpiryInterval", None),
        mid=int(message.mid),
    )
