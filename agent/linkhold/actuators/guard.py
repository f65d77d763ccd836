"""The guard of a change: undoes it when nobody commits it, whatever became of who made it.

``python -m linkhold.actuators.guard FOLDER ID``. It is started before the first change and ends
when the change is committed or undone. Standard library only: it reads the journal, nothing
else, no configuration, no D-Bus, no broker. A journal that is damaged while it guards is written
anew from what it has in memory.

The one who makes a change holds the journal's lock, which the kernel drops when that process
dies; so its death is noticed at once. One that hangs beyond the deadline is killed first, for
only one process may change the network at a time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators.journal import FAILED, PRIVATE, WAITING, Journal
from linkhold.actuators.perform import write_file
from linkhold.actuators.undo import undo
from linkhold.children import ourselves, start_alone
from linkhold.model import HostError, LinkholdError

if TYPE_CHECKING:
    from linkhold.actuators.journal import Document

LOOK_S = 0.1
RETRY_S = (5.0, 10.0, 20.0, 40.0, 60.0)
"""Pauses after an undo that failed; the last one for ever: nobody else can reach the node."""
READY_S = 10.0
READY_FILE = "guard"


def arm(journal: Journal, change: str) -> None:
    """Start the guard of ``change`` and wait until it watches.

    Raises :class:`HostError` when it does not: then nothing may be changed.
    """
    ready = journal.where / READY_FILE
    argv = [*ourselves("linkhold.actuators.guard"), str(journal.where), change]
    start_alone(argv, f"linkhold-guard-{change}")
    end = time.monotonic() + READY_S
    while not _is_ready(ready, change):
        if time.monotonic() > end:
            raise HostError(
                f"the guard that undoes a failed change did not start within {READY_S:g} s; "
                "nothing was changed"
            )
        time.sleep(0.02)


def _is_ready(path: Path, change: str) -> bool:
    try:
        return path.read_text(encoding="ascii") == change
    except (OSError, UnicodeDecodeError):
        return False


def main(argv: list[str]) -> int:
    """Guard one change and return 0 when it was committed or undone; never gives up before."""
    folder, change = argv
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # a shutdown or logout is no reason to stop guarding
    journal = Remembering(Path(folder))
    write_file(journal.where / READY_FILE, change, PRIVATE)
    pauses = iter(RETRY_S)
    while True:
        try:
            if _look(journal, change):
                return 0
            time.sleep(LOOK_S)
        except (LinkholdError, OSError):  # undoing failed, or the disk does for a while
            time.sleep(next(pauses, RETRY_S[-1]))


class Remembering(Journal):
    """A journal whose unfinished change is known still when its file is damaged.

    As it stood at the guard's last look: what was written within ``LOOK_S`` of the damage is not.
    """

    def __init__(self, where: Path) -> None:
        super().__init__(where)
        self._memory: Document | None = None

    def read(self) -> Document | None:
        """Return the change as it stands in the file, or as it last did where that is damaged.

        Raises :class:`HostError` when it was damaged from the beginning.
        """
        try:
            found = super().read()
        except HostError:
            if self._memory is None:
                raise
            return None if self._has_ended(self._memory["id"]) else self._memory
        self._memory = found if found is not None else self._memory
        return found

    def mend(self) -> None:
        """Write a damaged file anew; the caller holds the journal. A full disk changes nothing."""
        try:
            super().read()
        except HostError:
            with contextlib.suppress(HostError):
                if (known := self.read()) is not None:
                    self.write(known)

    def _has_ended(self, change: str) -> bool:
        """Whether it was committed or undone after it was read, before the file was damaged."""
        try:
            last = self.last()
        except HostError:
            return False
        return last is not None and last["id"] == change and last["ended"] != FAILED


def _look(journal: Remembering, change: str) -> bool:
    """Look after the change once; return whether it is over.

    Raises :class:`LinkholdError` when it had to be undone and that failed.
    """
    document = journal.read()
    if document is None or document["id"] != change:
        if journal.hold():  # completes a commit whose maker died on the way
            journal.release()
        return True
    overdue = time.monotonic_ns() > document["deadline_mono_ns"]
    if not journal.hold():
        if overdue:
            _end(document)
        return False
    try:
        if _is_over(journal, change):
            return True
        journal.mend()
        if not overdue and not _left_alone(journal):
            return False
        why = "not confirmed in time" if overdue else "who made it died"
        problems = undo(journal, why, journal.read())
    finally:
        journal.release()
    if problems:
        raise HostError("; ".join(problems))
    return True


def _is_over(journal: Journal, change: str) -> bool:
    document = journal.read()
    return document is None or document["id"] != change


def _left_alone(journal: Journal) -> bool:
    """Whether nobody holds a change that somebody should be at work on."""
    document = journal.read()
    return document is not None and document["state"] != WAITING


def _end(document: Document) -> None:
    """Kill the one that hangs; by pidfd and start time, since the pid may be another's by now."""
    with contextlib.suppress(OSError, ValueError):
        fd = os.pidfd_open(document["pid"])
        try:
            if started_at(document["pid"]) == document["started"]:
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)


def started_at(pid: int) -> int:
    """Return when a process started, in clock ticks since boot (proc(5), field 22)."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[19])
