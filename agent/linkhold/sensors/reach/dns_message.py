"""DNS messages (RFC 1035, RFC 3596): a question made, an answer read. Pure; trusts nothing."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

TYPES = {"A": 1, "NS": 2, "SOA": 6, "AAAA": 28}
IN = 1
RESPONSE, TRUNCATED, RECURSION_DESIRED, RCODE = 0x8000, 0x0200, 0x0100, 0x000F
SERVFAIL, NXDOMAIN = 2, 3
RCODES = {1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 4: "NOTIMP", 5: "REFUSED"}
MOST_LABEL, MOST_NAME, MOST_RECORDS = 63, 255, 64
POINTER = 0xC0

_HEAD = struct.Struct("!HHHHHH")
_QUESTION = struct.Struct("!HH")
_RECORD = struct.Struct("!HHIH")


class Malformed(ValueError):
    """A name that cannot be asked for, or a message that makes no sense."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its RCODE, whether it was cut off, and the addresses in it."""

    rcode: int
    truncated: bool
    addresses: tuple[str, ...]

    @property
    def word(self) -> str:
        """The RCODE in the words of RFC 1035."""
        return RCODES.get(self.rcode, f"RCODE {self.rcode}")


def question(identity: int, name: str, qtype: str) -> bytes:
    """Return the question for a name, ``.`` for the root; raises :class:`Malformed`."""
    if qtype not in TYPES:
        raise Malformed(f"{qtype!r} is none of {', '.join(TYPES)}")
    head = _HEAD.pack(identity, RECURSION_DESIRED, 1, 0, 0, 0)
    return head + _packed(name) + _QUESTION.pack(TYPES[qtype], IN)


def _packed(name: str) -> bytes:
    plain = name.removesuffix(".")
    labels = plain.encode("ascii", "replace").split(b".") if plain else []
    if any(not 0 < len(label) <= MOST_LABEL for label in labels) or not plain.isascii():
        raise Malformed(f"{name!r} is no name that can be looked up")
    packed = b"".join(bytes((len(label),)) + label for label in labels) + b"\0"
    if len(packed) > MOST_NAME:
        raise Malformed(f"{name!r} is too long for a name")
    return packed


def read(data: bytes, asked: bytes) -> Reply:
    """Return what ``data`` answers to the question ``asked``.

    Raises :class:`Malformed` for anything but an answer to that very question: another identity,
    name or type is somebody else's, or a forgery.
    """
    try:
        return _read(data, asked)
    except (struct.error, IndexError):
        raise Malformed("the answer is cut off") from None


def _read(data: bytes, asked: bytes) -> Reply:
    identity, flags, questions, answers, _, _ = _HEAD.unpack_from(data)
    if identity != _HEAD.unpack_from(asked)[0] or not flags & RESPONSE:
        raise Malformed("this is no answer to what was asked")
    rcode, truncated = flags & RCODE, bool(flags & TRUNCATED)
    position = _HEAD.size
    if questions == 1:
        position += len(asked) - _HEAD.size
        if data[_HEAD.size : position].lower() != asked[_HEAD.size :].lower():
            raise Malformed("this answers another question")
    elif questions or not rcode:
        # Servers that understood nothing may leave the question out (RFC 1035, 4.1.1).
        raise Malformed("the answer does not repeat the question")
    if truncated:
        return Reply(rcode, truncated, ())
    return Reply(rcode, truncated, _addresses(data, position, min(answers, MOST_RECORDS)))


def _addresses(data: bytes, position: int, count: int) -> tuple[str, ...]:
    found = []
    for _ in range(count):
        position = _after_name(data, position)
        kind, class_, _, size = _RECORD.unpack_from(data, position)
        position += _RECORD.size
        value = data[position : position + size]
        position += size
        if len(value) != size:
            raise Malformed("the answer is cut off")
        family, length = _FAMILIES.get(kind, (0, 0))
        if class_ == IN and length:
            if length != size:
                raise Malformed("an address of a wrong size")
            found.append(socket.inet_ntop(family, value))
    return tuple(found)


_FAMILIES = {TYPES["A"]: (socket.AF_INET, 4), TYPES["AAAA"]: (socket.AF_INET6, 16)}


def _after_name(data: bytes, position: int) -> int:
    """Return where a name ends: after its last label, or its pointer, which is not followed."""
    while data[position]:
        if data[position] & POINTER == POINTER:
            return position + 2
        if data[position] & POINTER:
            raise Malformed("a label of an unknown kind")
        position += 1 + data[position]
    return position + 1
