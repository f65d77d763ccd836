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
    """Return the properties of a publication, None when it needs none."""
    needed = content_type or user or expiry_s
    return _PackedProperties(content_type, user, expiry_s) if needed else None


def _properties(packet: int, **values: Any) -> Properties:
    properties = Properties(packet)  # type: ignore[no-untyped-call]
    for name, value in values.items():
        setattr(properties, name, value)
    return properties


class _PackedProperties(Properties):
    """Properties of a publication, packed once: packing is the dearest part of publishing."""

    def __init__(
        self, content_type: str | None, user: tuple[tuple[str, str], ...], expiry_s: int
    ) -> None:
        super().__init__(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if content_type:
            self.ContentType = content_type
        for pair in user:
            self.UserProperty = pair
        if expiry_s:
            self.MessageExpiryInterval = expiry_s
        # Properties.__setattr__ takes names of MQTT properties only.
        object.__setattr__(self, "_packed", super().pack())  # type: ignore[no-untyped-call]

    def pack(self) -> bytes:
        """Return the properties as they stand in the packet."""
        packed: bytes = self.__dict__["_packed"]
        return packed
