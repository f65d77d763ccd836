"""One entry of the spool on the disk.

::

    <id>.lock     held by the process that fills or uploads it
    <id>/size     what it will need, in bytes, while it is being filled
    <id>/data/    the file or folder itself, under its own name
    <id>/manifest.json     written last: without it there is no entry, only what a crash left
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.client import local_files
from linkhold.client.spool.claim import Claim
from linkhold.client.spool.manifest import Damaged, File, Manifest, decode, encode
from linkhold.kept import read_kept

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.local_files import Look

MOST_MANIFEST_BYTES = 64 << 20
SIZE_DIGITS = 20
ID = re.compile(r"[0-9]{20}-[0-9]+-[0-9a-f]{6}")


class _Ids:
    """Names whose order is that of time, also when the clock is set back meanwhile."""

    last_ns = 0


def new_id() -> str:
    """Return a name that sorts behind all earlier ones of this process."""
    _Ids.last_ns = max(_Ids.last_ns + 1, time.time_ns())
    return f"{_Ids.last_ns:020d}-{os.getpid()}-{secrets.token_hex(3)}"


def at_ns(name: str) -> int:
    """Return when the wall clock said that a name was made."""
    return int(name[:20])


class Entry:
    """One entry that this process holds."""

    def __init__(self, folder: Path, claim: Claim) -> None:
        self.folder = folder
        self._claim = claim

    @classmethod
    def make(cls, entries: Path, name: str, size_bytes: int) -> Entry:
        """Make an entry to be filled; raises :class:`OSError`."""
        claim = Claim.take(entries / f"{name}.lock")
        if claim is None:
            raise FileExistsError(f"{entries / name}: somebody else has an entry of this name")
        entry = cls(entries / name, claim)
        try:
            entry.folder.mkdir(mode=0o700)
            (entry.folder / "size").write_text(str(size_bytes), encoding="ascii")
        except OSError:
            entry.remove()
            raise
        return entry

    @classmethod
    def take(cls, entries: Path, name: str) -> Entry | None:
        """Hold an entry that nobody holds; None if there is none. Raises :class:`OSError`."""
        claim = Claim.take(entries / f"{name}.lock")
        if claim is None:
            return None
        entry = cls(entries / name, claim)
        if entry.folder.is_dir():
            return entry
        claim.release(unlink=True)
        return None

    @property
    def id(self) -> str:
        """Its name."""
        return self.folder.name

    def fill(
        self, source: Path, found: Look, manifest: Manifest, go_on: Callable[[], None]
    ) -> Manifest:
        """Copy ``source`` and write the manifest; return it with its files.

        Raises :class:`OSError`, :class:`~linkhold.client.local_files.Changed`, and what ``go_on``
        raises; the entry is then no entry yet.
        """
        data = self.folder / "data"
        data.mkdir(mode=0o700)
        target = data / manifest.base
        if found.folder:
            target.mkdir(mode=0o700)
        files = tuple(
            File(
                file.path,
                file.size_bytes,
                local_files.copy(
                    local_files.at(source, file.path),
                    local_files.at(target, file.path),
                    file,
                    go_on,
                ),
            )
            for file in found.files
        )
        whole = replace(manifest, folder=found.folder, files=files)
        self._commit(whole, data)
        return whole

    def _commit(self, manifest: Manifest, data: Path) -> None:
        for folder, _, _ in os.walk(data):
            local_files.sync_folder(Path(folder))
        draft = self.folder / "manifest.new"
        with draft.open("wb") as file:
            file.write(encode(manifest))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / "manifest.json")
        local_files.sync_folder(self.folder)
        local_files.sync_folder(self.folder.parent)

    def verify(self, manifest: Manifest) -> None:
        """Read all of it; raises :class:`Damaged` for a difference, :class:`OSError`."""
        root = self.folder / "data" / manifest.base
        if manifest.folder is not root.is_dir():
            raise Damaged(f"{manifest.base} is not there")
        for file in manifest.files:
            path = local_files.at(root, file.path)
            if path.is_symlink() or not path.is_file():
                raise Damaged(f"{path.name} is not there")
            if path.stat().st_size != file.size_bytes or local_files.sha256(path) != file.sha256:
                raise Damaged(f"the content of {path.name} is not what was written")

    def put_aside(self, damaged: Path) -> Path:
        """Move it out of the way, for a person to look at; raises :class:`OSError`."""
        damaged.mkdir(mode=0o700, exist_ok=True)
        aside = damaged / self.id
        self.folder.rename(aside)
        self._claim.release(unlink=True)
        return aside

    def release(self) -> None:
        """Let go of it; it stays."""
        self._claim.release()

    def remove(self) -> None:
        """Remove it, the manifest first: a crash in between leaves no entry."""
        with contextlib.suppress(OSError):
            (self.folder / "manifest.json").unlink()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._claim.release(unlink=not self.folder.exists())


def read_manifest(folder: Path) -> Manifest | None:
    """Return an entry's manifest, None without one; raises :class:`Damaged`, :class:`OSError`."""
    try:
        content = read_kept(folder / "manifest.json", MOST_MANIFEST_BYTES)
    except FileNotFoundError:
        return None
    except ValueError:
        raise Damaged("the manifest is too large") from None
    return decode(content)


def size_bytes(folder: Path) -> int:
    """Return what an entry needs, or will need once it is filled; 0 when unknown."""
    try:
        manifest = read_manifest(folder)
        if manifest is not None:
            return manifest.size_bytes
        return int(read_kept(folder / "size", SIZE_DIGITS))
    except (OSError, ValueError, Damaged):
        return on_disk_bytes(folder)


def on_disk_bytes(folder: Path) -> int:
    """Return the size of all files in a folder."""
    total_bytes = 0
    for name, _, files in os.walk(folder):
        for file in files:
            with contextlib.suppress(OSError):
                total_bytes += os.lstat(os.path.join(name, file)).st_size  # noqa: PTH118 - os.walk's
    return total_bytes
