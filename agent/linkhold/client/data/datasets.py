"""Data sets around data sets: what is read is the same, a failed read is tried again.

Imported when torch is there, by :func:`linkhold.client.data.retrying` alone.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from torch.utils.data import Dataset, IterableDataset

from linkhold.client.data import randomness
from linkhold.client.data.retrier import attempt, retryable
from linkhold.client.retry import nesting
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from linkhold.client.data.retrier import Retrier

    Resume = Callable[[Any, int], Iterator[Any]]

CAREFUL_BATCHES = 100
"""So long after a failure the random state is kept for each sample, not for each batch."""
OWN = ("inner", "retrier", "resume", "careful")


class _Around:
    """Passes attributes on to the data set inside, both ways."""

    inner: Any
    retrier: Retrier

    def __getattr__(self, name: str) -> Any:
        if name in OWN or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(self.inner, name, value)

    def __getstate__(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __len__(self) -> int:
        return len(self.inner)

    def __repr__(self) -> str:
        return f"retrying({self.inner!r})"


class RetryingMap(_Around, Dataset[Any]):
    """A map-style data set whose samples are read again where a read fails."""

    def __init__(self, inner: Any, retrier: Retrier) -> None:
        self.inner = inner
        self.retrier = retrier
        self.careful = 0

    def __getitem__(self, index: Any) -> Any:
        return self.retrier.call(lambda: self.inner[index])

    def __getitems__(self, indices: Sequence[Any]) -> list[Any]:
        """Return a batch, as torch's loaders ask for it."""
        many: Callable[[Any], list[Any]] | None = getattr(self.inner, "__getitems__", None)
        if many is not None:
            ask = many
            return self.retrier.call(lambda: ask(indices))
        if self.careful > 0:
            self.careful -= 1
            return [self[index] for index in indices]
        before = randomness.capture()  # once per batch: it costs more than a sample in memory
        try:
            return attempt(lambda: [self.inner[index] for index in indices])
        except Exception as error:
            if nesting.inside() or retryable(error) is None:
                raise
            failed = error
        self.careful = CAREFUL_BATCHES
        self.retrier.again(_nothing, failed, before)
        return [self[index] for index in indices]


class RetryingIterable(_Around, IterableDataset[Any]):
    """An iterable data set that is read again up to where it was, where a read fails."""

    def __init__(self, inner: Any, retrier: Retrier, resume: Resume | None = None) -> None:
        self.inner = inner
        self.retrier = retrier
        self.resume = resume

    def __iter__(self) -> Iterator[Any]:
        return _Reading(self.inner, self.retrier, self.resume)


class _Reading:
    """One pass over an iterable data set.

    A generator that raised is at its end for good. So the pass begins anew, with the same random
    numbers, and leaves out what was delivered; or ``resume`` says how to go on from there.
    """

    def __init__(self, inner: Any, retrier: Retrier, resume: Resume | None) -> None:
        self._inner, self._retrier, self._resume = inner, retrier, resume
        self._done = self._marked = 0
        self._collated: int | None = None
        self._loaded: Any = None
        self._at_start = self._at_mark = randomness.capture()
        self._start = copy.deepcopy(inner.state_dict()) if _stateful(inner) else None
        self._iterator: Any = retrier.call(lambda: iter(inner))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._iterator, name)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._mark()
        try:
            sample = attempt(lambda: next(self._iterator))
        except StopIteration:
            raise
        except Exception as error:
            if nesting.inside() or retryable(error) is None:
                raise
            sample = self._retrier.again(self._read_on, error, self._at_start)
        self._done += 1
        return sample

    def load_state_dict(self, state: Any) -> None:
        """Go on from a state of the iterator inside, for loaders that save them (torchdata)."""
        self._iterator.load_state_dict(state)
        self._loaded, self._done = copy.deepcopy(state), 0
        self._at_start = randomness.capture()

    def _mark(self) -> None:
        """Keep the random state if others may have drawn since the last sample.

        That is the collate function, after each batch, and the trainer, where there are no
        workers. Where nobody tells when a batch is whole it is kept for each sample.
        """
        collated = self._retrier.collated
        if collated is None or collated != self._collated or self._resume is not None:
            self._collated, self._marked = collated, self._done
            self._at_mark = randomness.capture()

    def _read_on(self) -> Any:
        if self._resume is not None:
            randomness.restore(self._at_mark)
            self._iterator = iter(self._resume(self._inner, self._done))
        else:
            self._begin_anew()
        return next(self._iterator)

    def _begin_anew(self) -> None:
        if self._start is not None:
            self._inner.load_state_dict(copy.deepcopy(self._start))
        self._iterator = iter(self._inner)
        if self._loaded is not None:
            self._iterator.load_state_dict(copy.deepcopy(self._loaded))
        for number in range(self._done):
            if number == self._marked:
                randomness.restore(self._at_mark)
            self._leave_out(number)
        if self._marked == self._done:
            randomness.restore(self._at_mark)

    def _leave_out(self, number: int) -> None:
        if next(self._iterator, _END) is _END:
            raise LinkholdError(
                f"{type(self._inner).__name__} ended at sample {number} when it was read again "
                f"after an error, but had given {self._done}: it does not repeat itself. Give "
                "retrying(..., resume=) a way to go on, see docs/data.md"
            )


_END = object()


def _nothing() -> None:
    """Pause only."""


def _stateful(thing: Any) -> bool:
    return hasattr(thing, "state_dict") and hasattr(thing, "load_state_dict")
