"""Properties of MQTT v5 packets, as paho wants them."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from paho.mqtt.packettypes import PacketTypes  # noqa: TID251
from paho.mqtt.properties import Properties  # noqa: TID251


def connect_properties(
    session_expiry_s: int, maximum_packet: int, receive_maximum: int = 0
) -> Properties:
    """Return the properties of CONNECT; without ``receive_maximum`` the protocol's 65535."""
    properties = _properties(
        PacketTypes.CONNECT,
        SessionExpiryInterval=session_expiry_s,
        MaximumPacketSize=maximum_packet,
    )
    if receive_maximum:
        properties.ReceiveMaximum = receive_maximum
    return properties


def will_properties(delay_s: int) -> Properties:
    """Return the properties of a will that the broker publishes after ``delay_s``."""
    return _properties(PacketTypes.WILLMESSAGE, WillDelayInterval=delay_s)


@lru_cache(maxsize=64)
def publish_properties(
    content_type: str | None, user: tuple[tuple[str, str], ...], expiry_s: int = 0
) -> Properties | None:
    """Return the properties of a publication, None when it needs none.

    Some come once and never again (each request for a replay has its own name), so the memory
    that is full of them must be small.
    """
    if not (content_type or user or expiry_s):
        return None
    properties = _properties(PacketTypes.PUBLISH)
    if content_type:
        properties.ContentType = content_type
    for pair in user:
        properties.UserProperty = pair
    if expiry_s:
        properties.MessageExpiryInterval = expiry_s
    return _PackedProperties(properties.pack())  # type: ignore[no-untyped-call]


def _properties(packet: int, **values: Any) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


class _PackedProperties(Properties):
    """Properties of a publication, packed once: packing is the dearest part of publishing.

    Only the bytes are kept: a :class:`Properties` has tables of its own, a hundred objects.
    """

    def __init__(self, packed: bytes) -> None:
        # Properties.__setattr__ takes names of MQTT properties only, its __init__ makes the tables.
        object.__setattr__(self, "_packed", packed)

    def pack(self) -> bytes:
        """Return the properties as they stand in the packet."""
        packed: bytes = self.__dict__["_packed"]
        return packed

    def __str__(self) -> str:
        """Return what paho's log shows."""
        return f"{len(self.pack())} bytes"
