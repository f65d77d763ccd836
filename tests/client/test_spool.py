"""The spool in the life of processes: what is kept, claimed, put aside and replaced."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

import pytest

from client.conftest import until
from client.spool_trainer import MARKS, held, settled, written
from linkhold.client import Hold, upload_tries
from support.s3 import BUCKET, S3Server, options

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from client.states import HandAgent

pytestmark = MARKS


def test_overwritten_and_removed_sources(
    spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """Each upload brings what its source was when it was asked for, not what it is by now."""
    held(agent)
    hold, path = spooling(), tmp_path / "latest.pt"
    uploads = []
    for step in range(3):
        written(path, b"step %d" % step)
        uploads.append(hold.upload_to(tmp_path / f"out-{step}", path))
        settled(hold)
    path.unlink()
    agent.say(by_broker=False)

    assert all(upload.wait(10) and upload.error is None for upload in uploads)
    found = [(tmp_path / f"out-{step}").read_bytes() for step in range(3)]
    assert found == [b"step 0", b"step 1", b"step 2"]


def test_removed_at_once(spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path) -> None:
    """A source may be removed or replaced right after the call: it has a second name by then."""
    held(agent)
    hold = spooling()
    folder = tmp_path / "dcp"
    folder.mkdir()
    for name in (".metadata", "__0_0.distcp"):
        written(folder / name, name.encode())
    first, path = hold.upload_to(tmp_path / "out", folder), written(tmp_path / "a", b"old")
    second = hold.upload_to(tmp_path / "a-out", path)
    for name in (".metadata", "__0_0.distcp"):
        (folder / name).unlink()
    written(tmp_path / "new", b"new").replace(path)
    agent.say(by_broker=False)

    assert first.wait(10)
    assert second.wait(10)
    assert (first.error, second.error) == (None, None)
    assert (tmp_path / "out" / "__0_0.distcp").read_bytes() == b"__0_0.distcp"
    assert (tmp_path / "a-out").read_bytes() == b"old"


def test_pushes_are_claimed_by_name(
    spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """What waited for a push is found by the next process, and goes when it names a push for it."""
    held(agent)
    first = spooling()
    for n in range(3):
        name = "model" if n < 2 else "other"
        first.upload(written(tmp_path / f"step-{n}.pt", b"%d" % n), print, name=name)
    settled(first)
    first.close(0)

    agent.say(by_broker=False)
    pushed: list[tuple[str, bytes]] = []
    second = spooling()
    settled(second)
    assert [entry.name for entry in second.spooled()] == ["other", "model", "model"]
    second.resume_uploads(lambda p: pushed.append((p.name, p.read_bytes())), name="model")
    assert until(lambda: len(second.spooled()) == 1, 10)
    assert pushed == [("step-1.pt", b"1"), ("step-0.pt", b"0")]
    second.resume_uploads(lambda p: pushed.append((p.name, p.read_bytes())))
    assert until(lambda: not second.spooled(), 10)
    assert pushed[2:] == [("step-2.pt", b"2")]


def test_a_failed_one_stays(
    spooling: Callable[..., Hold], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What fails for good stays: the next process tries it again, this one does not."""
    occupied = tmp_path / "out"
    occupied.mkdir()
    hold = spooling()
    failed = hold.upload_to(occupied, written(tmp_path / "a"))
    assert failed.wait(10)
    settled(hold)
    assert failed.kept
    assert "is a folder: end the address with /" in str(failed.error)
    occupied.rmdir()
    assert hold.upload_to(tmp_path / "b-out", written(tmp_path / "b")).wait(10)
    settled(hold)
    assert "it stays in the spool" in caplog.text
    assert not occupied.exists()
    hold.close()

    spooling()
    assert until(occupied.is_file, 10)


def test_a_long_outage_of_the_store(
    spooling: Callable[..., Hold], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What gave up on a dead store goes with the next checkpoint, once the store is back."""
    monkeypatch.setattr(upload_tries, "MAX_TRIES", 2)
    hold = spooling()
    with S3Server(tmp_path) as s3:
        s3.kill()
        to_it = partial(hold.upload_to, f"s3://{BUCKET}/", storage_options=options(s3.port))
        first = to_it(written(tmp_path / "step-1", b"1"))
        assert first.wait(20)
        assert first.kept
        settled(hold)
        s3.start()
        second = to_it(written(tmp_path / "step-2", b"2"))
        assert second.wait(20)
        assert until(lambda: not hold.spooled(), 20)

        assert (s3.content("step-1"), s3.content("step-2")) == (b"1", b"2")


def test_newest_kept_when_full(
    spooling: Callable[..., Hold],
    agent: HandAgent,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A full spool gives up its oldest, says so, and holds the newest."""
    held(agent)
    hold = spooling(spool_max_count=2)
    uploads = []
    for n in range(4):
        uploads.append(hold.upload_to(tmp_path / f"out-{n}", written(tmp_path / f"ckpt-{n}")))
        settled(hold)

    assert [upload.done for upload in uploads] == [True, True, False, False]
    assert "superseded: the spool has room for newer ones only" in str(uploads[0].error)
    assert "given up: superseded" in caplog.text
    assert [entry.path.name for entry in hold.spooled()] == ["ckpt-3", "ckpt-2"]


def test_what_is_too_large_goes_without(
    spooling: Callable[..., Hold], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What the spool does not take is uploaded from where it is, and a line says why."""
    hold = spooling(spool_max_bytes=500)
    upload = hold.upload_to(tmp_path / "out", written(tmp_path / "ckpt"))

    assert upload.wait(10)
    assert upload.error is None
    assert "1000 would come, spool_max_bytes is 500; it is uploaded from where it is" in caplog.text


def test_what_is_too_large_may_be_removed_too(
    spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """A source that the spool did not copy keeps its second name until it is uploaded."""
    held(agent)
    hold = spooling(spool_max_bytes=500)
    first = hold.upload_to(tmp_path / "out", written(tmp_path / "ckpt"))
    second = hold.upload_to(tmp_path / "out-2", written(tmp_path / "ckpt-2"))
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
    spooling: Callable[..., Hold],
    agent: HandAgent,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A flipped bit in the spool is never uploaded; the entry is put aside, others go on."""
    held(agent)
    first = spooling()
    for n in range(2):
        first.upload_to(tmp_path / f"out-{n}", written(tmp_path / f"ckpt-{n}"))
    settled(first)
    victim = first.spooled()[0].path
    first.close(0)
    victim.write_bytes(b"y" + victim.read_bytes()[1:])

    agent.say(by_broker=False)
    second = spooling()
    assert until((tmp_path / "out-0").is_file, 10)
    settled(second)
    assert not (tmp_path / "out-1").exists()
    assert "the content of ckpt-1 is not what was written; put aside in" in caplog.text
    assert len(list((tmp_path / "spool" / "damaged").iterdir())) == 1


def test_an_older_one_never_replaces_a_newer_one(
    spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """latest.pt of the process before must not overwrite that of this one."""
    held(agent)
    first = spooling()
    first.upload_to(tmp_path / "latest", written(tmp_path / "a", b"old"))
    settled(first)
    first.close(0)
    agent.say(by_broker=False, uploads="newest")
    second = spooling()
    newer = second.upload_to(tmp_path / "latest", written(tmp_path / "b", b"new"))
    assert newer.wait(10)
    agent.say(by_broker=False)
    assert until(lambda: not second.spooled(), 10)

    assert (tmp_path / "latest").read_bytes() == b"new"


def test_the_log_says_where_it_stays(
    spooling: Callable[..., Hold],
    agent: HandAgent,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A program that ends on hold says that nothing is lost."""
    held(agent)
    hold = spooling()
    with caplog.at_level(logging.WARNING, "linkhold"):
        upload = hold.upload_to(tmp_path / "out", written(tmp_path / "a"), name="step 5")
        hold.close(0.3)

    assert f"1 upload not done: step 5; what is in {tmp_path / 'spool'} is taken" in caplog.text
    assert upload.kept


@pytest.mark.filterwarnings("ignore:torch.distributed is:UserWarning")
def test_a_sharded_checkpoint_of_torch(
    spooling: Callable[..., Hold], agent: HandAgent, tmp_path: Path
) -> None:
    """What torch's own distributed checkpoint wrote is read by it where it was uploaded to."""
    torch = pytest.importorskip("torch")
    dcp = pytest.importorskip("torch.distributed.checkpoint")
    saved = {"weights": torch.arange(100_000.0), "step": torch.tensor(5)}
    held(agent)
    hold = spooling()
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
