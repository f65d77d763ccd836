"""Which batches are due, under way and delivered in one pass: pure.

The order of a pass is drawn from the loader's own sampler once, and noted here. After the workers
died the new ones first get the noted batches that were not delivered, then the same sampler goes
on. So nothing needs to be known about the sampler or its random state, and nothing can come twice
or be left out: each batch carries its number, and a number is handed on only when it is its turn.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

FILLER = -1
"""Number of a ticket that only keeps the turn of a worker."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One batch for a worker: its number, what to read, and the random state to read it with."""

    number: int
    indices: Any = None
    random: bytes | None = None


class Receipt(NamedTuple):
    """What comes back with a batch. A plain tuple outside: it passes torch's pinning thread."""

    number: int
    worker: int
    random: bytes | None
    """The worker's random state after the batch; None when it is the one of before."""


class Turn(Enum):
    """What to do with a batch that came."""

    HAND_ON = "hand on"
    FILLER = "drop, it was only a filler"
    TWICE = "drop, it was delivered"
    GAP = "an earlier one is missing: start again from there"


@dataclass(slots=True)
class Ledger:
    """The books of one loader; ``workers`` is their number, ``in_order`` the loader's promise.

    torch gives batches to workers in turn. With ``in_order`` the ledger keeps to these turns also
    after a rebuild, so that each new worker goes on with the random state of its predecessor.
    """

    workers: int
    in_order: bool = True
    delivered: int = 0
    _next: int = 0
    _due: dict[int, Any] = field(default_factory=dict)
    _random: dict[int, bytes] = field(default_factory=dict)
    _install: dict[int, bytes] = field(default_factory=dict)
    _gently: bool = False

    def begin(self, *, keep_workers: bool) -> None:
        """Start a new pass; ``keep_workers`` when the workers of the last one go on."""
        self.delivered = self._next = 0
        self._due.clear()
        if not keep_workers:
            self._random.clear()
            self._install.clear()

    @property
    def complete(self) -> bool:
        """Whether all that was drawn is delivered."""
        return not self._due

    @property
    def first_due(self) -> int:
        """Number of the first batch that is not delivered."""
        return min(self._due, default=self._next)

    def due_indices(self) -> Any:
        """Return what the first batch that is not delivered consists of, None for none."""
        return self._due.get(self.first_due)

    def restart(self, *, gently: bool = False) -> None:
        """Let the tickets begin with what is due: all workers are new.

        ``gently``: with a round of fillers after each of these, so that one of them is read at a
        time (by workers that read one batch ahead), and whichever kills its worker stands alone.
        """
        self._gently = gently and self.in_order
        self._install = dict(self._random) if self.in_order else {}

    def tickets(self, drawn: Iterator[Any]) -> Iterator[Ticket]:
        """Yield the tickets for new workers: what is due first, then what is drawn."""
        again = sorted(self._due)
        if self.in_order:
            yield from itertools.repeat(Ticket(FILLER), self.first_due % self.workers)
        for number in again:
            yield self._ticket(number)
            if self._gently:
                yield from itertools.repeat(Ticket(FILLER), self.workers)
        for indices in drawn:
            number = self._next
            self._due[number], self._next = indices, number + 1
            yield self._ticket(number)

    def settle(self, receipt: Receipt) -> Turn:
        """Note that a batch came, and say whether it is to be handed on."""
        number = receipt.number
        if number == FILLER:
            return Turn.FILLER
        if number not in self._due:
            return Turn.TWICE
        if self.in_order and number != self.first_due:
            return Turn.GAP
        del self._due[number]
        self.delivered += 1
        if receipt.random is not None:
            self._random[receipt.worker] = receipt.random
        return Turn.HAND_ON

    def settle_failed(self) -> None:
        """Note that an error came in the place of a batch and was let through.

        Out of order nobody knows which one it was: after a rebuild it is read again.
        """
        if self.in_order and self._due:
            del self._due[self.first_due]

    def _ticket(self, number: int) -> Ticket:
        random = self._install.pop(number % self.workers, None) if self.in_order else None
        return Ticket(number, self._due[number], random)
