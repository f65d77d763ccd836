"""The common name in a PEM certificate.

The standard library shows the subject of a certificate only over a connection or by a private
function (``ssl._ssl._test_decode_cert``), and this must work without either; so the few fields
in front of the subject are skipped here. Nothing is verified: the broker does that.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_COMMON_NAME = b"\x55\x04\x03"  # 2.5.4.3
_SEQUENCE = 0x30
_VERSION = 0xA0
_BEFORE_SUBJECT = 4  # serial number, signature algorithm, issuer, validity
_LONG = 0x80
_MAX_LENGTH_BYTES = 4
_ENCODINGS = {
    0x0C: "utf-8",
    0x13: "ascii",
    0x14: "latin-1",
    0x16: "ascii",
    0x1C: "utf-32-be",
    0x1E: "utf-16-be",
}


def common_name(pem: bytes) -> str:
    """Return the first common name of the first certificate in ``pem``, which brokers use.

    Raises:
        ValueError: there is no certificate, it is damaged or it names nobody.
    """
    found = _PEM.search(pem)
    if found is None:
        raise ValueError("holds no PEM certificate")
    try:
        der = base64.b64decode(b"".join(found[1].split()), validate=True)
        names = list(_names(_subject(der)))
    except (binascii.Error, IndexError, KeyError, UnicodeDecodeError):
        raise ValueError("holds a damaged certificate") from None
    if not names:
        raise ValueError("holds a certificate without a common name")
    return names[0]


def _subject(der: bytes) -> bytes:
    certificate = _elements(der)[0][1]
    fields = _elements(_elements(certificate)[0][1])
    first = 1 if fields[0][0] == _VERSION else 0
    tag, subject = fields[first + _BEFORE_SUBJECT]
    if tag != _SEQUENCE:
        raise IndexError
    return subject


def _names(subject: bytes) -> Iterator[str]:
    for _, name_set in _elements(subject):
        for _, pair in _elements(name_set):
            (_, kind), (tag, value) = _elements(pair)[:2]
            if kind == _COMMON_NAME:
                yield value.decode(_ENCODINGS[tag])


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    """Split DER into (tag, content); raises IndexError where it ends too early."""
    found = []
    at = 0
    while at < len(der):
        tag, length = der[at], der[at + 1]
        at += 2
        if length & _LONG:
            size = length & ~_LONG
            if not 0 < size <= _MAX_LENGTH_BYTES or at + size > len(der):
                raise IndexError
            length = int.from_bytes(der[at : at + size], "big")
            at += size
        if at + length > len(der):
            raise IndexError
        found.append((tag, der[at : at + length]))
        at += length
    return found
