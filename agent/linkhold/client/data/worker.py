"""What runs in the workers of a loader of :meth:`linkhold.client.Hold.data`.

A worker gets tickets instead of bare indices, and gives receipts with its batches. Everything in
here is pickled to workers that are spawned.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.client.data import randomness
from linkhold.client.data.ledger import FILLER, Receipt, Ticket
from linkhold.client.data.shared import worker_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.data.retrier import Retrier


@dataclass(frozen=True, slots=True)
class Stamped:
    """Samples on their way from the data set to the collate function."""

    ticket: Ticket
    samples: Any


class TicketedDataset:
    """Reads what tickets say, with the random state they bring."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, ticket: Ticket) -> Stamped:
        return self._read(ticket, self._dataset.__getitem__)

    def __getitems__(self, ticket: Ticket) -> Stamped:
        """Read the batch of a ticket."""
        return self._read(ticket, self._dataset.__getitems__)

    @staticmethod
    def _read(ticket: Ticket, read: Callable[[Any], Any]) -> Stamped:
        if ticket.number == FILLER:
            return Stamped(ticket, None)
        if ticket.random is not None:
            randomness.unpack(ticket.random)
        return Stamped(ticket, read(ticket.indices))


class RetryingCollate:
    """The user's collate function, called again where it reads over the network and fails."""

    def __init__(self, collate: Callable[[Any], Any], retrier: Retrier) -> None:
        self._collate = collate
        self._retrier = retrier
        # torch's own neither read nor draw: what trying them again costs is saved.
        self._pure = getattr(collate, "__module__", "") == "torch.utils.data._utils.collate"
        retrier.collated = 0

    def __call__(self, samples: Any) -> Any:
        """Return the batch."""
        if self._pure:
            batch = self._collate(samples)
        else:
            batch = self._retrier.call(lambda: self._collate(samples))
        self._retrier.collated = (self._retrier.collated or 0) + 1
        return batch


class ReceiptingCollate(RetryingCollate):
    """Gives a receipt with the batch: ``(receipt, batch)``."""

    def __init__(self, collate: Callable[[Any], Any], retrier: Retrier) -> None:
        super().__init__(collate, retrier)
        self._last: Any = None

    def __call__(self, samples: Stamped) -> Any:
        """Return receipt and batch."""
        ticket, worker = samples.ticket, worker_id() or 0
        if ticket.number == FILLER:
            return tuple(Receipt(FILLER, worker, None)), None
        batch = super().__call__(samples.samples)
        last, self._last = self._last, randomness.capture()
        new = last is None or not randomness.same(last, self._last)
        state = randomness.pack(self._last) if new else None
        return tuple(Receipt(ticket.number, worker, state)), batch


class WorkerStart:
    """Shows workers the user's own data set, as ``get_worker_info().dataset``, and starts them."""

    def __init__(self, dataset: Any, start: Callable[[int], object] | None) -> None:
        self._dataset = dataset
        self._start = start

    def __call__(self, number: int) -> None:
        """Start worker ``number``."""
        from torch.utils.data import get_worker_info  # noqa: PLC0415 - only where torch is

        info = get_worker_info()
        if info is not None:
            object.__setattr__(info, "dataset", self._dataset)  # it refuses to be assigned to
        if self._start is not None:
            self._start(number)
