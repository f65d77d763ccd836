"""The spool in the life of processes: killed, started again, several at once, on bad disks."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import until
from linkhold.client import Hold, listener, upload_tries
from linkhold.client import upload as module
from linkhold.client.spool.claim import Claim
from linkhold.client.spool.entry import Entry, read_manifest
from linkhold.client.spool.folder import Folder
from linkhold.client.spool.policy import Limits
from support.broker import TIED_TO_US
from support.places import Mounts
from support.s3 import BUCKET, S3Server, Wire, options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from client.states import HandAgent

pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]

TRAINER = """
import json, logging, pathlib, sys, time
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from linkhold.client import Hold
settings = json.loads(sys.argv[1])
hold = Hold.connect(run_dir=settings["run"], spool=settings["spool"], cover=False, wait_s=2,
                    upload_spread_s=0, spool_free_floor_bytes=settings.get("floor", 0))
for url, source in settings["uploads"]:
    pathlib.Path(source).write_bytes(settings.get("bytes", 1000) * source[-1:].encode())
    hold.upload_to(url, source, storage_options=settings.get("options"))
    if settings.get("remove"):
        pathlib.Path(source).unlink()
while not hold._outgoing._spool.settle(0.1):
    time.sleep(0.01)
print("copied", flush=True)
if settings.get("stay"):
    time.sleep(60)
hold.close(30)
print("closed", flush=True)
"""


class Trainer:
    """A training process that uploads what it is told to, and may be killed."""

    def __init__(self, *wrap: str, **settings: Any) -> None:
        import json

        self.lines: list[str] = []
        self.process = subprocess.Popen(
            [*TIED_TO_US, *wrap, sys.executable, "-c", TRAINER, json.dumps(settings)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def until(self, line: str) -> None:
        """Read what it says until it says ``line``."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(text.rstrip())
            if line in text:
                return
        raise AssertionError("\n".join(self.lines))

    def kill(self) -> None:
        """End it as the kernel does when memory is out."""
        self.process.kill()
        self.end()

    def end(self) -> int:
        """Wait for its end."""
        assert self.process.stdout is not None
        self.lines += self.process.stdout.read().splitlines()
        self.process.stdout.close()
        return self.process.wait(60)


@pytest.fixture
def make(run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Holds with a spool and short pauses, closed at the end."""
    monkeypatch.setattr(upload_tries, "FIRST_PAUSE_S", 0.02)
    monkeypatch.setattr(upload_tries, "LONGEST_PAUSE_S", 0.1)
    monkeypatch.setattr(module, "SLICE_S", 0.02)
    for name in ("WAIT_ALONE_S", "WAIT_NOBODY_S"):  # the listener ends sooner, too
        monkeypatch.setattr(listener, name, 0.05)
    made: list[Hold] = []

    def connect(**settings: Any) -> Hold:
        settings.setdefault("spool", tmp_path / "spool")
        settings.setdefault("spool_free_floor_bytes", 0)
        hold = Hold.connect(run_dir=run_dir, wait_s=2, cover=False, upload_spread_s=0, **settings)
        made.append(hold)
        return hold

    yield connect
    for hold in made:
        hold.close(0)


def held(agent: HandAgent) -> None:
    """Put uploads on hold."""
    agent.say(by_broker=False, uploads="hold", network="down", cause=("eth0 lost carrier",))


def settled(hold: Hold) -> None:
    """Wait until what was given is copied, and what others left is taken up."""
    assert hold._outgoing is not None
    spool = hold._outgoing._spool
    assert spool is not None
    assert until(lambda: spool._thread is None, 20)


def file(path: Path, content: bytes = b"x" * 1000) -> Path:
    """Write a file."""
    path.write_bytes(content)
    return path


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
    run_dir: Path, tmp_path: Path, make: Callable[..., Hold], caplog: pytest.LogCaptureFixture
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

    hold = make()
    settled(hold)
    assert hold.spooled() == ()
    assert not list(entries.iterdir())
    assert not list((tmp_path / "spool" / "incoming").glob("*.lock"))
    assert caplog.text.count("ckpt-1 was not uploaded: its process ended before it was copied") == 1


def test_overwritten_and_removed_sources(
    make: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """Each upload brings what its source was when it was asked for, not what it is by now."""
    held(agent)
    hold, path = make(), tmp_path / "latest.pt"
    uploads = []
    for step in range(3):
        file(path, b"step %d" % step)
        uploads.append(hold.upload_to(tmp_path / f"out-{step}", path))
        settled(hold)
    path.unlink()
    agent.say(by_broker=False)

    assert all(upload.wait(10) and upload.error is None for upload in uploads)
    found = [(tmp_path / f"out-{step}").read_bytes() for step in range(3)]
    assert found == [b"step 0", b"step 1", b"step 2"]


def test_removed_at_once(make: Callable[..., Hold], agent: HandAgent, tmp_path: Path) -> None:
    """A source may be removed or replaced right after the call: it has a second name by then."""
    held(agent)
    hold = make()
    folder = tmp_path / "dcp"
    folder.mkdir()
    for name in (".metadata", "__0_0.distcp"):
        file(folder / name, name.encode())
    first, path = hold.upload_to(tmp_path / "out", folder), file(tmp_path / "a", b"old")
    second = hold.upload_to(tmp_path / "a-out", path)
    for name in (".metadata", "__0_0.distcp"):
        (folder / name).unlink()
    file(tmp_path / "new", b"new").replace(path)
    agent.say(by_broker=False)

    assert first.wait(10)
    assert second.wait(10)
    assert (first.error, second.error) == (None, None)
    assert (tmp_path / "out" / "__0_0.distcp").read_bytes() == b"__0_0.distcp"
    assert (tmp_path / "a-out").read_bytes() == b"old"


def test_pushes_are_claimed_by_name(
    make: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """What waited for a push is found by the next process, and goes when it names a push for it."""
    held(agent)
    first = make()
    for n in range(3):
        name = "model" if n < 2 else "other"
        first.upload(file(tmp_path / f"step-{n}.pt", b"%d" % n), print, name=name)
    settled(first)
    first.close(0)

    agent.say(by_broker=False)
    pushed: list[tuple[str, bytes]] = []
    second = make()
    settled(second)
    assert [entry.name for entry in second.spooled()] == ["other", "model", "model"]
    second.resume_uploads(lambda p: pushed.append((p.name, p.read_bytes())), name="model")
    assert until(lambda: len(second.spooled()) == 1, 10)
    assert pushed == [("step-1.pt", b"1"), ("step-0.pt", b"0")]
    second.resume_uploads(lambda p: pushed.append((p.name, p.read_bytes())))
    assert until(lambda: not second.spooled(), 10)
    assert pushed[2:] == [("step-2.pt", b"2")]


def test_a_failed_one_stays(
    make: Callable[..., Hold], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails for good stays: the next process tries it again, this one does not."""
    occupied = tmp_path / "out"
    occupied.mkdir()
    hold = make()
    failed = hold.upload_to(occupied, file(tmp_path / "a"))
    assert failed.wait(10)
    settled(hold)
    assert failed.kept
    assert "is a folder: end the address with /" in str(failed.error)
    occupied.rmdir()
    assert hold.upload_to(tmp_path / "b-out", file(tmp_path / "b")).wait(10)
    settled(hold)
    assert "it stays in the spool" in caplog.text
    assert not occupied.exists()
    hold.close()

    make()
    assert until(occupied.is_file, 10)


def test_a_long_outage_of_the_store(
    make: Callable[..., Hold], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gave up on a dead store goes with the next checkpoint, once the store is back."""
    monkeypatch.setattr(upload_tries, "MAX_TRIES", 2)
    hold = make()
    with S3Server(tmp_path) as s3:
        s3.kill()
        to_it = partial(hold.upload_to, f"s3://{BUCKET}/", storage_options=options(s3.port))
        first = to_it(file(tmp_path / "step-1", b"1"))
        assert first.wait(20)
        assert first.kept
        settled(hold)
        s3.start()
        second = to_it(file(tmp_path / "step-2", b"2"))
        assert second.wait(20)
        assert until(lambda: not hold.spooled(), 20)

        assert (s3.content("step-1"), s3.content("step-2")) == (b"1", b"2")


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
    source = file(tmp_path / "ckpt", os.urandom(300_000))
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


def test_newest_kept_when_full(
    make: Callable[..., Hold],
    agent: HandAgent,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full spool gives up its oldest, says so, and holds the newest."""
    held(agent)
    hold = make(spool_max_count=2)
    uploads = []
    for n in range(4):
        uploads.append(hold.upload_to(tmp_path / f"out-{n}", file(tmp_path / f"ckpt-{n}")))
        settled(hold)

    assert [upload.done for upload in uploads] == [True, True, False, False]
    assert "superseded: the spool has room for newer ones only" in str(uploads[0].error)
    assert "given up: superseded" in caplog.text
    assert [entry.path.name for entry in hold.spooled()] == ["ckpt-3", "ckpt-2"]


def test_what_is_too_large_goes_without(
    make: Callable[..., Hold], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the spool does not take is uploaded from where it is, and a line says why."""
    hold = make(spool_max_bytes=500)
    upload = hold.upload_to(tmp_path / "out", file(tmp_path / "ckpt"))

    assert upload.wait(10)
    assert upload.error is None
    assert "1000 would come, spool_max_bytes is 500; it is uploaded from where it is" in caplog.text


def test_what_is_too_large_may_be_removed_too(
    make: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """A source that the spool did not copy keeps its second name until it is uploaded."""
    held(agent)
    hold = make(spool_max_bytes=500)
    first = hold.upload_to(tmp_path / "out", file(tmp_path / "ckpt"))
    second = hold.upload_to(tmp_path / "out-2", file(tmp_path / "ckpt-2"))
    settled(hold)
    (tmp_path / "ckpt").unlink()
    with (tmp_path / "ckpt-2").open("r+b") as source:
        source.write(b"the next one")
    agent.say(by_broker=False)

    assert first.wait(10)
    assert second.wait(10)
    assert first.error is None
    assert "ckpt-2 was overwritten before it was uploaded" in str(second.error)
    assert (tmp_path / "out").read_bytes() == b"x" * 1000
    assert until(lambda: not list((tmp_path / "spool" / "incoming").glob("*/*")))


def test_damage_is_put_aside(
    make: Callable[..., Hold],
    agent: HandAgent,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A flipped bit in the spool is never uploaded; the entry is put aside, others go on."""
    held(agent)
    first = make()
    for n in range(2):
        first.upload_to(tmp_path / f"out-{n}", file(tmp_path / f"ckpt-{n}"))
    settled(first)
    victim = first.spooled()[0].path
    first.close(0)
    victim.write_bytes(b"y" + victim.read_bytes()[1:])

    agent.say(by_broker=False)
    second = make()
    assert until((tmp_path / "out-0").is_file, 10)
    settled(second)
    assert not (tmp_path / "out-1").exists()
    assert "the content of ckpt-1 is not what was written; put aside in" in caplog.text
    assert len(list((tmp_path / "spool" / "damaged").iterdir())) == 1


def test_an_older_one_never_replaces_a_newer_one(
    make: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """latest.pt of the process before must not overwrite that of this one."""
    held(agent)
    first = make()
    first.upload_to(tmp_path / "latest", file(tmp_path / "a", b"old"))
    settled(first)
    first.close(0)
    agent.say(by_broker=False, uploads="newest")
    second = make()
    newer = second.upload_to(tmp_path / "latest", file(tmp_path / "b", b"new"))
    assert newer.wait(10)
    agent.say(by_broker=False)
    assert until(lambda: not second.spooled(), 10)

    assert (tmp_path / "latest").read_bytes() == b"new"


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
    run_dir: Path, agent: HandAgent, make: Callable[..., Hold], tmp_path: Path
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
    made = [make(), make()]
    assert until(lambda: not made[0].spooled(), 20)
    assert len(list(tmp_path.glob("out-*"))) == left
    assert all((tmp_path / f"out-{rank}-11").exists() for rank in range(4))


def test_a_forked_worker_holds_no_claim(
    make: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """A data loader's worker that outlives the trainer does not keep its entries locked."""
    held(agent)
    hold = make()
    hold.upload_to(tmp_path / "out", file(tmp_path / "a"))
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


@pytest.mark.parametrize("how", ["read-only", "full", "a file"])
def test_bad_disks(run_dir: Path, tmp_path: Path, how: str) -> None:
    """A spool that cannot be written costs one line and its protection, not the upload."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    spool = tmp_path / "spool"
    spool.mkdir()
    mounts = Mounts()
    try:
        mounts.run(f"mount -t tmpfs -o size=3m none {spool}")
        if how == "read-only":
            mounts.run(f"mount -o remount,ro {spool}")
        elif how == "full":
            mounts.run(f"head -c 2500000 /dev/zero >{spool}/fill")
        else:
            mounts.run(f"umount {spool} && rmdir {spool} && touch {spool}")
        trainer = Trainer(
            *mounts.wrap, run=str(run_dir), spool=str(spool), bytes=1_000_000,
            uploads=[(str(tmp_path / f"out-{n}"), str(tmp_path / f"ckpt-{n}")) for n in (1, 2)],
        )  # fmt: skip
        trainer.until("closed")
        assert trainer.end() == 0
        left = mounts.output(f"ls {spool}/entries 2>/dev/null || true")
    finally:
        mounts.close()
    told = "\n".join(trainer.lines)
    assert "the spool does not take" in told
    assert "it is uploaded from where it is" in told
    assert "Traceback" not in told
    assert left == ""
    assert [(tmp_path / f"out-{n}").stat().st_size for n in (1, 2)] == [1_000_000] * 2


def test_full_in_the_middle(run_dir: Path, tmp_path: Path) -> None:
    """A disk that fills up during the copy leaves no half entry behind."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount")
    spool = tmp_path / "spool"
    spool.mkdir()
    mounts = Mounts()
    try:
        mounts.run(f"mount -t tmpfs -o size=350m none {spool}")
        trainer = Trainer(
            *mounts.wrap, run=str(run_dir), spool=str(spool), bytes=250_000_000,
            uploads=[(str(tmp_path / "out"), str(tmp_path / "ckpt-1"))],
        )  # fmt: skip
        assert until(lambda: mounts.output(f"find {spool} -path '*data/ckpt-1'"), 20)
        mounts.run(f"cat /dev/zero >{spool}/fill 2>/dev/null || true")
        trainer.until("closed")
        assert trainer.end() == 0
        assert mounts.output(f"ls {spool}/entries {spool}/incoming").split() == [
            f"{spool}/entries:", f"{spool}/incoming:",
        ]  # fmt: skip
    finally:
        mounts.close()
    assert any("No space left on device" in line for line in trainer.lines)
    assert (tmp_path / "out").stat().st_size == 250_000_000


def test_the_log_says_where_it_stays(
    make: Callable[..., Hold],
    agent: HandAgent,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A program that ends on hold says that nothing is lost."""
    held(agent)
    hold = make()
    with caplog.at_level(logging.WARNING, "linkhold"):
        upload = hold.upload_to(tmp_path / "out", file(tmp_path / "a"), name="step 5")
        hold.close(0.3)

    assert f"1 upload not done: step 5; what is in {tmp_path / 'spool'} is taken" in caplog.text
    assert upload.kept


@pytest.mark.filterwarnings("ignore:torch.distributed is:UserWarning")
def test_a_sharded_checkpoint_of_torch(
    make: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """What torch's own distributed checkpoint wrote is read by it where it was uploaded to."""
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    saved = {"weights": torch.arange(100_000.0), "step": torch.tensor(5)}
    held(agent)
    hold = make()
    dcp.save(saved, checkpoint_id=tmp_path / "step-5", no_dist=True)
    upload = hold.upload_to(f"{tmp_path}/store/", tmp_path / "step-5")
    settled(hold)
    agent.say(by_broker=False)
    assert upload.wait(20)
    assert upload.error is None

    loaded = {"weights": torch.zeros(100_000), "step": torch.tensor(0)}
    dcp.load(loaded, checkpoint_id=tmp_path / "store" / "step-5", no_dist=True)
    assert torch.equal(loaded["weights"], saved["weights"])
    assert loaded["step"] == 5
