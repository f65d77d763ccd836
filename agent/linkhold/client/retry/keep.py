"""Where a breaker's knowledge is kept: in this process, or in a file that a node's share."""

from __future__ import annotations

import functools
import os
import threading
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from linkhold.client.listener import BOOT_ID
from linkhold.client.retry import files, standing
from linkhold.client.retry.sealed import Damaged
from linkhold.client.retry.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.retry.standing import Rules
    from linkhold.client.voice import Voice

T = TypeVar("T")

MOST_BYTES = 4096
ALONE_S = 10.0
"""So long the file is left alone after it could not be used."""


@functools.cache
def boot_id() -> str:
    """Return the kernel's id of this boot, empty where it cannot be read."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


class Keep(Protocol):
    """Keeps one :class:`Standing`."""

    def change(self, turn: Callable[[Standing], tuple[Standing, T]]) -> T:
        """Replace it by what ``turn`` makes of it, and return the other thing ``turn`` returns."""

    def after_fork(self) -> None:
        """Become the child's own."""


class Alone:
    """In memory. The lock is held for a few microseconds."""

    def __init__(self) -> None:
        self._standing = Standing()
        self._lock = threading.Lock()

    def change(self, turn: Callable[[Standing], tuple[Standing, T]]) -> T:
        """Replace it by what ``turn`` makes of it, and return the other thing ``turn`` returns."""
        with self._lock:
            self._standing, answer = turn(self._standing)
            return answer

    def after_fork(self) -> None:
        """Get a lock of the child's own; the parent's probe is not ours."""
        self._lock = threading.Lock()
        self._standing = Standing(self._standing.row, self._standing.phases, self._standing.until_s)


class Shared:
    """In a file of the dependency, for all processes of this user on the node.

    Raises nothing: while the file cannot be used, this process knows what it knows, and says so
    once.
    """

    def __init__(self, dependency: str, rules: Rules, voice: Voice) -> None:
        self._dependency = dependency
        self._rules = rules
        self._voice = voice
        self._alone = Standing()
        self._alone_until_s = 0.0
        self._told = False
        self._lock = threading.Lock()

    def change(self, turn: Callable[[Standing], tuple[Standing, T]]) -> T:
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
        """Get a lock of the child's own; the parent's probe goes on, and counts for the child."""
        self._lock = threading.Lock()

    def _change_file(self, turn: Callable[[Standing], tuple[Standing, T]]) -> T:
        with files.locked(files.path_of(self._dependency, "breaker")) as descriptor:
            before = self._read(descriptor)
            after, answer = turn(before)
            if after != before:
                files.rewrite(descriptor, standing.pack(after, boot_id()))
            self._alone = after  # should the file fail next, what was known stays known
            return answer

    def _read(self, descriptor: int) -> Standing:
        try:
            found = standing.unpack(os.pread(descriptor, MOST_BYTES, 0), boot_id())
        except Damaged as damage:
            self._tell(f"starts anew: {damage}")
            return Standing()
        return found if found.believable(time.monotonic(), self._rules) else Standing()

    def _tell(self, what: str) -> None:
        if not self._told:
            self._told = True
            self._voice.warning(f"the breaker of {self._dependency} {what}")
