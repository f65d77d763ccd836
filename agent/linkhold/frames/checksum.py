"""The checksum of ICMP and ICMPv6."""

from __future__ import annotations

import struct


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071) of ``data``."""
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
