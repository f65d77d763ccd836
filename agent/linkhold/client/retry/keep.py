"""What several processes know together: in memory, or in a file that a node's share.

A budget and a breaker each are a value (window.py, standing.py) kept in here.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from linkhold.client.retry import files
from linkhold.client.retry.sealed import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.voice import Voice

V = TypeVar("V")
T = TypeVar("T")

ALONE_S = 10.0
"""So long the file is left alone after it could not be used."""


@dataclass(frozen=True)
class Kind(Generic[V]):
    """A sort of shared file: how people call it, its ending, its size, how its value is written.

    ``unpack`` returns the first value for an empty file and raises :class:`Damaged`.
    """

    label: str
    ending: str
    most_bytes: int
    pack: Callable[[V], bytes]
    unpack: Callable[[bytes], V]


class Keep(Protocol[V]):
    """Keeps one value."""

    def change(self, turn: Callable[[V], tuple[V, T]]) -> T:
        """Replace it by what ``turn`` makes of it, and return the other thing ``turn`` returns."""

    def after_fork(self) -> None:
        """Become the child's own."""


class Alone(Generic[V]):
    """In memory; a forked child goes on with what ``inherited`` makes of the value.

    The lock is held for a few microseconds.
    """

    def __init__(self, value: V, inherited: Callable[[V], V]) -> None:
        self._value = value
        self._inherited = inherited
        self._lock = threading.Lock()

    def change(self, turn: Callable[[V], tuple[V, T]]) -> T:
        """Replace it by what ``turn`` makes of it, and return the other thing ``turn`` returns."""
        with self._lock:
            self._value, answer = turn(self._value)
            return answer

    def after_fork(self) -> None:
        """Get a lock and a value of the child's own."""
        self._lock = threading.Lock()
        self._value = self._inherited(self._value)


class Shared(Generic[V]):
    """In a file of the dependency, for all processes of this user on the node.

    Raises nothing: while the file cannot be used, this process knows what it knows, and says so
    once.
    """

    def __init__(self, dependency: str, kind: Kind[V], voice: Voice) -> None:
        self._dependency = dependency
        self._kind = kind
        self._voice = voice
        self._alone = kind.unpack(b"")
        self._alone_until_s = 0.0
        self._told = False
        self._lock = threading.Lock()

    def change(self, turn: Callable[[V], tuple[V, T]]) -> T:
        """Replace it by what ``turn`` makes of it, and return the other thing ``turn`` returns."""
        trouble = ""
        with self._lock:  # threads wait here, not for each other's flock
            if time.monotonic() >= self._alone_until_s:
                try:
                    return self._change_file(turn)
                except OSError as error:
                    trouble = str(error)
                    self._alone_until_s = time.monotonic() + ALONE_S
            self._alone, answer = turn(self._alone)
        if trouble:
            self._tell(f"is this process's own: {trouble}")
        return answer

    def after_fork(self) -> None:
        """Get a lock of the child's own."""
        self._lock = threading.Lock()

    def _change_file(self, turn: Callable[[V], tuple[V, T]]) -> T:
        path = files.path_of(self._dependency, self._kind.ending)
        with files.locked(path) as descriptor:
            try:
                before = self._kind.unpack(os.pread(descriptor, self._kind.most_bytes, 0))
            except Damaged as damage:
                self._tell(f"starts anew: {path}: {damage}")
                before = self._kind.unpack(b"")
            after, answer = turn(before)
            if after != before:
                files.rewrite(descriptor, self._kind.pack(after))
            self._alone = after  # should the file fail next, what was known stays known
            return answer

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            self._voice.warning(f"the {self._kind.label} of {self._dependency} {what}")
