"""What covered sockets had before, kept in ``cover.json`` of the state folder.

It is about sockets of the running boot, so it need not survive a loss of power: no fsync.
"""

from __future__ import annotations

import json
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold.actuators.journal import boot_id
from linkhold.kept import read_kept
from linkhold.model import HostError, StoreError
from linkhold.model.keepalive import Timers
from linkhold.paths import claim_dir, find_state_dir
from linkhold.store.statefile import StateFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

FILE = "cover.json"
NUMBERS = 9
INT_MOST = 1 << 31
"""What a pid and a socket's option are, an int of C, is below."""


@dataclass(frozen=True, slots=True)
class Original:
    """A covered socket of a process: the values that were ``found`` there and those ``given``.

    SO_KEEPALIVE was off, or it would not have been covered.
    """

    pid: int
    started: int
    inode: int
    found: Timers
    given: Timers

    @property
    def row(self) -> tuple[int, ...]:
        """Nine numbers, as they are stored."""
        return (self.pid, self.started, self.inode, *astuple(self.found), *astuple(self.given))

    @classmethod
    def of(cls, row: Sequence[int]) -> Original:
        """Return what a row means."""
        return cls(row[0], row[1], row[2], Timers(*row[3:6]), Timers(*row[6:9]))


def exists(folder: Path | None = None) -> bool:
    """Tell whether sockets were covered, in this boot or another."""
    return ((folder or find_state_dir()) / FILE).exists()


class Record:
    """The originals of this boot. A file that is damaged or of another boot counts as none.

    ``originals`` may be thinned out by the owner; the file follows when it is written next.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._path = (folder or find_state_dir()) / FILE
        self._problems: list[str] = []
        self.originals: tuple[Original, ...] = self._load()

    def take_problems(self) -> list[str]:
        """Return what was wrong with the file, once."""
        problems, self._problems = self._problems, []
        return problems

    def by_process(self) -> dict[tuple[int, int], list[Original]]:
        """Return the originals by pid and start time."""
        found: dict[tuple[int, int], list[Original]] = {}
        for original in self.originals:
            found.setdefault((original.pid, original.started), []).append(original)
        return found

    def note(self, fresh: Iterable[Original]) -> None:
        """Remember more; of a socket that is known, what was found first stays.

        Raises :class:`HostError` when it cannot be written: then nothing may be changed.
        """
        known = {original.inode: original for original in self.originals}
        for original in fresh:
            first = known.get(original.inode, original)
            known[original.inode] = replace(original, found=first.found)
        self.replace(known.values())

    def replace(self, originals: Iterable[Original]) -> None:
        """Remember these and no others; an empty record is removed. Raises :class:`HostError`."""
        rows = tuple(originals)
        try:
            if rows:
                claim_dir(self._path.parent)
                document = {"boot_id": boot_id(), "sockets": [original.row for original in rows]}
                StateFile(self._path).write(json.dumps(document).encode())
            else:
                self._path.unlink(missing_ok=True)
        except StoreError as error:
            raise HostError(str(error)) from error
        except OSError as error:
            # A PermissionError of claim_dir names the folder itself.
            text = f"{self._path}: {error.strerror}" if error.strerror else str(error)
            raise HostError(text) from error
        self.originals = rows

    def _load(self) -> tuple[Original, ...]:
        try:
            document = json.loads(read_kept(self._path))
            if document["boot_id"] != boot_id():
                return ()
            return tuple(Original.of(_row(row)) for row in document["sockets"])
        except FileNotFoundError:
            return ()
        except OSError as error:
            self._problems.append(f"{self._path}: {error.strerror}")
        except (ValueError, KeyError, TypeError, RecursionError):
            self._problems.append(
                f"{self._path} is damaged: sockets that were covered before keep keepalive until "
                "they are closed"
            )
        return ()


def _row(row: Any) -> list[int]:
    if len(row) != NUMBERS or not all(isinstance(number, int) for number in row):
        raise ValueError("no row of nine numbers")
    pid, _, _, *timers = row
    if not all(0 < number < INT_MOST for number in (pid, *timers)):
        raise ValueError("no process and no values of a socket")
    return list(row)
