"""What the processes of a node share: budgets and slots, with real files and processes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.retry import files, window
from linkhold.client.retry.budget import Budget
from linkhold.client.retry.sealed import Damaged
from linkhold.client.retry.slots import Slots
from linkhold.client.voice import Memo

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path

SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")
CLONE_NEWNS, MS_REC_PRIVATE = 0x20000, 0x44000
MS_RDONLY, MNT_DETACH = 1, 2
MOMENTS = st.lists(st.integers(0, 10**12), max_size=50).map(tuple)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path / "shared"))


def budget(lines: list[str], retries: int = 3, window_s: float = 60.0) -> Budget:
    """Return a budget that says what it has to say into ``lines``."""
    return Budget("s3", retries, window_s, Memo(lines))


@given(MOMENTS, st.integers(0, 10**12), st.floats(0.1, 100), st.integers(0, 20))
def test_a_window_never_holds_more_than_the_budget(
    moments: tuple[int, ...], now_ns: int, window_s: float, most: int
) -> None:
    """A retry is allowed exactly when fewer than the budget lie within the window before now."""
    kept, allowed = window.spend(moments, now_ns, window_s, most)
    within = [one for one in moments if now_ns - int(window_s * 1e9) < one <= now_ns]

    assert allowed is (len(within) < most)
    assert list(kept) == within + ([now_ns] if allowed else [])


@given(st.lists(st.floats(0, 30), max_size=60), st.integers(1, 5))
def test_any_pace_stays_within_the_budget(pauses: list[float], most: int) -> None:
    """Over any sequence of tries, no span as long as the window has more retries than allowed."""
    moments: tuple[int, ...] = ()
    now_ns, spent = 0, []
    for pause in pauses:
        now_ns += int(pause * 1e9)
        moments, allowed = window.spend(moments, now_ns, 60.0, most)
        if allowed:
            spent.append(now_ns)
    for first in spent:
        assert sum(first <= one < first + 60 * 10**9 for one in spent) <= most


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50).map(tuple))
def test_what_is_written_is_read(moments: tuple[int, ...]) -> None:
    """Moments survive the file."""
    assert window.unpack(window.pack(moments)) == moments


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_bytes_are_seen(noise: bytes, at: int) -> None:
    """Any bytes either are a whole window or are called damaged; a flipped one always is."""
    try:
        found = window.unpack(noise)
    except Damaged:
        found = ()
    assert not found

    whole = bytearray(window.pack((1, 2, 3)))
    whole[at % len(whole)] ^= 0x40
    with pytest.raises(Damaged):
        window.unpack(bytes(whole))


def test_a_spent_budget_allows_no_more() -> None:
    """The third of two retries is refused, also to another object: the file is shared."""
    lines: list[str] = []

    assert [budget(lines, 2).spend() for _ in range(4)] == [True, True, False, False]
    assert lines == []


def test_the_window_slides() -> None:
    """A retry is paid back once it is older than the window."""
    one = budget([], 1, window_s=0.2)

    assert one.spend()
    assert not one.spend()
    time.sleep(0.25)
    assert one.spend()


def _spend_all(answers: Connection, begin: threading.Event, each: int) -> None:
    mine = budget([], 100)
    begin.wait()
    answers.send(sum(mine.spend() for _ in range(each)))


def test_many_processes_together_stay_within_it() -> None:
    """Six processes that ask for 50 each get exactly the 100 that there are."""
    begin = SPAWN.Event()
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(6)]
    workers = [SPAWN.Process(target=_spend_all, args=(end, begin, 50)) for _, end in pipes]
    for worker in workers:
        worker.start()
    begin.set()
    spent = [answers.recv() for answers, _ in pipes]
    for worker in workers:
        worker.join()

    assert sum(spent) == 100


def test_threads_together_stay_within_it() -> None:
    """Threads of one process share the object and the budget."""
    one = budget([], 50)
    allowed: list[bool] = []

    def ask() -> None:
        allowed.extend(one.spend() for _ in range(20))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(allowed) == 50


@pytest.mark.parametrize("content", [b"x", b"garbage" * 100, window.pack((1, 2))[:-3]])
def test_a_damaged_file_starts_anew(content: bytes) -> None:
    """A damaged file costs one line, and the budget counts on from nothing."""
    path = files.path_of("s3", "budget")
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    lines: list[str] = []
    one = budget(lines, 2)

    assert [one.spend() for _ in range(3)] == [True, True, False]
    assert len(lines) == 1
    assert str(path) in lines[0]
    assert not budget(lines, 2).spend()


def test_a_folder_of_somebody_else_is_not_used() -> None:
    """In a folder where others may write, the process counts alone and says so once."""
    files.folder().mkdir()
    files.folder().chmod(0o777)
    lines: list[str] = []
    one = budget(lines, 2)

    assert [one.spend() for _ in range(3)] == [True, True, False]
    assert len(lines) == 1
    assert "others may write" in lines[0]


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    """A link under the file's name leads nowhere, whatever it points to."""
    target = tmp_path / "precious"
    target.write_bytes(b"mine")
    path = files.path_of("s3", "budget")
    path.parent.mkdir(mode=0o700)
    path.symlink_to(target)
    lines: list[str] = []

    assert budget(lines).spend()
    assert len(lines) == 1
    assert target.read_bytes() == b"mine"


def _mount(where: Path, options: bytes, flags: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", bytes(where), b"tmpfs", flags, options) != 0:
        raise OSError(ctypes.get_errno(), "mount")


def _on_tiny_disk(answers: Connection, folder: Path, *, read_only: bool) -> None:
    """Spend on a disk that is full or read-only, in a mount namespace that ends with us."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0 or libc.mount(b"", b"/", b"", MS_REC_PRIVATE, None) != 0:
        answers.send(f"no mount namespaces here: {os.strerror(ctypes.get_errno())}")
        return
    folder.mkdir(mode=0o700)
    _mount(folder, b"size=4k,mode=0700,nr_inodes=8", MS_RDONLY if read_only else 0)
    if not read_only:
        (folder / "ballast").write_bytes(b"x" * 4096)
    lines: list[str] = []
    one = budget(lines, 2)
    answers.send(([one.spend() for _ in range(3)], lines))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a file system")
@pytest.mark.parametrize("read_only", [True, False])
def test_retries_go_on_without_a_disk(*, read_only: bool) -> None:
    """On a full or a read-only disk the process counts alone, and says so once."""
    ours, theirs = FORK.Pipe(duplex=False)
    worker = FORK.Process(
        target=_on_tiny_disk, args=(theirs, files.folder()), kwargs={"read_only": read_only}
    )
    worker.start()
    found = ours.recv()
    worker.join()
    if isinstance(found, str):
        pytest.skip(found)
    allowed, lines = found

    assert allowed == [True, True, False]
    assert len(lines) == 1
    assert os.strerror(errno.EROFS if read_only else errno.ENOSPC) in lines[0]


def test_a_frozen_process_holds_nobody_up() -> None:
    """While another process sits on the lock, a retry waits a quarter of a second at most, once."""
    assert budget([]).spend()
    holder = os.open(files.path_of("s3", "budget"), os.O_RDWR)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        lines: list[str] = []
        one = budget(lines, 2)
        began_s = time.monotonic()
        allowed = [one.spend() for _ in range(3)]
        took_s = time.monotonic() - began_s
    finally:
        os.close(holder)

    assert allowed == [True, True, False]
    assert 0.2 < took_s < 2.0
    assert len(lines) == 1


def test_names_cannot_leave_the_folder() -> None:
    """Any name makes a plain file of its own in the folder."""
    names = ["../../etc/passwd", "a/b", "a_b", "s3://bucket", "x" * 200, "."]
    paths = [files.path_of(name, "budget") for name in names]

    assert len(set(paths)) == len(names)
    assert {path.parent for path in paths} == {files.folder()}
    assert all(len(path.name) < 100 and not path.name.startswith(".") for path in paths)


def test_slots_are_limited_over_objects() -> None:
    """The third call of two at once gets none, until one is given back."""
    one, other = Slots("s3", 2, Memo([])), Slots("s3", 2, Memo([]))
    first, second = one.take(), other.take()

    assert None not in {first, second}
    assert one.take() is None
    assert second is not None
    other.leave(second)
    assert one.take() is not None


def _hold_a_slot(answers: Connection) -> None:
    answers.send(Slots("s3", 1, Memo([])).take() is not None)
    time.sleep(60)


def test_a_killed_process_frees_its_slot() -> None:
    """A slot ends with its process, also by SIGKILL."""
    ours, theirs = SPAWN.Pipe(duplex=False)
    holder = SPAWN.Process(target=_hold_a_slot, args=(theirs,))
    holder.start()
    try:
        assert ours.recv()
        mine = Slots("s3", 1, Memo([]))
        assert mine.take() is None
    finally:
        holder.kill()
        holder.join()
    assert mine.take() is not None


def test_a_forked_child_does_not_keep_a_slot() -> None:
    """What a child inherits is closed in it: the parent's leave frees the slot at once."""
    one = Slots("s3", 1, Memo([]))
    slot = one.take()
    assert slot is not None
    child = FORK.Process(target=time.sleep, args=(60,))
    child.start()
    try:
        one.leave(slot)
        end_s = time.monotonic() + 5.0
        while (again := one.take()) is None and time.monotonic() < end_s:
            time.sleep(0.01)
        assert again is not None
    finally:
        child.kill()
        child.join()


def test_without_files_every_call_passes() -> None:
    """A limit that cannot be kept is said once, and holds up nobody."""
    files.folder().write_bytes(b"a file where the folder should be")
    lines: list[str] = []
    one = Slots("s3", 1, Memo(lines))
    taken = [one.take() for _ in range(3)]
    for slot in taken:
        assert slot is not None
        one.leave(slot)

    assert len(lines) == 1
    assert "not limited" in lines[0]
