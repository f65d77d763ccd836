"""/proc/self/mountinfo (proc(5)) as values. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_OCTAL = re.compile(r"\\([0-7]{3})")
FIELDS, AFTER = 6, 3  # at least so many before and after the " - "


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount; ``device`` is major:minor, ``options`` the super block's, by name."""

    point: str
    device: str
    fstype: str
    source: str
    options: dict[str, str]


def parse(text: str) -> Iterator[Mount]:
    """Yield the mounts in order; lines that make no sense are passed over."""
    for line in text.splitlines():
        before, dash, after = line.partition(" - ")
        head, tail = before.split(" "), after.split(" ", 2)
        if dash and len(head) >= FIELDS and len(tail) == AFTER:
            options = (word.partition("=") for word in tail[2].split(","))
            yield Mount(
                point=_plain(head[4]),
                device=head[2],
                fstype=tail[0],
                source=_plain(tail[1]),
                options={key: value for key, _, value in options},
            )


def at(mounts: list[Mount], path: str) -> Mount | None:
    """Return what is mounted at ``path`` now: the last one covers the others."""
    return next((mount for mount in reversed(mounts) if mount.point == path), None)


def _plain(text: str) -> str:
    """Space, tab, newline and backslash are written as octal numbers."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)
