"""The spool when processes are killed at any moment, and when several share it."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from client.conftest import until
from client.spool_trainer import MARKS, Trainer, held, settled, written
from linkhold.client import Hold
from linkhold.client.spool.claim import Claim
from linkhold.client.spool.entry import Entry, read_manifest
from linkhold.client.spool.folder import Folder
from linkhold.client.spool.policy import Limits
from support.broker import TIED_TO_US
from support.s3 import BUCKET, S3Server, Wire, options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from client.states import HandAgent

pytestmark = MARKS


def test_killed_in_the_middle_of_an_upload(run_dir: Path, tmp_path: Path) -> None:
    """Killed in the middle of a transfer to S3: the next process brings it all, newest first."""
    with S3Server(tmp_path) as s3, Wire(s3.port) as wire:
        wire.bytes_per_s = 1e6
        uploads = [(f"s3://{BUCKET}/step-{n}", str(tmp_path / f"ckpt-{n}")) for n in (1, 2, 3)]
        about = {
            "run": str(run_dir), "spool": str(tmp_path / "spool"), "remove": True,
            "options": options(wire.port), "bytes": 2_000_000,
        }  # fmt: skip
        first = Trainer(uploads=uploads, stay=True, **about)
        first.until("copied")
        assert until(lambda: wire.passed > 500_000, 20)
        first.kill()
        assert not s3.names()
        assert b"test-secret" not in b"".join(
            path.read_bytes() for path in (tmp_path / "spool").rglob("manifest.json")
        )

        wire.bytes_per_s = None
        latest = [(f"s3://{BUCKET}/step-4", str(tmp_path / "ckpt-4"))]
        second = Trainer(uploads=latest, **about)
        second.until("closed")
        assert second.end() == 0
        went_on = [line for line in second.lines if "goes on: it was left" in line]

        assert s3.names() == [f"step-{n}" for n in (1, 2, 3, 4)]
        assert [line.partition(" goes")[0][-1] for line in went_on] == ["3", "2", "1"]
        for n in (1, 2, 3, 4):
            assert s3.content(f"step-{n}") == 2_000_000 * (b"%d" % n)
    assert not list((tmp_path / "spool" / "entries").iterdir())


def test_killed_in_the_middle_of_a_copy(
    run_dir: Path, tmp_path: Path, spooling: Callable[..., Hold], caplog: pytest.LogCaptureFixture
) -> None:
    """A half copy is no entry: the next process removes it, and says what was not uploaded."""
    trainer = Trainer(
        run=str(run_dir), spool=str(tmp_path / "spool"), bytes=250_000_000, stay=True,
        uploads=[(str(tmp_path / "out"), str(tmp_path / "ckpt-1"))],
    )  # fmt: skip
    entries = tmp_path / "spool" / "entries"
    assert until(lambda: list(entries.rglob("data/*")), 30)
    trainer.kill()
    assert not list(entries.rglob("manifest.json"))
    assert list(entries.iterdir())

    hold = spooling()
    settled(hold)
    assert hold.spooled() == ()
    assert not list(entries.iterdir())
    assert not list((tmp_path / "spool" / "incoming").glob("*.lock"))
    assert caplog.text.count("ckpt-1 was not uploaded: its process ended before it was copied") == 1


FILLER = """
import pathlib, sys
from dataclasses import replace
from linkhold.client import local_files
from linkhold.client.spool.entry import new_id
from linkhold.client.spool.folder import Folder
from linkhold.client.spool.manifest import Manifest
from linkhold.client.spool.policy import Limits
folder = Folder(pathlib.Path(sys.argv[1]), Limits(1 << 40, 3, 0))
source = pathlib.Path(sys.argv[2])
found = local_files.look(source)
print("ready", flush=True)
while True:
    entry = folder.admit(new_id(), found.size_bytes, (), lambda name: False)
    entry.fill(source, found, Manifest("n", source.name, False, (), 1.0), lambda: None)
    entry.release()
"""


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Whenever a process dies, the spool holds whole entries only, within its limits."""
    source = written(tmp_path / "ckpt", os.urandom(300_000))
    root = tmp_path / "spool"
    dice, folder = random.Random(7), Folder(root, Limits(1 << 40, 3, 0))
    for _ in range(12):
        process = subprocess.Popen(
            [*TIED_TO_US, sys.executable, "-c", FILLER, str(root), str(source)],
            stdout=subprocess.PIPE,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(dice.uniform(0, 0.05))
        process.kill()
        process.wait()
        process.stdout.close()
        folder.prepare()
        assert len(folder.ids()) <= 4  # three, and one that was being removed
        folder.sweep()
        assert len(folder.ids()) <= 3
        for name in folder.ids():
            entry = Entry.take(folder.entries, name)
            assert entry is not None
            manifest = read_manifest(entry.folder)
            assert manifest is not None
            entry.verify(manifest)
            entry.release()
    assert folder.ids()


def _fill(run_dir: Path, spool: Path, rank: int, ready: Any) -> None:
    hold = Hold.connect(
        run_dir=run_dir, wait_s=2, cover=False, upload_spread_s=0, spool=spool,
        spool_max_bytes=20_000, spool_free_floor_bytes=0,
    )  # fmt: skip
    ready.wait(20)
    for n in range(12):
        path = spool.parent / f"rank{rank}-{n}"
        path.write_bytes(b"%d" % rank * 1000)
        hold.upload_to(spool.parent / f"out-{rank}-{n}", path)
        settled(hold)
    ready.wait(20)
    os.kill(os.getpid(), signal.SIGKILL)


def test_ranks_share_a_spool(
    run_dir: Path, agent: HandAgent, spooling: Callable[..., Hold], tmp_path: Path
) -> None:
    """Four processes never exceed the folder's limit together; all they leave is uploaded once."""
    held(agent)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(5)
    ranks = [
        context.Process(target=_fill, args=(run_dir, tmp_path / "spool", rank, barrier))
        for rank in range(4)
    ]
    for rank in ranks:
        rank.start()
    barrier.wait(60)
    entries = tmp_path / "spool" / "entries"
    most = 0
    while barrier.n_waiting < 4:
        most = max(most, sum(1 for path in entries.glob("*") if path.is_dir()))
        time.sleep(0.002)
    barrier.wait(60)
    for rank in ranks:
        rank.join(20)
    left = len(list(entries.glob("*/manifest.json")))
    assert most <= 20
    assert 4 <= left <= 20

    agent.say(by_broker=False)
    made = [spooling(), spooling()]
    assert until(lambda: not made[0].spooled(), 20)
    assert len(list(tmp_path.glob("out-*"))) == left
    assert all((tmp_path / f"out-{rank}-11").exists() for rank in range(4))


def test_a_forked_worker_holds_no_claim(
    spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """A data loader's worker that outlives the trainer does not keep its entries locked."""
    held(agent)
    hold = spooling()
    hold.upload_to(tmp_path / "out", written(tmp_path / "a"))
    settled(hold)
    worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(20,))
    worker.start()
    try:
        hold.close(0)  # as with its death: the claim is let go here only
        (path,) = (tmp_path / "spool" / "entries").glob("*.lock")
        assert until(lambda: Claim.take(path))
    finally:
        worker.kill()
        worker.join()


def test_a_sweep_beside_the_first_upload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep takes a lock between its making and its locking: there is a place all the same."""
    folder, other = (Folder(tmp_path, Limits(1 << 30, 100, 0)) for _ in range(2))
    lock = fcntl.flock
    swept: list[bool] = []

    def late(descriptor: int, how: int) -> None:
        if not swept:
            swept.append(True)
            other.sweep()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    folder.place_for_links().mkdir()
    folder.close()

    assert swept
