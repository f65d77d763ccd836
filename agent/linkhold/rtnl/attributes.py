"""Attributes of rtnetlink messages: finding them, and packing new ones. Pure."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from linkhold.rtnl.framing import Malformed

if TYPE_CHECKING:
    from collections.abc import Iterator

Span = tuple[int, int]

NLA_TYPE_MASK = 0x3FFF
"""linux/netlink.h: the two upper bits are flags (nested, network byte order)."""
NLA_F_NESTED = 0x8000

_ATTRIBUTE = struct.Struct("=HH")


def each(data: bytes, start: int, end: int) -> Iterator[tuple[int, Span]]:
    """Yield type (without flag bits) and payload place of each attribute, in order.

    Raises :class:`Malformed` where an attribute is longer than its message.
    """
    position, size, unpack = start, _ATTRIBUTE.size, _ATTRIBUTE.unpack_from
    while position + size <= end:
        length, kind = unpack(data, position)
        if length < size or position + length > end:
            raise Malformed("an attribute is longer than its message")
        yield kind & NLA_TYPE_MASK, (position + size, position + length)
        position += (length + 3) & ~3


def attributes(data: bytes, start: int, end: int) -> dict[int, Span]:
    """Return where the payload of each attribute lies, by type; the last of a type counts."""
    return dict(each(data, start, end))


def pack(kind: int, payload: bytes) -> bytes:
    """Return one attribute, padded to four bytes."""
    return (
        _ATTRIBUTE.pack(_ATTRIBUTE.size + len(payload), kind)
        + payload
        + b"\0" * (-len(payload) % 4)
    )


def u8(kind: int, value: int) -> bytes:
    """Return an attribute that is an 8-bit number."""
    return pack(kind, struct.pack("=B", value))


def u32(kind: int, value: int) -> bytes:
    """Return an attribute that is a 32-bit number, in host byte order."""
    return pack(kind, struct.pack("=I", value))


def text(kind: int, value: str) -> bytes:
    """Return an attribute that is a C string, of the kernel's own bytes where it is no UTF-8."""
    return pack(kind, value.encode("utf-8", "surrogateescape") + b"\0")


def nest(kind: int, *inner: bytes) -> bytes:
    """Return an attribute that holds others."""
    return pack(kind | NLA_F_NESTED, b"".join(inner))
