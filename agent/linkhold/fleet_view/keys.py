"""Bytes of a terminal -> names of keys. Sequences are those of xterm and of the Linux console."""

from __future__ import annotations

_NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\x1b[C": "right",
    b"\x1bOC": "right",
    b"\x1b[D": "left",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1bOH": "home",
    b"\x1b[1~": "home",
    b"\x1b[7~": "home",
    b"\x1b[F": "end",
    b"\x1bOF": "end",
    b"\x1b[4~": "end",
    b"\x1b[8~": "end",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x0c": "redraw",
}
_ESCAPE = 0x1B
_LONGEST = 16
_FINAL = range(0x40, 0x7F)
"""A control sequence ends with a byte of these (ECMA-48, 5.4)."""


def decode(data: bytes, *, ended: bool) -> tuple[list[str], bytes]:
    """Return the keys in ``data``, and the bytes of a key that has not come whole.

    ``ended``: nothing more follows now, so that a lone escape is the key of that name.
    """
    keys: list[str] = []
    while data:
        size = _size(data)
        if size == 0:
            if not ended:
                break
            keys.append("escape" if data[0] == _ESCAPE else "")
            data = b""
            continue
        keys.append(_name(data[:size]))
        data = data[size:]
    return [key for key in keys if key], data


def _size(data: bytes) -> int:
    """Return how many bytes the first key has, 0 when it has not come whole."""
    first = data[0]
    if first != _ESCAPE:
        size = 1 if first < 0xC0 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4  # noqa: PLR2004 -- UTF-8
        return size if len(data) >= size else 0
    if len(data) == 1:
        return 0
    if data[1:2] == b"O":
        return 3 if len(data) > 2 else 0  # noqa: PLR2004 -- ESC O and a letter
    if data[1:2] != b"[":
        return 1  # an escape, then another key
    for at, byte in enumerate(data[2:_LONGEST], 3):
        if byte in _FINAL:
            return at
    return 0 if len(data) < _LONGEST else _LONGEST


def _name(data: bytes) -> str:
    if data in _NAMES:
        return _NAMES[data]
    if data == b"\x1b":
        return "escape"
    text = data.decode("utf-8", "ignore")
    return text if len(text) == 1 and text.isprintable() else ""
