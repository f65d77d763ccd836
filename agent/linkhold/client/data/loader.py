"""The loader that a training loop uses instead of its own: same batches, same order, same look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.client.data.courses import Feed, IterableCourse, MapCourse, StatefulCourse
from linkhold.client.data.crew import Crew, alike
from linkhold.client.data.ledger import Ledger
from linkhold.client.data.passes import Pass
from linkhold.client.data.rebuilds import Rebuilds
from linkhold.client.data.worker import (
    ReceiptingCollate,
    RetryingCollate,
    TicketedDataset,
    WorkerStart,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.client.data.courses import Course
    from linkhold.client.data.shared import Shared
    from linkhold.client.voice import Voice

OWN_STATE = frozenset({"state_dict", "load_state_dict"})


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """The counters of one loader."""

    _shared: Shared
    _rebuilds: Rebuilds

    @property
    def retries(self) -> int:
        """Attempts after a failed one, of all workers so far."""
        return self._shared.retries

    @property
    def rebuilds(self) -> int:
        """How often workers were replaced so far."""
        return self._rebuilds.total

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self._shared is other._shared

    def __hash__(self) -> int:
        return id(self._shared)


class Data:
    """A DataLoader that reads again where reads fail, and replaces workers that died.

    Made by :meth:`linkhold.client.Hold.data`. Everything that is not named here is the loader's:
    ``len()``, ``dataset``, ``sampler``, ``batch_size``; what is set is set there too.
    """

    def __init__(
        self,
        loader: Any,
        dataset: Any,
        voice: Voice,
        max_rebuilds: int,
        on_wait: Callable[[], object],
    ) -> None:
        own = self.__dict__  # not by assignment, which goes to the loader
        own.update(_loader=loader, _dataset=dataset, _retrier=dataset.retrier, _voice=voice)
        own.update(_rebuilds=Rebuilds(max_rebuilds), _on_wait=on_wait)
        own.update(_lasting=None, _simple_delivered=0)

    def __iter__(self) -> Iterator[Any]:
        if self._loader.num_workers == 0:
            return self._read_here()
        crew, course = self._crew_and_course()
        self.__dict__["_course"] = course
        return Pass(crew, course, self._rebuilds, self._voice)

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_loader" not in self.__dict__:
            raise AttributeError(name)
        if name in OWN_STATE and _keeps_state(self._loader):
            return getattr(self._keeper(), name)
        return getattr(self._loader, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._loader, name, value)

    def __repr__(self) -> str:
        return f"hold.data({self._loader!r})"

    @property
    def counts(self) -> Counts:
        """What :attr:`retries` and :attr:`rebuilds` are read from, which may outlive the loader."""
        return Counts(self._retrier.shared, self._rebuilds)

    @property
    def delivered(self) -> int:
        """Batches delivered in the newest pass."""
        course = self.__dict__.get("_course")
        return int(self._simple_delivered if course is None else course.delivered)

    @property
    def retries(self) -> int:
        """Attempts after a failed one, of all workers so far."""
        return int(self._retrier.shared.retries)

    @property
    def waited_s(self) -> float:
        """Seconds that workers waited before such attempts, added up over the workers."""
        return float(self._retrier.shared.waited_s)

    @property
    def waiting(self) -> int:
        """How many workers wait for the network or the storage at this moment."""
        return int(self._retrier.shared.waiting)

    @property
    def rebuilds(self) -> int:
        """How often workers were replaced so far."""
        return int(self._rebuilds.total)

    def _crew_and_course(self) -> tuple[Crew, Course]:
        """Return what one pass needs; the same for every pass where workers or a state last."""
        if self._lasting is not None:
            return self._lasting  # type: ignore[no-any-return]
        prepared = self._prepare()
        if self._loader.persistent_workers or _keeps_state(self._loader):
            self.__dict__["_lasting"] = prepared
        return prepared

    def _keeper(self) -> Any:
        """Return the loader that keeps the position, of a kind that keeps one."""
        course = self._crew_and_course()[1]
        assert isinstance(course, StatefulCourse)  # noqa: S101 - _prepare() makes no other
        return course.loader

    def _prepare(self) -> tuple[Crew, Course]:
        """Return a loader with workers of ours, and how it goes on when they die."""
        from torch.utils.data import IterableDataset  # noqa: PLC0415 - only where torch is

        loader, dataset, retrier = self._loader, self._dataset, self._retrier
        start = WorkerStart(dataset.inner, loader.worker_init_fn)
        plain = {"collate_fn": RetryingCollate(loader.collate_fn, retrier)}
        if _keeps_state(loader):
            twin = alike(loader, dataset=dataset, worker_init_fn=start, **plain)
            crew = Crew(twin, retrier.shared, self._on_wait)
            return crew, StatefulCourse(crew, twin)
        in_order = bool(getattr(loader, "in_order", True))
        if isinstance(dataset, IterableDataset):
            twin = alike(loader, dataset=dataset, worker_init_fn=start, **plain)
            crew = Crew(twin, retrier.shared, self._on_wait)
            return crew, IterableCourse(crew, in_order=in_order)
        return self._prepare_map(start, in_order=in_order)

    def _prepare_map(self, start: WorkerStart, *, in_order: bool) -> tuple[Crew, Course]:
        loader, retrier = self._loader, self._retrier
        ledger = Ledger(loader.num_workers, in_order)
        seat = "sampler" if loader.batch_sampler is None else "batch_sampler"
        feed = Feed(getattr(loader, seat), ledger)
        twin = alike(
            loader,
            dataset=TicketedDataset(self._dataset),
            collate_fn=ReceiptingCollate(loader.collate_fn, retrier),
            worker_init_fn=start,
            **{seat: feed},
        )
        crew = Crew(twin, retrier.shared, self._on_wait)
        return crew, MapCourse(crew, feed, ledger)

    def _read_here(self) -> Iterator[Any]:
        """Read in the trainer's own process, as with num_workers=0."""
        own = self.__dict__
        self._retrier.on_wait = self._on_wait
        own["_simple_delivered"], own["_course"] = 0, None
        if _keeps_state(self._loader):
            twin = self._keeper()
        else:
            collate = RetryingCollate(self._loader.collate_fn, self._retrier)
            twin = alike(self._loader, dataset=self._dataset, collate_fn=collate)
        for batch in twin:
            own["_simple_delivered"] += 1
            yield batch


def check(loader: Any) -> None:
    """Raise :class:`TypeError` for a loader whose workers cannot be replaced, saying what can."""
    from torch.utils.data import DataLoader  # noqa: PLC0415 - only where torch is

    kind = type(loader).__name__
    if not isinstance(loader, DataLoader):
        raise TypeError(
            f"hold.data: {kind} is no torch DataLoader. Give it the DataLoader, or read through "
            "linkhold.client.data.retrying(dataset) and keep your loader"
        )
    if type(loader).__iter__ is not DataLoader.__iter__ and not _keeps_state(loader):
        raise TypeError(
            f"hold.data: {kind} has an __iter__ of its own, which would be left out. Read through "
            "linkhold.client.data.retrying(dataset) and keep your loader"
        )


def _keeps_state(loader: Any) -> bool:
    return hasattr(loader, "state_dict") and hasattr(loader, "load_state_dict")
