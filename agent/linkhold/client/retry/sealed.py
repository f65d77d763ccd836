"""How shared files are written down: a line that names them, a CRC-32, the content. Pure."""

from __future__ import annotations

import struct
import zlib

_SUM = struct.Struct("<I")


class Damaged(Exception):
    """The bytes are no such file."""


def seal(magic: bytes, body: bytes) -> bytes:
    """Return the bytes of a file with this content."""
    return magic + _SUM.pack(zlib.crc32(body)) + body


def unseal(magic: bytes, content: bytes) -> bytes:
    """Return the content of a file; raises :class:`Damaged`."""
    begin = len(magic) + _SUM.size
    if not content.startswith(magic) or len(content) < begin:
        raise Damaged("it is no file of ours")
    body = content[begin:]
    if _SUM.unpack_from(content, len(magic))[0] != zlib.crc32(body):
        raise Damaged("its sum is wrong")
    return body
