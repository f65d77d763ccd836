"""The workers behind a loader: started, waited for in slices, ended, and started anew.

Some of what is used here is private to torch's iterator (``_timeout``, ``_workers``,
``_workers_status``, ``_worker_result_queue``, ``_worker_pids_set``, ``_shutdown_workers``); a test
compares them with the torch that is installed.
"""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

from linkhold.client.data.message import read_whole
from linkhold.client.data.verdict import Verdict, judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.data.shared import Shared

SLICE_S = 0.5
"""So often a wait for a batch looks at the workers, and feeds watchdogs."""
END_S = 10.0
"""A killed worker may leave a lock held for ever: the end of its crew is waited for so long."""


def alike(loader: Any, **changes: Any) -> Any:
    """Return a loader of the same class and settings, but for ``changes``.

    Goes around ``DataLoader.__setattr__``, which refuses to change a finished loader.
    """
    twin = copy.copy(loader)
    twin.__dict__.update(changes)
    twin.__dict__["_iterator"] = None
    return twin


class Crew:
    """The iterator of one loader, with the processes behind it."""

    def __init__(self, loader: Any, shared: Shared, feed: Callable[[], object]) -> None:
        self._loader = loader
        self._shared = shared
        self._feed = feed
        self._ahead = loader.prefetch_factor
        self._iterator: Any = None
        self._guard: Any = contextlib.nullcontext()
        self._seed: Any = None

    @property
    def killed(self) -> bool:
        """Whether a worker ended that should still read."""
        return bool(lost(self._iterator))

    @property
    def running(self) -> bool:
        """Whether there are workers that a further pass can use."""
        return self._iterator is not None

    def start(self) -> None:
        """Start workers, or let persistent ones begin a further pass. Raises what torch raises."""
        import torch  # noqa: PLC0415 - never at import time of the client

        if self._iterator is None:
            generator = self._loader.generator or torch.default_generator
            self._seed = generator.get_state()
        else:
            self._iterator._timeout = self._loader.timeout  # noqa: SLF001 - for its own reset
        self._take_over(iter(self._loader))

    def start_anew(self, *, gently: bool) -> None:
        """End these workers and start others from the same seed.

        ``gently``: each reads one batch ahead and no more, so that little is lost if one dies.
        The trainer's own random generators are not touched.
        """
        import torch  # noqa: PLC0415 - never at import time of the client

        self.end()
        generator = torch.Generator()
        generator.set_state(self._seed)
        ahead = 1 if gently else self._ahead
        self._loader = alike(self._loader, generator=generator, prefetch_factor=ahead)
        self._take_over(iter(self._loader))

    def next(self) -> Any:
        """Wait for what comes next. Raises StopIteration at the end, and what torch raises."""
        since_s = time.monotonic()
        while True:
            try:
                with self._guard:
                    self._check_workers()
                    return next(self._iterator)
            except RuntimeError as error:
                if judge(error, killed=False) is not Verdict.WAIT:
                    raise
            self._feed()
            if self._shared.waiting:  # a worker waits for the network: it does not hang
                since_s = time.monotonic()
            limit_s = self._loader.timeout
            if limit_s and time.monotonic() - since_s >= limit_s:
                raise RuntimeError(f"DataLoader timed out after {limit_s} seconds")

    def end(self) -> None:
        """Kill the workers; what they were doing is done anew."""
        iterator, workers = self._iterator, self._workers()
        self._iterator, self._guard = None, contextlib.nullcontext()
        for worker in workers:
            worker.kill()
        self._shared.forget_waits()
        shut_down = getattr(iterator, "_shutdown_workers", None)
        # At the interpreter's end a thread would never begin, and start() would wait for it.
        if shut_down is not None and not sys.is_finalizing():
            thread = threading.Thread(target=shut_down, name="linkhold-data-end", daemon=True)
            thread.start()
            thread.join(END_S)

    def release(self) -> None:
        """Let go of workers that no pass needs any more, gently unless they wait for the network.

        Persistent workers stay, as they do with torch.
        """
        if self._loader.persistent_workers:
            return
        if self._shared.waiting:
            self.end()
        self._iterator, self._guard = None, contextlib.nullcontext()

    def _workers(self) -> tuple[Any, ...]:
        return tuple(getattr(self._iterator, "_workers", ()))

    def _take_over(self, iterator: Any) -> None:
        iterator._timeout = SLICE_S  # noqa: SLF001 - see the module's text
        self._iterator, self._guard = iterator, Guard(iterator)
        seen = weakref.ref(iterator)  # it has to end with its last user, without the collector
        read_whole(iterator._worker_result_queue, lambda: raise_for_lost(seen()))  # noqa: SLF001

    def _check_workers(self) -> None:
        """Raise as torch does for what died while nobody waited."""
        raise_for_lost(self._iterator)
        thread = getattr(self._iterator, "_pin_memory_thread", None)
        if thread is not None and not thread.is_alive() and not self._iterator._shutdown:  # noqa: SLF001
            raise RuntimeError("Pin memory thread exited unexpectedly")


def lost(iterator: Any) -> list[Any]:
    """Return the workers that have ended though torch has not told them to."""
    workers = getattr(iterator, "_workers", ())
    reading = getattr(iterator, "_workers_status", ())
    # An exit code of 0 is that of a worker that was told, where the data set was at its end.
    return [
        worker
        for worker, reads in zip(workers, reading, strict=True)
        if worker.exitcode is not None and (reads or worker.exitcode)
    ]


def raise_for_lost(iterator: Any) -> None:
    """Raise as torch does for workers that are gone."""
    ends = ", ".join(f"{worker.pid}: exit code {worker.exitcode}" for worker in lost(iterator))
    if ends:
        raise RuntimeError(f"DataLoader worker (pid(s) {ends}) exited unexpectedly")


class Guard:
    """Has torch tell of dead workers while a batch is waited for, and at no other time.

    torch's SIGCHLD handler raises wherever the trainer is, in the middle of a step too. While we
    wait it is needed: a worker that was killed while it wrote leaves half a message in the pipe,
    and reading that would never end.
    """

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator
        from torch.utils.data import _utils  # noqa: PLC0415 - only where torch is

        self._handling: Any = _utils.signal_handling
        self.__exit__()

    def __enter__(self) -> None:
        iterator, handling = self._iterator, self._handling
        if iterator._worker_pids_set:  # noqa: SLF001 - see the module's text
            return
        pids = tuple(worker.pid for worker in iterator._workers)  # noqa: SLF001
        handling._set_worker_pids(id(iterator), pids)  # noqa: SLF001
        iterator._worker_pids_set = True  # noqa: SLF001 - its own shutdown looks at it

    def __exit__(self, *error: object) -> None:
        if self._iterator._worker_pids_set:  # noqa: SLF001
            self._handling._remove_worker_pids(id(self._iterator))  # noqa: SLF001
            self._iterator._worker_pids_set = False  # noqa: SLF001
