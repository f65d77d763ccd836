"""Makes the bytes of MQTT v5 packets, also of those that no client of ours would send."""

from __future__ import annotations

CONNACK = b"\x20\x03\x00\x00\x00"
EXPIRY = b"\x02\x00\x00\x00\x3c"
"""The property of a message that expires after a minute."""


def number(value: int) -> bytes:
    """Return a variable byte integer (1.5.5)."""
    found = b""
    while True:
        value, low = divmod(value, 128)
        found += bytes((low | (128 if value else 0),))
        if not value:
            return found


def text(value: bytes) -> bytes:
    """Return a text with its length before it."""
    return len(value).to_bytes(2, "big") + value


def user(name: str, value: str) -> bytes:
    """Return a user property."""
    return b"\x26" + text(name.encode()) + text(value.encode())


def packet(head: int, body: bytes) -> bytes:
    """Return a packet."""
    return bytes((head,)) + number(len(body)) + body


def connect(name: bytes) -> bytes:
    """Return a CONNECT with a clean start."""
    return packet(0x10, text(b"MQTT") + b"\x05\x02\x00\x3c\x00" + text(name))


def publish(
    topic: str, payload: bytes, properties: bytes = b"", *, qos: int = 0, retain: bool = False
) -> bytes:
    """Return a PUBLISH; with a QoS its identifier is 1."""
    identifier = b"\x00\x01" if qos else b""
    body = text(topic.encode()) + identifier + number(len(properties)) + properties + payload
    return packet(0x30 | qos << 1 | retain, body)
