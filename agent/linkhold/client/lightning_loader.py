"""A DataLoader that Lightning can resume in the middle of an epoch.

Lightning starts a plain DataLoader from its beginning there, and only warns. It asks a loader with
``state_dict()`` and ``load_state_dict()`` for its place (``CombinedLoader._state_dicts``): rank 0
for all ranks, so nothing that differs between ranks is in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset

from linkhold.client import generators
from linkhold.client.data.crew import alike

if TYPE_CHECKING:
    from collections.abc import Iterator


class ResumableLoader(DataLoader[Any]):
    """A ``torch.utils.data.DataLoader`` of a map-style data set that knows its place.

    What was delivered before is not read again. Order and seeds of workers are those of a pass
    that was never broken off; what workers draw besides starts anew with them. Raises
    :class:`TypeError` for an iterable data set.
    """

    _began: dict[str, Any] | None = None
    _delivered = 0
    _resume = False

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        if isinstance(self.dataset, IterableDataset):
            raise TypeError(
                "ResumableLoader: an iterable data set cannot be resumed in the middle from "
                "outside: use torchdata's StatefulDataLoader, or a map-style data set"
            )

    def __iter__(self) -> Any:
        if self._resume and self._began is not None:
            self._resume = False
            return _Counting(self, self._rest(self._began))
        self._resume, self._delivered, self._began = False, 0, generators.keep()
        return _Counting(self, super().__iter__())

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the pass that is under way."""
        return {"batches": self._delivered, "began": self._began, "epoch": _epoch(self)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass be the rest of the one that :meth:`state_dict` told of."""
        self._delivered, self._began = state["batches"], state["began"]
        self._resume = 0 < self._delivered < len(self)
        epoch = state["epoch"]
        if epoch is not None:  # Lightning sets it after the workers have begun to read
            _set_epoch(self, epoch if self._resume else epoch + 1)

    def _rest(self, began: dict[str, Any]) -> Iterator[Any]:
        """Begin in the middle: the order is drawn anew, from the same random numbers."""
        now = generators.keep()
        generators.set_back(began)
        seat = "sampler" if self.batch_sampler is None else "batch_sampler"
        rest = _Rest(getattr(self, seat), self._delivered)
        iterator = DataLoader.__iter__(alike(self, **{seat: rest}))
        rest.advance()  # before anybody sets the generators
        generators.set_back(now)
        return iterator


class _Rest:
    """A sampler without its first elements."""

    def __init__(self, sampler: Any, skip: int) -> None:
        self._sampler, self._skip = sampler, skip
        self._source: Iterator[Any] | None = None

    def __iter__(self) -> _Rest:
        return self

    def __len__(self) -> int:
        return len(self._sampler) - self._skip

    def __next__(self) -> Any:
        return next(self.advance())

    def advance(self) -> Iterator[Any]:
        """Pass over the first elements, the first time."""
        if self._source is None:
            self._source = iter(self._sampler)
            for _ in range(self._skip):
                next(self._source, None)
        return self._source


class _Counting:
    """Counts what the loader delivers."""

    def __init__(self, loader: ResumableLoader, iterator: Iterator[Any]) -> None:
        self._loader, self._iterator = loader, iterator

    def __iter__(self) -> _Counting:
        return self

    def __next__(self) -> Any:
        batch = next(self._iterator)
        self._loader._delivered += 1  # noqa: SLF001 - one class in two parts
        return batch


def _epoch(loader: Any) -> int | None:
    found = getattr(loader.sampler, "epoch", None)
    return found if isinstance(found, int) else None


def _set_epoch(loader: Any, epoch: int) -> None:
    if hasattr(loader.sampler, "set_epoch"):
        loader.sampler.set_epoch(epoch)
