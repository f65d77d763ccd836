"""Entries, claims and room in a spool folder, on a real disk."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from linkhold.client import local_files
from linkhold.client.spool import folder as module
from linkhold.client.spool.claim import Claim
from linkhold.client.spool.entry import Entry, new_id, read_manifest
from linkhold.client.spool.folder import Folder, NoRoom
from linkhold.client.spool.manifest import Damaged, Manifest
from linkhold.client.spool.policy import Limits
from linkhold.client.spool.turns import Superseded, Turns
from linkhold.client.upload_handle import Elsewhere

if TYPE_CHECKING:
    from pathlib import Path

WIDE = Limits(max_bytes=1 << 30, max_count=100, free_floor_bytes=0)
PLAIN = Manifest("name", "x.pt", folder=False, files=(), at_s=1.0, url="file:///x")


def nobody(_name: str) -> bool:
    """Give up nothing of ours."""
    raise AssertionError("nothing of ours may go")


def keep(folder: Folder, source: Path, name: str | None = None) -> Entry:
    """Put a file into the spool; the entry stays held."""
    found = local_files.look(source)
    entry = folder.admit(name or new_id(), found.size_bytes, (), nobody)
    entry.fill(source, found, replace(PLAIN, base=source.name), lambda: None)
    return entry


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A file of 1000 bytes."""
    path = tmp_path / "x.pt"
    path.write_bytes(os.urandom(1000))
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Where the spool will be."""
    return tmp_path / "deep" / "spool"


def test_a_copy_is_its_own(root: Path, source: Path) -> None:
    """Overwriting the source in place changes nothing in the spool."""
    content = source.read_bytes()
    entry = keep(Folder(root, WIDE), source)
    with source.open("r+b") as file:
        file.write(b"the next one")

    manifest = read_manifest(entry.folder)
    assert manifest is not None
    entry.verify(manifest)
    assert (entry.folder / "data" / "x.pt").read_bytes() == content
    assert root.stat().st_mode & 0o777 == 0o700


def test_a_change_during_the_copy_is_found(root: Path, source: Path) -> None:
    """A source that is overwritten while it is copied makes no entry."""
    folder, found = Folder(root, WIDE), local_files.look(source)
    entry = folder.admit(new_id(), found.size_bytes, (), nobody)

    def overwrite() -> None:
        source.write_bytes(b"y" * 1000)

    with pytest.raises(local_files.Changed, match=r"x\.pt was overwritten before it was copied"):
        entry.fill(source, found, PLAIN, overwrite)
    assert read_manifest(entry.folder) is None


def test_the_oldest_free_one_goes(root: Path, source: Path) -> None:
    """What no process holds is given up, the oldest first; what one holds is not."""
    folder = Folder(root, replace(WIDE, max_count=3))
    held, first, second = (keep(folder, source) for _ in range(3))
    first.release()
    second.release()
    new = keep(folder, source)

    assert folder.ids() == [held.id, second.id, new.id]
    second_again = Entry.take(folder.entries, second.id)
    assert second_again is not None
    with pytest.raises(NoRoom, match="3 entries are kept, spool_max_count is 3"):
        keep(folder, source)


def test_bytes_are_promised_before_they_are_written(root: Path, source: Path) -> None:
    """An entry that is still being filled counts with all that it will need."""
    folder = Folder(root, replace(WIDE, max_bytes=2500))
    being_filled = folder.admit(new_id(), 2000, (), nobody)

    with pytest.raises(NoRoom, match="2000 bytes are kept and 1000 would come"):
        keep(folder, source)
    assert folder.ids() == [being_filled.id]


def test_the_floor_counts_what_is_promised(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Free space is what the disk says less what others are about to write."""
    folder = Folder(root, replace(WIDE, free_floor_bytes=5000))
    folder.prepare()

    class Small:
        f_frsize = 1
        f_bavail = 9000

    monkeypatch.setattr(os, "statvfs", lambda _path: Small)
    being_filled = folder.admit(new_id(), 3500, (), nobody)
    with pytest.raises(NoRoom, match="bytes would be left on its disk"):
        keep(folder, source)
    being_filled.release()
    keep(folder, source)


def test_what_a_crash_left_is_swept(root: Path, source: Path) -> None:
    """Half entries and second names of dead processes go, and are named; living ones' stay."""
    folder, living = Folder(root, WIDE), Folder(root, WIDE)
    half = folder.admit(new_id(), 10, (), nobody)
    (half.folder / "data").mkdir()
    (half.folder / "data" / "step-3.pt").touch()
    half.release()
    under_way = folder.admit(new_id(), 10, (), nobody)
    whole = keep(folder, source)
    whole.release()
    for name in ("step-3.pt", "step-4.pt"):
        second = folder.place_for_links()
        second.mkdir()
        (second / name).touch()
    ours = living.place_for_links()
    ours.mkdir()
    assert folder._links is not None
    folder._links.release()  # as at the death of the process

    assert living.sweep() == ["step-3.pt", "step-4.pt"]
    assert living.sweep() == []
    assert folder.ids() == [under_way.id, whole.id]
    assert ours.is_dir()
    assert len(list((root / "incoming").glob("*.lock"))) == 1


@pytest.mark.parametrize("how", ["bit", "short", "gone", "manifest", "link"])
def test_damage_is_found(root: Path, source: Path, how: str) -> None:
    """An entry whose content is not what was written is told apart from a good one."""
    entry = keep(Folder(root, WIDE), source)
    path = entry.folder / "data" / "x.pt"
    if how == "bit":
        content = bytearray(path.read_bytes())
        content[500] ^= 1
        path.write_bytes(content)
    elif how == "short":
        os.truncate(path, 999)
    elif how == "gone":
        path.unlink()
    elif how == "link":
        path.unlink()
        path.symlink_to(source)
    else:
        (entry.folder / "manifest.json").write_bytes(b"{}")

    with pytest.raises(Damaged):
        entry.verify(read_manifest(entry.folder) or PLAIN)


def test_damaged_ones_are_few(root: Path, source: Path) -> None:
    """What is put aside is kept for a person, the last four of it, and is the first to go."""
    folder = Folder(root, WIDE)
    aside = [keep(folder, source).put_aside(folder.damaged) for _ in range(6)]
    folder.sweep()
    assert sorted(folder.damaged.iterdir()) == aside[2:]

    small = Folder(root, replace(WIDE, max_count=4))
    keep(small, source)
    assert sorted(folder.damaged.iterdir()) == aside[3:]


def test_a_stuck_lock_is_not_waited_for(
    root: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that was stopped in the middle of a decision costs others seconds, no more."""
    monkeypatch.setattr(module, "LOCK_WAIT_S", 0.2)
    folder = Folder(root, WIDE)
    folder.prepare()
    lock = Claim.take(root / "lock")
    began_s = time.monotonic()
    with pytest.raises(NoRoom, match="another process has locked it"):
        keep(folder, source)
    assert time.monotonic() - began_s < 2
    assert lock is not None
    lock.release()


def test_a_claim_is_one(tmp_path: Path) -> None:
    """A lock file is held once; one that was removed meanwhile is not taken for it."""
    path = tmp_path / "a.lock"
    first = Claim.take(path)
    assert first is not None
    assert Claim.take(path) is None
    path.unlink()
    assert not first.named()
    second = Claim.take(path)
    assert second is not None
    second.release(unlink=True)
    assert not path.exists()


def test_older_never_replaces_newer(tmp_path: Path) -> None:
    """In one process and between two, an older upload to an address gives way to a newer one."""
    here, there = Turns(tmp_path / "turns"), Turns(tmp_path / "turns")
    old, new = new_id(), new_id()
    with here.turn("s3://b/latest", new):
        with pytest.raises(Elsewhere), there.turn("s3://b/latest", old):
            pass
        with there.turn("s3://b/other", old):
            pass
    with pytest.raises(Superseded), there.turn("s3://b/latest", old):
        pass
    alone = Turns(None)
    alone.expect("s3://b/latest", new)
    with pytest.raises(Superseded), alone.turn("s3://b/latest", old):
        pass


def test_a_failed_one_counts_for_nothing(tmp_path: Path) -> None:
    """Only an upload that arrived makes older ones pointless."""
    turns = Turns(tmp_path / "turns")
    old, new = new_id(), new_id()
    with pytest.raises(ConnectionResetError), turns.turn("s3://b/k", new):
        raise ConnectionResetError
    with turns.turn("s3://b/k", old):
        pass


def test_a_clock_set_back_stops_no_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upload recorded in what is now the future does not hold up those of today."""
    turns, later = Turns(tmp_path / "turns"), time.time_ns() + 3600 * 10**9
    with turns.turn("s3://b/k", f"{later:020d}-1-abcdef"):
        pass
    with turns.turn("s3://b/k", new_id()):
        pass
