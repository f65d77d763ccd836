"""Broken inputs made of good ones: bytes that are flipped, cut, doubled; values exchanged."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

TOKENS = (
    *(b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x80", b"\n", b"\r\n", b" ", b'"', b"'", b"{", b"}"),
    *(b"[", b"]", b":", b",", b"\\", b"\\u0000", b"\\ud800", b"1e999", b"-1", b"0x", b"9" * 400),
    *(b"\xc2\xb2", b"null", b"true", b"NaN", b"%s", b"../", b"\x1b[31m", b"=", b";", b"/", b"-"),
    *(b"\xed\xa0\x80", b"\xe2\x80\xae", b"\x01\0", b"\0\x01", b"\0\0\0\x04"),
)
MOST_BYTES = 1 << 16


def _deep(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**53, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0),
    *(1e308, -1e308, float("inf"), "", "0", "²", "٣", "x" * 300, "\ud800", "\0", "\x1b[2J", "\n"),
    *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "nan", "1e999", "-1", "../x"),
    *([], {}, [[]], [None], {"": None}, {"a": {}}, [1, "a"], _deep(40), _deep(900)),
)
"""What is valid JSON and no answer to any question. Infinity is written as 1e999."""


def mutated(data: bytes, samples: Sequence[bytes], random: Random, *, as_json: bool) -> bytes:
    """Return something like ``data``: a few changes, of values where it is JSON, else of bytes."""
    if as_json and random.random() < 0.7:
        return _exchanged(data, random)
    for _ in range(1 + int(random.expovariate(0.7))):
        data = random.choice(_WAYS)(data, samples, random)[:MOST_BYTES]
    return data


def _flip(data: bytes, _samples: Sequence[bytes], random: Random) -> bytes:
    if not data:
        return b"\0"
    at = random.randrange(len(data))
    value = random.choice((data[at] ^ 1 << random.randrange(8), random.randrange(256), 0, 255))
    return data[:at] + bytes((value,)) + data[at + 1 :]


def _cut(data: bytes, _samples: Sequence[bytes], random: Random) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return random.choice((data[:first], data[first:], data[:first] + data[last:]))


def _double(data: bytes, _samples: Sequence[bytes], random: Random) -> bytes:
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first:last] * random.choice((1, 2, 40)) + data[last:]


def _insert(data: bytes, _samples: Sequence[bytes], random: Random) -> bytes:
    at = random.randrange(len(data) + 1)
    token = random.choice(TOKENS) * random.choice((1, 1, 1, 3, 5000))
    keep = at + random.choice((0, len(token)))
    return data[:at] + token + data[keep:]


def _splice(data: bytes, samples: Sequence[bytes], random: Random) -> bytes:
    other = random.choice(samples)
    return data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]


_WAYS: tuple[Callable[[bytes, Sequence[bytes], Random], bytes], ...] = (
    *(_flip, _flip, _cut, _double, _insert, _splice),
)


def _exchanged(data: bytes, random: Random) -> bytes:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return _flip(data, (), random)
    for _ in range(1 + int(random.expovariate(1))):
        document = _changed(document, random)
    try:
        return json.dumps(document).replace("Infinity", "1e999").encode()
    except RecursionError:
        return data


def _changed(document: Any, random: Random) -> Any:
    """Exchange, drop or double one part of a document, at any depth."""
    place, key = _somewhere(document, random)
    if place is None:
        return _copy(random.choice(ODD))
    kind = random.randrange(6)
    if kind == 0:
        del place[key]
    elif kind == 1 and isinstance(place, dict):
        place[random.choice(("x", "", "\ud800", "__class__", "self"))] = place.pop(key)
    elif kind == 2:
        place[key] = json.loads(json.dumps(document))
    else:
        place[key] = _copy(random.choice(ODD))
    return document


def _copy(value: Any) -> Any:
    """Return a value of its own: what is odd is changed by the next step too."""
    return json.loads(json.dumps(value))


def _somewhere(document: Any, random: Random) -> tuple[Any, Any]:
    place, key = None, None
    inner = document
    while isinstance(inner, (dict, list)) and inner:
        place = inner
        key = (
            random.choice(list(inner)) if isinstance(inner, dict) else random.randrange(len(inner))
        )
        inner = place[key]
        if random.random() < 0.25:
            break
    return place, key
