"""Sysctls below net/ipv4 of network namespaces: read, remembered, written, read back, restored.

What was found before the first write is kept on disk, with what was written: a restore touches
only values that are still ours. It counts for one boot, since a boot sets them all anew.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from linkhold.actuators.journal import boot_id
from linkhold.actuators.perform import write_file
from linkhold.decide.keepalive.sysctls import KEYS
from linkhold.inside import sysctls as inside
from linkhold.kept import read_kept
from linkhold.model import HostError
from linkhold.model.keepalive import Values
from linkhold.paths import claim_dir, find_state_dir

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

HOST = "host"
RECORD = "keepalive.json"
OWN = Path("/proc/self/ns/net")
PRIVATE = 0o600
DIGITS_MOST = 20
"""Of an inode, 64 bits."""

Change: TypeAlias = "tuple[Values, Mapping[str, int]]"
"""A namespace as it was read, and the values to write there."""
Writer: TypeAlias = "Callable[[Sequence[Change]], list[Values]]"
Looker: TypeAlias = "Callable[[int, str], Values | None]"


def own_namespace() -> int:
    """Return the inode of the network namespace that this process is in."""
    return OWN.stat().st_ino


def read() -> Values:
    """Return the sysctls of our own network namespace; one that the kernel lacks is left out."""
    errors: dict[str, str] = {}
    return Values(own_namespace(), HOST, inside.read(KEYS, errors), worded(errors))


def write(values: Mapping[str, int]) -> Values:
    """Write sysctls of our own namespace and return all of them as read back.

    ``error`` names those that could not be written, or that are not what was written.
    """
    errors: dict[str, str] = {}
    inside.write(values, errors)
    seen = inside.read(KEYS, errors)
    return Values(own_namespace(), HOST, seen, worded(errors))


def worded(errors: Mapping[str, str]) -> str:
    """Return the troubles with single sysctls as one line, empty for none."""
    keys: dict[str, list[str]] = {}
    for key, text in errors.items():
        keys.setdefault(text, []).append(f"net.ipv4.{key}")
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in keys.items())


@dataclass
class Record:
    """What was found and what was written, per namespace (inode) and key.

    Kept in ``keepalive.json`` of the state folder. Not thread-safe: one owner at a time.
    """

    folder: Path = field(default_factory=find_state_dir)
    namespaces: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return self.folder / RECORD

    @classmethod
    def load(cls, folder: Path | None = None) -> Record:
        """Return the record of this boot, empty where there is none.

        Raises :class:`HostError` for a record that is damaged: then nobody knows what was there.
        """
        record = cls(folder) if folder is not None else cls()
        try:
            document = json.loads(read_kept(record.path))
        except FileNotFoundError:
            return record
        except OSError as error:
            raise HostError(f"{record.path}: {error.strerror}") from error
        except (ValueError, RecursionError):
            document = None
        if not _is_record(document):
            raise HostError(
                f"{record.path} is damaged, so the values before linkhold are not known; remove "
                "it, and set the sysctls net.ipv4.tcp_keepalive_* as you want them"
            )
        if document["boot_id"] == boot_id():
            record.namespaces = document["namespaces"]
        return record

    def note(self, changes: Iterable[Change]) -> None:
        """Remember, on disk, what is about to be written where, and what was there at first.

        Raises :class:`HostError` when the disk does not take it: then nothing may be written. What
        is known already, as with a drift that is repaired, does not touch the disk, be it full.
        """
        known_already = json.dumps(self.namespaces)
        for before, written in changes:
            empty = {"name": before.name, "keys": {}}
            entry = self.namespaces.setdefault(str(before.namespace), empty)
            for key, value in written.items():
                known = entry["keys"].setdefault(key, {"found": before.values[key]})
                known["written"] = value
        if json.dumps(self.namespaces) != known_already:
            self.save()

    def originals(self, present: Values) -> dict[str, int]:
        """Return what must be written to have the namespace as it was found."""
        entry = self.namespaces.get(str(present.namespace), {"keys": {}})
        return {
            key: known["found"]
            for key, known in entry["keys"].items()
            if present.values.get(key) == known["written"] != known["found"]
        }

    def keep(self, namespaces: Collection[int]) -> None:
        """Forget all but these: the others are restored, or gone.

        Raises :class:`HostError` when the disk does not take it.
        """
        left = {key: entry for key, entry in self.namespaces.items() if int(key) in namespaces}
        if len(left) < len(self.namespaces):
            self.namespaces = left
            self.save()

    def save(self) -> None:
        """Write the record; an empty one is removed. Raises :class:`HostError`."""
        document = {"boot_id": boot_id(), "namespaces": self.namespaces}
        try:
            claim_dir(self.folder)
        except OSError as error:
            # A PermissionError of claim_dir names the folder itself.
            text = f"{self.folder}: {error.strerror}" if error.strerror else str(error)
            raise HostError(text) from error
        write_file(self.path, json.dumps(document) if self.namespaces else None, PRIVATE)


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of one namespace: the values that were set back, and what went wrong."""

    name: str
    values: Mapping[str, int]
    problem: str = ""


def apply(changes: Sequence[Change], write_in: Writer, folder: Path | None = None) -> list[Values]:
    """Remember what is there, write, and return what ``write_in`` read back, in their order.

    Raises :class:`HostError`, with nothing written, when what was there cannot be kept.
    """
    Record.load(folder).note(changes)
    return write_in(changes)


def restore(look: Looker, write_in: Writer, folder: Path | None = None) -> list[Restored]:
    """Put every namespace back as it was found, where the values are still the ones we wrote.

    ``look`` returns the present values of a namespace by inode, None when it is gone. Raises
    :class:`HostError` for a damaged record.
    """
    record = Record.load(folder)
    found = {key: look(int(key), entry["name"]) for key, entry in record.namespaces.items()}
    there = [one for one in found.values() if one is not None]
    wanted = {one.namespace: record.originals(one) for one in there if not one.error}
    changes = [(one, wanted[one.namespace]) for one in there if wanted.get(one.namespace)]
    after = {one.namespace: one for one in (*there, *(write_in(changes) if changes else ()))}
    done = [
        _restored(record.namespaces[str(inode)]["name"], wanted.get(inode, {}), one)
        for inode, one in after.items()
    ]
    record.keep([inode for inode, one in after.items() if one.error])
    return done


def _restored(name: str, wanted: Mapping[str, int], after: Values) -> Restored:
    back = {key: value for key, value in wanted.items() if after.values.get(key) == value}
    return Restored(name, back, after.error)


def _is_record(document: object) -> bool:
    if not isinstance(document, dict) or not isinstance(document.get("boot_id"), str):
        return False
    namespaces = document.get("namespaces")
    return isinstance(namespaces, dict) and all(
        isinstance(entry, dict)
        and inode.isdecimal()
        and len(inode) <= DIGITS_MOST
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get("keys"), dict)
        and all(key in KEYS and _is_pair(pair) for key, pair in entry["keys"].items())
        for inode, entry in namespaces.items()
    )


def _is_pair(pair: object) -> bool:
    return isinstance(pair, dict) and all(type(pair.get(k)) is int for k in ("found", "written"))
