"""What the fleet leg needs of the outbox."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from linkhold.store.outbox import Mark, ReplayRequest, Stored
    from linkhold.store.outbox_shelf import Batch, Cursor


class Feed(Protocol):
    """What the leg needs of the :class:`~linkhold.store.keeper.Keeper`."""

    def listen(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when there may be new pending events."""

    def fetch(self, cursor: Cursor, limit: int, reply: Callable[[Batch], None]) -> bool:
        """Have ``reply`` called with the pending events after ``cursor``."""

    def parked(self, limit: int, reply: Callable[[tuple[Stored, ...]], None]) -> bool:
        """Have ``reply`` called with the oldest parked event of each type."""

    def replay(
        self, request: ReplayRequest, reply: Callable[[tuple[list[Stored], int]], None]
    ) -> bool:
        """Have ``reply`` called with the requested events and the number of missing ones."""

    def mark(self, marks: Sequence[Mark]) -> None:
        """Take answers of brokers."""

    def unpark(self, event_type: str) -> bool:
        """Make the parked events of one type pending again."""
