"""How each kind of loader with workers begins, advances, and goes on after its workers died."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

from linkhold.client.data.ledger import Ledger, Receipt, Turn
from linkhold.client.data.rebuilds import WorkersLost
from linkhold.client.data.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.client.data.crew import Crew


class Course(Protocol):
    """How a kind of loader begins, advances and goes on after its workers died."""

    @property
    def delivered(self) -> int:
        """Batches handed on in this pass."""

    def begin(self) -> None:
        """Start the workers."""

    def step(self) -> tuple[bool, Any]:
        """Return whether a batch is to be handed on, and the batch; raises as the crew does."""

    def failed(self) -> None:
        """Note that an error takes the place of a batch."""

    def go_on(self, *, gently: bool) -> None:
        """Start new workers at the same position; raises as the crew does."""

    def due(self) -> object:
        """Return what the batch consists of that comes next, None when nobody knows."""

    def refusal(self) -> str | None:
        """Say why workers cannot be replaced, None when they can."""


class Missing(RuntimeError):
    """The iterator left out a batch or ended early: start again from there."""


class Feed:
    """Stands where the sampler stood: gives tickets instead of indices."""

    def __init__(self, sampler: Any, ledger: Ledger) -> None:
        self._sampler = sampler
        self._ledger = ledger
        self._drawn: Any = None
        self.again = False

    def __iter__(self) -> Iterator[Any]:
        if not self.again:
            self._drawn = iter(self._sampler)
        return self._ledger.tickets(self._drawn)

    def __len__(self) -> int:
        return len(self._sampler)


class MapCourse:
    """A map-style data set: the ledger knows each batch."""

    def __init__(self, crew: Crew, feed: Feed, ledger: Ledger) -> None:
        self._crew, self._feed, self._ledger = crew, feed, ledger

    @property
    def delivered(self) -> int:
        """Batches handed on in this pass."""
        return self._ledger.delivered

    def begin(self) -> None:
        """Start the workers, at the start of the pass."""
        self._ledger.begin(keep_workers=self._crew.running)
        self._feed.again = False
        self._crew.start()

    def step(self) -> tuple[bool, Any]:
        """Return what the crew gives next."""
        try:
            receipt, batch = self._crew.next()
        except StopIteration:
            if self._ledger.complete:
                raise
            raise Missing("the loader ended with batches missing") from None
        turn = self._ledger.settle(Receipt(*receipt))
        if turn is Turn.GAP:
            raise Missing("a batch was lost on the way from the workers")
        return turn is Turn.HAND_ON, batch

    def failed(self) -> None:
        """Note that an error takes the place of a batch."""
        self._ledger.settle_failed()

    def go_on(self, *, gently: bool) -> None:
        """Start new workers at the same position."""
        self._feed.again = True
        self._ledger.restart(gently=gently)
        self._crew.start_anew(gently=gently)

    def due(self) -> object:
        """Return what the next batch consists of, None when nobody knows."""
        return self._ledger.due_indices()

    @staticmethod
    def refusal() -> str | None:
        """Say why workers cannot be replaced, None when they can."""
        return None


class IterableCourse:
    """An iterable data set: new workers read it again, and what was delivered is dropped.

    torch asks its workers in turn, and a worker that is at its end only leaves its turns out: the
    order of a pass does not depend on time, as long as the loader keeps it (``in_order``).
    """

    def __init__(self, crew: Crew, *, in_order: bool) -> None:
        self._crew = crew
        self._in_order = in_order
        self._positions = 0
        self.delivered = 0

    def begin(self) -> None:
        """Start the workers, at the start of the pass."""
        self.delivered = self._positions = 0
        self._crew.start()

    def step(self) -> tuple[bool, Any]:
        """Return what the crew gives next."""
        batch = self._crew.next()
        self._positions += 1
        self.delivered += 1
        return True, batch

    def failed(self) -> None:
        """Note that an error takes the place of a batch."""
        self._positions += 1

    def go_on(self, *, gently: bool) -> None:
        """Start new workers at the same position."""
        self._crew.start_anew(gently=gently)
        for _position in range(self._positions):
            self._drop_one()

    def due(self) -> object:
        """Return what the next batch consists of, None when nobody knows."""
        return None

    def refusal(self) -> str | None:
        """Say why workers cannot be replaced, None when they can."""
        if self._in_order:
            return None
        return (
            "with in_order=False the order of an iterable data set cannot be found again: "
            "use in_order=True to have workers replaced"
        )

    def _drop_one(self) -> None:
        try:
            self._crew.next()
        except StopIteration:
            raise WorkersLost(
                f"the data set ended before batch {self._positions} when it was read again: it "
                "does not repeat itself, so its workers cannot be replaced (docs/data.md)"
            ) from None
        except Exception as error:
            if judge(error, killed=self._crew.killed) is not Verdict.BATCH:
                raise  # an error took the place of a batch then, as it does now


class StatefulCourse:
    """torchdata's StatefulDataLoader, which knows its own way back."""

    def __init__(self, crew: Crew, loader: Any) -> None:
        self._crew, self.loader = crew, loader
        self._last: Any = None
        self.delivered = 0

    def begin(self) -> None:
        """Start the workers, at the start of the pass."""
        self.delivered = 0
        self._crew.start()
        self._last = self.loader.state_dict()

    def step(self) -> tuple[bool, Any]:
        """Return what the crew gives next."""
        batch = self._crew.next()
        self._last = self.loader.state_dict()
        self.delivered += 1
        return True, batch

    def failed(self) -> None:
        """Note that an error takes the place of a batch."""
        self._last = self.loader.state_dict()

    def go_on(self, *, gently: bool) -> None:
        """Start new workers at the same position."""
        del gently  # torchdata's state fits its own prefetch only
        self._crew.end()
        with _generators_kept(self.loader):
            self.loader.load_state_dict(self._last)
            self._crew.start()

    def due(self) -> object:
        """Return what the next batch consists of, None when nobody knows."""
        return None

    @staticmethod
    def refusal() -> str | None:
        """Say why workers cannot be replaced, None when they can."""
        return None


@contextlib.contextmanager
def _generators_kept(loader: Any) -> Iterator[None]:
    """Set the trainer's own generators back afterwards: torchdata draws a seed it does not use."""
    import torch  # noqa: PLC0415 - only where torch is

    generators = (torch.default_generator, loader.generator or torch.default_generator)
    states = [generator.get_state() for generator in generators]
    try:
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
