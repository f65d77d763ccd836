"""What must happen around a fork, so that a child holds no socket and no dead thread's lock.

A forked child has the parent's memory, its descriptors, and only the thread that forked. A copy
of the broker's socket in a DataLoader worker would keep the connection alive after the trainer
died; a lock that another thread held would never be released.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

OPENING_WAIT_S = 1.0
"""How long a fork waits for a connection that is just being opened."""
IMPORTING_WAIT_S = 30.0
"""How long it waits for an import of ours; a child forked during one could hang for ever."""


class Forkable(Protocol):
    """Something with threads, locks or sockets that a forked child must not use."""

    def after_fork(self) -> None:
        """Become inert, in the child, with one thread left; must not wait for anything."""


class _Process:
    """The locks of this process; a child gets a new one."""

    def __init__(self) -> None:
        self.registering = threading.Lock()
        self.opening = threading.Lock()
        self.importing = threading.Lock()
        self.forking = threading.local()


_process = _Process()
_imported: set[str] = set()
_known: tuple[weakref.ref[Forkable], ...] = ()


def remember(thing: Forkable) -> None:
    """Call :meth:`Forkable.after_fork` of ``thing`` in every child, while it lives."""
    global _known  # noqa: PLW0603 - replaced whole, so that a child never sees half of it
    with _process.registering:
        _known = (*(ref for ref in _known if ref() is not None), weakref.ref(thing))


@contextlib.contextmanager
def no_fork() -> Iterator[None]:
    """Keep forks out while a socket is open that nobody knows of yet."""
    with _process.opening:
        yield


def import_whole(name: str) -> None:
    """Import a module so that no child is forked while it is half loaded."""
    if name not in _imported:
        with _process.importing:
            importlib.import_module(name)
            _imported.add(name)


def _before() -> None:
    opening, importing = _process.opening, _process.importing
    _process.forking.held = (
        opening if opening.acquire(timeout=OPENING_WAIT_S) else None,
        importing if importing.acquire(timeout=IMPORTING_WAIT_S) else None,
    )


def _in_parent() -> None:
    for lock in _process.forking.held:
        if lock is not None:
            lock.release()


def _in_child() -> None:
    global _process  # noqa: PLW0603 - the old locks may be held by threads that are no more
    _process = _Process()
    for ref in _known:
        thing = ref()
        if thing is not None:
            with contextlib.suppress(Exception):
                thing.after_fork()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
