"""The journal of changes as the agent follows it: read when its folder changes, and now and then.

So a command of linkhold is known before it does anything: its journal is written first, then its
guard must start. What it does to a bond is then information and no fault.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from linkhold.actuators.journal import FAILED, TRIAL, Journal, boot_id, folder
from linkhold.deadlines import within
from linkhold.decide.keeping import JournalSeen
from linkhold.decide.readings import OrderReading
from linkhold.model import HostError
from linkhold.paths import claim_dir
from linkhold.sensors.folder import FolderWatch
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.actuators.journal import Document

SETTLED_NS = 2_000_000_000
DISK_S = 5.0
"""A disk that takes longer does not answer."""
ENDS_S = 1.0
"""What the kernel tells so soon after the end of a command is its doing still."""


class JournalWatch:
    """Wakes who reads the journal, when something in its folder changed. Belongs to the loop."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._watch: FolderWatch | None = None

    async def wait(self, at_most_s: float | None) -> None:
        """Return when the folder changed, or after ``at_most_s`` (None: only then).

        Where the folder cannot be watched, a look every ``DISK_S`` must do.
        """
        if self._watch is None:
            await self._open()
        limit_s = at_most_s if self._watch is not None else at_most_s or DISK_S
        with contextlib.suppress(asyncio.TimeoutError):
            await within(self._changed.wait(), limit_s)
        self._changed.clear()

    def hurry(self) -> None:
        """Wake who waits."""
        self._changed.set()

    async def _open(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError, OSError):
            self._watch = await within(in_thread(_watch_folder), DISK_S)
            asyncio.get_running_loop().add_reader(self._watch.fileno(), self._see)

    def _see(self) -> None:
        self._changed.set()
        if self._watch is not None and not self._watch.read():
            self.close()

    def close(self) -> None:
        """Watch no more; the next wait begins anew."""
        if self._watch is not None:
            asyncio.get_running_loop().remove_reader(self._watch.fileno())
            self._watch.close()
            self._watch = None


def _watch_folder() -> FolderWatch:
    claim_dir(folder())  # made by the first command otherwise, which would not be seen
    return FolderWatch(folder())


class Orders:
    """Tells which command of linkhold is at work on a bond, by what the journal says.

    ``report`` gets it for the core; ``test`` gets bond and end (CLOCK_MONOTONIC in ns, 0 when it
    is over) of a ``bond test``.
    """

    def __init__(
        self, report: Callable[[OrderReading], None], test: Callable[[str, int], None]
    ) -> None:
        self._report = report
        self._test = test
        self._told = OrderReading("", "")
        self._ending: asyncio.TimerHandle | None = None

    def see(self, seen: JournalSeen) -> None:
        """Take in what the journal says now."""
        if not seen.busy:
            if self._told.action and self._ending is None:
                loop = asyncio.get_running_loop()
                self._ending = loop.call_later(ENDS_S, self._end)
            return
        self.stop()
        order = OrderReading(seen.busy, seen.action or "change")
        if self._told.action and self._told.bond != order.bond:
            self._end()
        if order != self._told:
            self._told = order
            self._report(order)
        if seen.action == TRIAL:
            self._test(seen.busy, seen.until_ns)

    def _end(self) -> None:
        self._ending = None
        bond = self._told.bond
        self._told = OrderReading(bond, "")
        self._report(self._told)
        self._test(bond, 0)

    def stop(self) -> None:
        """Tell no end that waits."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None


class JournalReader:
    """Reads the journal of changes again only when its folder changed: files there are replaced."""

    def __init__(self) -> None:
        self._known: tuple[int, JournalSeen] | None = None

    def read(self) -> JournalSeen:
        """Return what the journal says. May block: call it from a thread."""
        mark = 0
        with contextlib.suppress(OSError):
            mark = folder().stat().st_mtime_ns
        if self._known is not None and self._known[0] == mark:
            return self._known[1]
        seen = read_journal()
        # A later change within the same tick of the file system's clock would look like this one.
        settled = time.time_ns() - mark > SETTLED_NS
        # Whoever is at work may die without a trace in the folder.
        sure = settled and not seen.problem and not seen.busy
        self._known = (mark, seen) if sure else None
        return seen


def read_journal() -> JournalSeen:
    """Return what the journal of changes says. May block: call it from a thread."""
    journal = Journal()
    try:
        committed, change, last = frozenset(journal.committed()), journal.read(), journal.last()
        why = _stuck(journal, change) if change is not None else ""
    except (HostError, OSError, KeyError) as error:
        return JournalSeen(problem=f"the journal of changes cannot be read: {error}")
    last, change = last or {}, change or {}
    busy = str(change.get("bond", ""))
    problem = f"a change of {busy} {why}; end it with: linkhold bond rollback" if why else ""
    return JournalSeen(
        committed,
        busy="" if why else busy,
        last=str(last.get("id", "")),
        last_bond=str(last.get("bond", "")),
        problem=problem,
        action="" if why else str(change.get("action", "")),
        until_ns=0 if why else int(change.get("deadline_mono_ns", 0)),
    )


def _stuck(journal: Journal, change: Document) -> str:
    """Return why an unfinished change will not end by itself, empty where it will."""
    if change["state"] == FAILED:
        return "could not be undone"
    if change.get("boot_id") != boot_id():
        return "was not finished before the last boot"
    return "was left by the one who made it" if journal.is_left(change) else ""
