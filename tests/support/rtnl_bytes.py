"""Makes the bytes of rtnetlink messages for tests: the reverse of linkhold's decoder."""

from __future__ import annotations

import socket
import struct

FAMILY_NUMBERS = {"inet": socket.AF_INET, "inet6": socket.AF_INET6}


def attr(kind: int, payload: bytes) -> bytes:
    """Return one attribute with its padding."""
    return struct.pack("=HH", 4 + len(payload), kind) + payload + bytes(-len(payload) % 4)


def u8(kind: int, value: int) -> bytes:
    """Return an 8-bit attribute."""
    return attr(kind, bytes([value]))


def u32(kind: int, value: int) -> bytes:
    """Return a 32-bit attribute."""
    return attr(kind, struct.pack("=I", value))


def text(kind: int, value: str) -> bytes:
    """Return a NUL-terminated text attribute."""
    return attr(kind, value.encode() + b"\0")


def nest(kind: int, *inner: bytes) -> bytes:
    """Return a nested attribute, with the flag that newer kernels set."""
    return attr(kind | 0x8000, b"".join(inner))


def ip(kind: int, address: str) -> bytes:
    """Return an attribute with an IP address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return attr(kind, socket.inet_pton(family, address))


def link(index: int, name: str, *attrs: bytes, flags: int = 1, family: int = 0) -> bytes:
    """Return the body of a link message; an empty ``name`` leaves it out."""
    head = struct.pack("=BxHiII", family, 1, index, flags, 0)
    return head + (text(3, name) if name else b"") + b"".join(attrs)


def address(index: int, local: str, prefix_len: int, *attrs: bytes, scope: int = 0) -> bytes:
    """Return the body of an address message."""
    family = socket.AF_INET6 if ":" in local else socket.AF_INET
    head = struct.pack("=BBBBI", family, prefix_len, 0, scope, index)
    return head + ip(1, local) + b"".join(attrs)


def route(
    *attrs: bytes,
    family: str = "inet",
    dst_len: int = 0,
    src_len: int = 0,
    table: int = 254,
    kind: int = 1,
    flags: int = 0,
) -> bytes:
    """Return the body of a route message."""
    number = FAMILY_NUMBERS[family]
    head = struct.pack("=BBBBBBBBI", number, dst_len, src_len, 0, table, 3, 0, kind, flags)
    return head + b"".join(attrs)


def hop(index: int, *attrs: bytes, flags: int = 0) -> bytes:
    """Return one next hop (struct rtnexthop) of a multipath route."""
    inner = b"".join(attrs)
    return struct.pack("=HBBi", 8 + len(inner), flags, 0, index) + inner


def message(kind: int, body: bytes, *, flags: int = 0, seq: int = 0, port: int = 0) -> bytes:
    """Return a whole netlink message with its padding."""
    head = struct.pack("=IHHII", 16 + len(body), kind, flags, seq, port)
    return head + body + bytes(-len(body) % 4)
