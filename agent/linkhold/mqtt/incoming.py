"""What is left of a PUBLISH before paho reads it: topic, message, and when it expires. Pure.

Whoever may publish anywhere may add properties, and brokers hand them on (MQTT v5, 3.3.2.3).
paho 2.2 copies the rest of the packet at each of them and the list of all user properties too:
640 kB of them take it 20 s, and 2 MB minutes. It also ends the connection at a text with U+FEFF,
which mosquitto lets through: one retained message of one node would keep everybody away for good.
"""

from __future__ import annotations

EXPIRY = 0x02
_FIXED = {0x01: 1, EXPIRY: 4, 0x23: 2}
"""Bytes of properties of one size (2.2.2.2): payload format, message expiry, topic alias."""
_TEXTS = {0x03: 1, 0x08: 1, 0x09: 1, 0x26: 2}
"""How many texts with a length before them: content type, response topic, correlation, user."""
_NUMBER = 0x0B
"""A subscription identifier, of one to four bytes."""
MOST_PROPERTIES = 64
"""That are looked at; linkhold itself sends four."""


class Malformed(ValueError):
    """A PUBLISH that no broker may send; the text says what is wrong with it."""


def lean(packet: bytes | bytearray, *, has_mid: bool) -> bytes:
    """Return a PUBLISH, from its topic on, without properties but its expiry.

    Raises :class:`Malformed` for one that is cut off, and for properties that are, that a PUBLISH
    cannot have, or that reach into the message: paho would read them, in time with their square.
    """
    try:
        start = 2 + int.from_bytes(packet[:2], "big") + 2 * has_mid
        size, at = _number(packet, start)
        end = at + size
        if end > len(packet):
            raise Malformed(f"{size} bytes of properties, of which {len(packet) - at} came")
        expiry = _expiry(packet, at, end)
    except IndexError:
        raise Malformed("it is cut off, or a property of it is") from None
    except KeyError as error:
        raise Malformed(f"no message has a property {error}") from None
    kept = b"" if expiry is None else bytes((EXPIRY,)) + expiry
    return b"".join((packet[:start], bytes((len(kept),)), kept, packet[end:]))


def _expiry(packet: bytes | bytearray, at: int, end: int) -> bytes | None:
    """Return the four bytes of the expiry; None without one. Raises as :func:`_behind`.

    Also IndexError for a property that ends behind ``end``.
    """
    for _ in range(MOST_PROPERTIES):
        if at == end:
            break
        after = _behind(packet, packet[at], at + 1)
        if after > end:
            raise IndexError
        if packet[at] == EXPIRY:
            return bytes(packet[at + 1 : after])
        at = after
    return None


def _behind(packet: bytes | bytearray, kind: int, at: int) -> int:
    """Return where the value of a property ends.

    Raises KeyError for one that no PUBLISH has, IndexError where the packet ends before it.
    """
    if kind in _FIXED:
        return at + _FIXED[kind]
    if kind == _NUMBER:
        return _number(packet, at)[1]
    for _ in range(_TEXTS[kind]):
        at += 2 + int.from_bytes((packet[at], packet[at + 1]), "big")
    return at


def _number(packet: bytes | bytearray, at: int) -> tuple[int, int]:
    """Return a number of up to four bytes (1.5.5) and where it ends; raises IndexError."""
    value = 0
    for shift in (0, 7, 14, 21):
        byte = packet[at]
        value |= (byte & 127) << shift
        at += 1
        if not byte & 128:
            return value, at
    raise IndexError
