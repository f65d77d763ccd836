"""What the spool keeps and what it gives up: pure, no clock, no disk.

The newest is kept. Whatever must go is the oldest that may go; nothing goes in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of one spool folder, whoever fills it."""

    max_bytes: int
    max_count: int
    free_floor_bytes: int
    """This much stays free on its file system."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One entry; ``loose`` tells whether it may be given up by who asks, now."""

    id: str
    size_bytes: int
    loose: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """Whether a new entry is taken, which older ones go first, and if not, why not."""

    admit: bool
    give_up: tuple[str, ...] = ()
    why: str = ""


def plan(limits: Limits, kept: Sequence[Kept], incoming_bytes: int, free_bytes: int) -> Plan:
    """Decide about a new entry of ``incoming_bytes``; ``kept`` is sorted, the oldest first."""
    room = _Room(limits, len(kept), sum(entry.size_bytes for entry in kept), free_bytes)
    give_up: list[str] = []
    for entry in kept:
        if not room.lacks(incoming_bytes):
            break
        if entry.loose:
            room.free(entry.size_bytes)
            give_up.append(entry.id)
    lacking = room.lacks(incoming_bytes)
    return Plan(admit=False, why=lacking) if lacking else Plan(admit=True, give_up=tuple(give_up))


class _Room:
    """What is left of the limits while entries go."""

    def __init__(self, limits: Limits, count: int, size_bytes: int, free_bytes: int) -> None:
        self._limits = limits
        self._count = count
        self._size_bytes = size_bytes
        self._free_bytes = free_bytes

    def free(self, size_bytes: int) -> None:
        """Count an entry as gone."""
        self._count -= 1
        self._size_bytes -= size_bytes
        self._free_bytes += size_bytes

    def lacks(self, incoming_bytes: int) -> str:
        """Say what is missing for a new entry, nothing when it fits."""
        limits = self._limits
        if self._count + 1 > limits.max_count:
            return f"{self._count} entries are kept, spool_max_count is {limits.max_count}"
        if self._size_bytes + incoming_bytes > limits.max_bytes:
            total = f"{self._size_bytes} bytes are kept and {incoming_bytes} would come"
            return f"{total}, spool_max_bytes is {limits.max_bytes}"
        left_bytes = self._free_bytes - incoming_bytes
        if left_bytes < limits.free_floor_bytes:
            floor = f"spool_free_floor_bytes is {limits.free_floor_bytes}"
            return f"{max(0, left_bytes)} bytes would be left on its disk, {floor}"
        return ""
