"""What an entry of the spool says of itself: a JSON document with a checksum of its own.

Pure. Whatever was not written by :func:`encode`, whole and unchanged, is refused by
:func:`decode`: a flipped bit must not send a checkpoint to another address.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from linkhold.model import LinkholdError

SCHEMA = 1
SECRET = re.compile(
    r"secret|token|passw|passphrase|credential|connection_?string|account_?key|api_?key|private"
    r"|signature|authorization|cookie|\bsas\b|^key$|^auth$|access_?key",
    re.IGNORECASE,
)
_HEX = re.compile(r"[0-9a-f]{64}")


class Damaged(LinkholdError):
    """An entry of the spool is not what was written; the text says how."""


@dataclass(frozen=True, slots=True)
class File:
    """One file of an entry, by its path below the entry's own file or folder ('' for itself)."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """One entry: ``base`` is the name of its file or folder, ``url`` is None for a push.

    ``options`` are those of the storage that may lie on a disk, ``withheld`` whether others
    are needed besides.
    """

    name: str
    base: str
    folder: bool
    files: tuple[File, ...]
    at_s: float
    url: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    withheld: bool = False

    @property
    def size_bytes(self) -> int:
        """Size of all its files."""
        return sum(file.size_bytes for file in self.files)


def encode(manifest: Manifest) -> bytes:
    """Return the document."""
    content = {"schema": SCHEMA, **asdict(manifest)}
    return _canonical({"manifest": content, "sha256": _digest(content)})


def decode(content: bytes) -> Manifest:
    """Return what a document says; raises :class:`Damaged` for anything but a good one."""
    try:
        fields = _whole(content)
        files = tuple(File(**entry) for entry in fields.pop("files"))
        manifest = Manifest(files=files, **fields)
    except Damaged:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged("the manifest is no valid document") from error
    _check(manifest)
    return manifest


def _whole(content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    fields: dict[str, Any] = document["manifest"]
    if document["sha256"] != _digest(fields) or content != _canonical(document):
        raise Damaged("the manifest's checksum is wrong")
    if fields.pop("schema") != SCHEMA:
        raise Damaged("the manifest is of another version of linkhold")
    return fields


def divide(options: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the options that may lie on a disk, and whether others were left out.

    Secrets are left out by their names, and whatever JSON cannot hold.
    """
    kept: dict[str, Any] = {}
    withheld = False
    for name, value in options.items():
        if SECRET.search(name) or not _plain(value):
            withheld = True
        elif isinstance(value, dict):
            kept[name], inner = divide(value)
            withheld = withheld or inner
        else:
            kept[name] = value
    return kept, withheld


def unite(stored: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return ``stored`` with what it lacks taken from ``given``."""
    united = {**given, **stored}
    for name, value in stored.items():
        other = given.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            united[name] = unite(value, other)
    return united


def _check(manifest: Manifest) -> None:
    """Refuse what could lead out of the entry, whoever wrote it."""
    names = [manifest.base] + [file.path for file in manifest.files if manifest.folder]
    for name in names:
        path = PurePosixPath(name)
        if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
            raise Damaged(f"the manifest names {name!r}, which is no path inside the entry")
    if len(PurePosixPath(manifest.base).parts) != 1:
        raise Damaged(f"the manifest's base {manifest.base!r} is no plain name")
    if not manifest.folder and [file.path for file in manifest.files] != [""]:
        raise Damaged("the manifest of a file does not name one file")
    for file in manifest.files:
        if file.size_bytes < 0 or not _HEX.fullmatch(file.sha256):
            raise Damaged(f"the manifest's values of {file.path!r} are out of range")


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(name, str) for name in value)
    if isinstance(value, list):
        return all(_plain(entry) and not isinstance(entry, dict) for entry in value)
    return value is None or isinstance(value, (bool, int, str, float))


def _canonical(value: Any) -> bytes:
    text = json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return text.encode("ascii") + b"\n"


def _digest(value: Any) -> str:
    return hashlib.sha256(_canonical(value)).hexdigest()
