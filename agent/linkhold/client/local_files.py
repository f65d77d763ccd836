"""Files and folders of this machine as uploads see them: how they looked, and copying them."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.model import LinkholdError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_FILES = 100_000
CHUNK_BYTES = 4 << 20


class Changed(LinkholdError):
    """A source is no longer what it was when its upload was asked for."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One file: ``path`` is relative to the source, empty for the source itself."""

    path: str
    inode: int
    size_bytes: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Look:
    """A file or folder as it was at one moment."""

    folder: bool
    files: tuple[Seen, ...]

    @property
    def size_bytes(self) -> int:
        """Size of all its files."""
        return sum(file.size_bytes for file in self.files)


def look(source: Path) -> Look:
    """Look at ``source``; links are followed.

    Raises :class:`OSError` where it cannot be read, :class:`LinkholdError` for what is neither
    file nor folder and for a folder of more than 100,000 files.
    """
    if not source.is_dir():
        return Look(folder=False, files=(_seen(source, ""),))
    files: list[Seen] = []
    for path in _below(source):
        if len(files) >= MOST_FILES:
            raise LinkholdError(f"{source}: more than {MOST_FILES} files (or a loop of links)")
        files.append(_seen(path, path.relative_to(source).as_posix()))
    return Look(folder=True, files=tuple(files))


def at(root: Path, path: str) -> Path:
    """Return where a file of a look lies."""
    return root / path if path else root


def link(source: Path, into: Path, found: Look) -> None:
    """Give every file of ``source`` a second name at ``into``, so that removal costs nothing.

    Raises :class:`OSError` where the file system has no such names (another disk, for one).
    """
    for file in found.files:
        name = at(into, file.path)
        name.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.link(os.path.realpath(at(source, file.path)), name)


def copy(source: Path, into: Path, file: Seen, go_on: Callable[[], None]) -> str:
    """Copy one file to a new one, flushed to the disk; return the SHA-256 of what was written.

    ``go_on`` is called between chunks and may raise. Raises :class:`Changed` when the file is
    not, or does not stay, what ``file`` says.
    """
    digest, size_bytes = hashlib.sha256(), 0
    into.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with source.open("rb") as reader, into.open("xb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            go_on()
            digest.update(chunk)
            writer.write(chunk)
            size_bytes += len(chunk)
        writer.flush()
        os.fsync(writer.fileno())
        found = os.fstat(reader.fileno())
    if (found.st_ino, size_bytes, found.st_mtime_ns) != (
        file.inode,
        file.size_bytes,
        file.mtime_ns,
    ):
        raise Changed(f"{source.name} was overwritten before it was copied to the spool")
    return digest.hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file's content; raises :class:`OSError`."""
    digest = hashlib.sha256()
    for chunk in chunks(path):
        digest.update(chunk)
    return digest.hexdigest()


def chunks(path: Path, size_bytes: int = CHUNK_BYTES) -> Iterator[bytes]:
    """Yield the content of a file; raises :class:`OSError`."""
    with path.open("rb") as file:
        while chunk := file.read(size_bytes):
            yield chunk


def remove(folder: Path) -> None:
    """Remove a folder with all in it, as far as that goes."""
    shutil.rmtree(folder, ignore_errors=True)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk; raises :class:`OSError`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _below(folder: Path) -> Iterator[Path]:
    for name, folders, files in os.walk(folder, followlinks=True, onerror=_raise):
        folders.sort()
        yield from (Path(name, file) for file in sorted(files))


def _seen(path: Path, relative: str) -> Seen:
    found = path.stat()
    if not stat.S_ISREG(found.st_mode):
        raise LinkholdError(f"{path} is neither a file nor a folder")
    return Seen(relative, found.st_ino, found.st_size, found.st_mtime_ns)


def _raise(error: OSError) -> None:
    raise error
