"""What happens on a connection, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field

CODE_NO_SUBSCRIBER = 0x10
"""PUBACK: accepted, and nobody is subscribed (MQTT v5, 3.4.2.1)."""
CODE_FAILURE = 0x80
"""Reason codes from here on are refusals (MQTT v5, 2.4)."""


@dataclass(frozen=True, slots=True)
class Connected:
    """The broker accepted the connection, and said what it can take (MQTT v5, 3.2.2.3).

    ``receive_maximum`` bounds the QoS 1 messages in flight; ``maximum_packet`` the bytes of one
    packet, None without a limit.
    """

    receive_maximum: int = field(default=65535, compare=False)
    maximum_packet: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection ended, or was refused; the object cannot be used any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """The broker answered a QoS 1 publication; ``code`` is the v5 reason code."""

    mid: int
    code: int
    text: str


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The broker answered a subscription; codes from 0x80 on are refusals."""

    codes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Received:
    """A message of a subscribed topic. ``expiry_s`` is None when it carries no expiry.

    ``mid`` is what :meth:`~linkhold.mqtt.Connection.acknowledge` wants to know.
    """

    topic: str
    payload: bytes
    retained: bool
    expiry_s: int | None
    mid: int = field(default=0, compare=False)


Notice = Connected | Lost | Acknowledged | Subscribed | Received
