"""The spool's folder, which all processes of a node may share: who comes in, and who goes.

::

    lock        held for the moment of a decision about room
    entries/    see :mod:`linkhold.client.spool.entry`
    incoming/   second names of files that are about to be copied, per process
    damaged/    entries that are not what was written, the last few
    turns/      the newest upload to each address, see :mod:`linkhold.client.spool.turns`
"""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

from linkhold.client.spool import entry as on_disk
from linkhold.client.spool.claim import Claim
from linkhold.client.spool.entry import ID, Entry, new_id
from linkhold.client.spool.policy import Kept, Limits, Plan, plan
from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

LOCK_WAIT_S = 10.0
LOCK_PAUSE_S = 0.05
MOST_DAMAGED = 4
MOST_REPLANS = 8
MOST_TAKES = 8


class NoRoom(LinkholdError):
    """The spool does not take an entry; the text says why."""


class Folder:
    """One spool folder; every method may raise :class:`OSError`."""

    def __init__(self, root: Path, limits: Limits) -> None:
        self.root = root
        self.entries = root / "entries"
        self.damaged = root / "damaged"
        self._incoming = root / "incoming"
        self._limits = limits
        self._links: Claim | None = None

    def prepare(self) -> None:
        """Make what is missing; only the owner may look inside."""
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.entries, self._incoming):
            folder.mkdir(exist_ok=True, mode=0o700)

    def ids(self) -> list[str]:
        """Return the entries, the oldest first, whole or not, whoever has them."""
        if not self.entries.is_dir():
            return []
        names = [path.name for path in self.entries.iterdir()]
        return sorted({name.removesuffix(".lock") for name in names if _is_id(name)})

    def place_for_links(self) -> Path:
        """Return a new name in this process's own folder of second names."""
        if self._links is None:
            self.prepare()
            self._links = self._own_links()
        own = self._links.path.with_suffix("")
        own.mkdir(exist_ok=True, mode=0o700)
        return own / new_id()

    def _own_links(self) -> Claim:
        """Hold a lock of our own; a sweep may have taken one between its making and its locking."""
        for _ in range(MOST_TAKES):
            claim = Claim.take(self._incoming / f"{new_id()}.lock")
            if claim is not None:
                return claim
        raise FileExistsError(f"{self._incoming}: no folder of our own")

    def admit(
        self, name: str, size_bytes: int, loose: Collection[str], give_up: Callable[[str], bool]
    ) -> Entry:
        """Make an entry, in the place of older ones if need be.

        ``loose`` are the entries held by this process that may go; ``give_up`` removes such a one
        and returns whether it did. Those that nobody holds may go, too. Raises :class:`NoRoom`.
        """
        self.prepare()
        lock = self._lock()
        try:
            for _ in range(MOST_REPLANS):
                if self._make_room(size_bytes, loose, give_up):
                    return Entry.make(self.entries, name, size_bytes)
        finally:
            lock.release()
        raise NoRoom("older entries cannot be removed")

    def _make_room(
        self, size_bytes: int, loose: Collection[str], give_up: Callable[[str], bool]
    ) -> bool:
        """Remove what must go; return whether that was all. Raises :class:`NoRoom`."""
        free = {name: found for name in self.ids() if (found := Entry.take(self.entries, name))}
        try:
            decided = self._plan(size_bytes, {*loose, *free})
            if not decided.admit:
                raise NoRoom(decided.why)
            for name in decided.give_up:
                if name in free:
                    free.pop(name).remove()
                elif name.startswith("damaged/"):
                    shutil.rmtree(self.root / name, ignore_errors=True)
                elif not give_up(name):
                    return False
            return not decided.give_up or self._plan(size_bytes, set()).admit
        finally:
            for entry in free.values():
                entry.release()

    def _plan(self, size_bytes: int, loose: Collection[str]) -> Plan:
        kept = [
            Kept(f"damaged/{path.name}", on_disk.size_bytes(path), loose=True)
            for path in self._aside()
        ]
        for name in self.ids():
            path = self.entries / name
            kept.append(Kept(name, on_disk.size_bytes(path), loose=name in loose))
        return plan(self._limits, kept, size_bytes, self._free_bytes())

    def _free_bytes(self) -> int:
        """Return what is free and not promised to an entry that is being filled."""
        disk = os.statvfs(self.root)
        promised = 0
        for name in self.ids():
            path = self.entries / name
            if not (path / "manifest.json").exists():
                promised += max(0, on_disk.size_bytes(path) - on_disk.on_disk_bytes(path))
        return disk.f_bavail * disk.f_frsize - promised

    def sweep(self) -> list[str]:
        """Remove what crashed processes left half done, and all but the last damaged entries.

        Return the names of the files and folders that were not copied when their process ended.
        """
        lost: list[str] = []
        for name in self.ids():
            entry = Entry.take(self.entries, name)
            if entry is not None and not (entry.folder / "manifest.json").exists():
                lost += [path.name for path in entry.folder.glob("data/*")]
                entry.remove()
            elif entry is not None:
                entry.release()
        for lock in list(self._incoming.glob("*.lock")):
            claim = Claim.take(lock)
            if claim is not None:
                lost += [path.name for path in lock.with_suffix("").glob("*/*")]
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                claim.release(unlink=True)
        for path in self._aside()[:-MOST_DAMAGED]:
            shutil.rmtree(path, ignore_errors=True)
        return sorted(set(lost))

    def close(self) -> None:
        """Remove this process's second names and let go."""
        links, self._links = self._links, None
        if links is not None:
            shutil.rmtree(links.path.with_suffix(""), ignore_errors=True)
            links.release(unlink=True)

    def after_fork(self) -> None:
        """Leave the parent's folder alone."""
        self._links = None

    def _aside(self) -> list[Path]:
        return sorted(self.damaged.iterdir()) if self.damaged.is_dir() else []

    def _lock(self) -> Claim:
        for _ in self._turns():
            claim = Claim.take(self.root / "lock")
            if claim is not None:
                return claim
        raise NoRoom(f"another process has locked it for {LOCK_WAIT_S:g} s")

    def _turns(self) -> Iterator[None]:
        end_s = time.monotonic() + LOCK_WAIT_S
        yield
        while time.monotonic() < end_s:
            time.sleep(LOCK_PAUSE_S)
            yield


def _is_id(name: str) -> bool:
    return ID.fullmatch(name.removesuffix(".lock")) is not None
