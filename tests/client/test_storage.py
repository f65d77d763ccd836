"""Uploads to a real S3 server, and over ways and to stores that fail in every manner."""

from __future__ import annotations

import logging
import os
import time
from typing import TYPE_CHECKING

import pytest

from client.conftest import until
from linkhold.client import Hold, listener, storage, storage_fs, storage_proof, upload_tries
from linkhold.client import upload as module
from support.s3 import BUCKET, Liar, S3Server, Wire, options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from client.states import HandAgent

pytest.importorskip("s3fs")
# aiobotocore leaves connections of a killed server to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning"),
]

MEBI = 1 << 20


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """One S3 server for all tests of this file; each uses names of its own."""
    with S3Server(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture
def wire(s3: S3Server) -> Iterator[Wire]:
    """A way to it."""
    with Wire(s3.port) as wire:
        yield wire


@pytest.fixture
def liar() -> Iterator[Liar]:
    """A store that lies."""
    with Liar() as liar:
        yield liar


@pytest.fixture
def hold(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """A Hold with short pauses."""
    monkeypatch.setattr(upload_tries, "FIRST_PAUSE_S", 0.05)
    monkeypatch.setattr(upload_tries, "LONGEST_PAUSE_S", 0.2)
    monkeypatch.setattr(module, "SLICE_S", 0.02)
    for name in ("WAIT_ALONE_S", "WAIT_NOBODY_S"):  # the listener ends sooner, too
        monkeypatch.setattr(listener, name, 0.05)
    hold = Hold.connect(run_dir=run_dir, wait_s=0, cover=False, upload_spread_s=0)
    yield hold
    hold.close(0)


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    """A file of random bytes."""

    def make(size_bytes: int = 3 * MEBI, name: str = "step-5.pt") -> Path:
        path = tmp_path / name
        path.write_bytes(os.urandom(size_bytes))
        return path

    return make


def test_a_file_arrives(s3: S3Server, hold: Hold, file: Callable[..., Path]) -> None:
    """A file gets to S3 byte by byte; an address that ends with / gets its name."""
    path = file()
    upload = hold.upload_to(f"s3://{BUCKET}/one/", path, storage_options=options(s3.port))

    assert upload.wait(30)
    assert (upload.error, upload.attempts) == (None, 1)
    assert s3.content("one/step-5.pt") == path.read_bytes()


def test_a_large_file_arrives_in_parts(
    s3: S3Server, hold: Hold, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checksum of an object in parts is compared too: a wrong one would not pass."""
    monkeypatch.setattr(storage, "PART_BYTES", 5 * MEBI)
    path = file(23 * MEBI)
    told: list[str] = []
    plain = storage_proof.md5

    def remember(path: Path, parts: str, part_bytes: int) -> str:
        told.append(plain(path, parts, part_bytes))
        return told[-1]

    monkeypatch.setattr(storage_proof, "md5", remember)
    upload = hold.upload_to(f"s3://{BUCKET}/parts", path, storage_options=options(s3.port))

    assert upload.wait(60)
    assert (upload.error, upload.attempts) == (None, 1)
    assert told == [s3.fs().info(f"{BUCKET}/parts")["ETag"].strip('"')]
    assert told[0].endswith("-5")
    assert s3.content("parts") == path.read_bytes()


def test_a_folder_arrives_with_its_marks_last(s3: S3Server, hold: Hold, tmp_path: Path) -> None:
    """A sharded checkpoint gets its .metadata after its shards, then the list of all."""
    folder = tmp_path / "dcp"
    (folder / "inner").mkdir(parents=True)
    for name in (".metadata", "__0_0.distcp", "__1_0.distcp", "inner/x"):
        (folder / name).write_bytes(name.encode())
    upload = hold.upload_to(f"s3://{BUCKET}/dcp", folder, storage_options=options(s3.port))

    assert upload.wait(30)
    assert upload.error is None
    keys = [key for key in s3.names() if key.startswith("dcp/")]
    assert keys == [
        "dcp/.linkhold-complete.json",
        "dcp/.metadata",
        "dcp/__0_0.distcp",
        "dcp/__1_0.distcp",
        "dcp/inner/x",
    ]
    at = {key: s3.fs().info(f"{BUCKET}/{key}")["LastModified"] for key in keys}
    assert at["dcp/.linkhold-complete.json"] >= at["dcp/.metadata"]
    assert at["dcp/.metadata"] >= max(at[key] for key in keys[2:])


def test_a_cut_in_the_middle_is_no_object(
    s3: S3Server, wire: Wire, hold: Hold, file: Callable[..., Path]
) -> None:
    """A connection that is reset in the middle leaves no half object; later it arrives whole."""
    path = file()
    wire.cut_after = MEBI
    upload = hold.upload_to(f"s3://{BUCKET}/cut", path, storage_options=options(wire.port))

    assert until(lambda: upload.attempts >= 2, 20)
    assert wire.cuts >= 2
    assert "cut" not in s3.names()
    wire.cut_after = None
    assert upload.wait(30)
    assert upload.error is None
    assert s3.content("cut") == path.read_bytes()


def test_nothing_retries_below(
    liar: Liar, hold: Hold, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One attempt of ours is one request: neither s3fs nor botocore try again by themselves."""
    monkeypatch.setattr(upload_tries, "MAX_TRIES", 1)
    liar.busy_for = "0"
    upload = hold.upload_to(f"s3://{BUCKET}/once", file(), storage_options=options(liar.port))

    assert upload.wait(30)
    assert upload.error is not None
    assert (upload.attempts, len(liar.puts)) == (1, 1)


def test_a_busy_store_is_given_the_time_it_asks_for(
    liar: Liar, hold: Hold, file: Callable[..., Path]
) -> None:
    """Retry-After is honoured, also where our own pauses are shorter."""
    liar.busy_for = "2"
    upload = hold.upload_to(f"s3://{BUCKET}/busy", file(1000), storage_options=options(liar.port))
    assert until(lambda: liar.puts, 20)
    liar.busy_for = None

    assert upload.wait(30)
    assert (upload.error, upload.attempts) == (None, 2)
    assert liar.puts[1] - liar.puts[0] > 1.9


def test_a_slow_way_is_only_slow(
    s3: S3Server, wire: Wire, hold: Hold, file: Callable[..., Path]
) -> None:
    """A transfer that moves is left alone, and training is not kept waiting for it."""
    path = file()
    wire.bytes_per_s = 1.5 * MEBI
    began_s = time.monotonic()
    upload = hold.upload_to(f"s3://{BUCKET}/slow", path, storage_options=options(wire.port))
    for step in range(1000):
        hold.step(step)
    assert time.monotonic() - began_s < 1

    assert upload.wait(30)
    assert time.monotonic() - began_s > 1.5
    assert (upload.error, upload.attempts) == (None, 1)
    assert s3.content("slow") == path.read_bytes()


def test_a_dead_way_is_given_up_and_tried_again(
    s3: S3Server,
    wire: Wire,
    hold: Hold,
    file: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write that no network takes is not waited for for ever."""
    monkeypatch.setattr(storage_fs, "STALL_S", 1.0)
    path = file(20 * MEBI)
    wire.dead = True
    upload = hold.upload_to(f"s3://{BUCKET}/dead", path, storage_options=options(wire.port))

    assert until(lambda: upload.attempts >= 2, 20)
    wire.dead = False
    assert upload.wait(30)
    assert upload.error is None
    assert s3.content("dead") == path.read_bytes()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda content: content[: len(content) // 2], "bytes of"),
        (lambda content: b"", "0 bytes of"),
        (lambda content: content[:-1] + bytes([content[-1] ^ 1]), "its content differs"),
        (lambda content: None, "does not have it"),
    ],
)
def test_a_liar_is_found_out(
    liar: Liar,
    hold: Hold,
    file: Callable[..., Path],
    spoil: Callable[[bytes], bytes | None],
    words: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A 200 for something else is no success: it is removed, said, and tried again."""
    path = file(100_000)
    liar.spoil = spoil
    with caplog.at_level(logging.WARNING, "linkhold"):
        upload = hold.upload_to(f"s3://{BUCKET}/k", path, storage_options=options(liar.port))
        assert until(lambda: upload.attempts >= 2, 20)

    assert not upload.done
    assert words in caplog.text
    liar.spoil = lambda content: content
    assert upload.wait(30)
    assert upload.error is None
    assert liar.objects == {f"{BUCKET}/k": path.read_bytes()}


def test_a_store_whose_tags_are_no_checksums(
    liar: Liar, hold: Hold, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encrypting store's ETag is no MD5: the object is read back once, then no more."""
    monkeypatch.setattr(storage_proof, "_opaque", set())
    liar.etag = "opaque"
    reads: list[str] = []
    plain = storage_proof._read_back

    def count(remote: storage_fs.Remote, target: str, size_bytes: int) -> str:
        reads.append(target)
        return plain(remote, target, size_bytes)

    monkeypatch.setattr(storage_proof, "_read_back", count)
    path = file(100_000)
    for name in ("a", "b"):
        upload = hold.upload_to(f"s3://{BUCKET}/{name}", path, storage_options=options(liar.port))
        assert upload.wait(30)
        assert (upload.error, upload.attempts) == (None, 1)
    assert reads == [f"{BUCKET}/a"]


def test_the_newest_need_not_wait_for_an_older_one_under_way(
    run_dir: Path,
    agent: HandAgent,
    s3: S3Server,
    wire: Wire,
    file: Callable[..., Path],
) -> None:
    """After a notice a long transfer is interrupted for the newest, and made up for later."""
    agent.say(by_broker=False)
    wire.bytes_per_s = 1e6
    old_file, new_file = file(20 * MEBI, "old"), file(1000, "new")
    slow, fast = options(wire.port), options(s3.port)
    with Hold.connect(run_dir=run_dir, cover=False, upload_spread_s=0) as hold:
        old = hold.upload_to(f"s3://{BUCKET}/way/", old_file, storage_options=slow)
        assert until(lambda: wire.passed > MEBI, 20)
        agent.say(by_broker=False, uploads="newest")
        new = hold.upload_to(f"s3://{BUCKET}/way/", new_file, storage_options=fast)
        assert new.wait(10)
        assert new.error is None
        assert (old.done, old.attempts) == (False, 0)
        assert "way/old" not in s3.names()
        wire.bytes_per_s = None
        agent.say(by_broker=False)
        assert old.wait(20)
        assert old.error is None


def test_a_refusal_is_final(s3: S3Server, hold: Hold, file: Callable[..., Path]) -> None:
    """A bucket that does not exist is not asked again and again."""
    upload = hold.upload_to("s3://no-such-bucket/x", file(), storage_options=options(s3.port))

    assert upload.wait(30)
    assert isinstance(upload.error, FileNotFoundError)
    assert upload.attempts == 1


def test_a_server_that_comes_back(hold: Hold, file: Callable[..., Path], tmp_path: Path) -> None:
    """A store that was killed and lost everything gets what was not confirmed."""
    path = file()
    with S3Server(tmp_path) as server:
        server.kill()
        upload = hold.upload_to(f"s3://{BUCKET}/back", path, storage_options=options(server.port))
        assert until(lambda: upload.attempts >= 2, 20)
        server.start()
        assert upload.wait(30)
        assert upload.error is None
        assert server.content("back") == path.read_bytes()


def test_source_overwritten_without_a_spool(
    run_dir: Path, agent: HandAgent, file: Callable[..., Path], tmp_path: Path
) -> None:
    """What was overwritten while it waited is never uploaded as what it was."""
    agent.say(by_broker=False, uploads="hold", network="down")
    path = file()
    with Hold.connect(run_dir=run_dir, cover=False, upload_spread_s=0) as hold:
        upload = hold.upload_to(tmp_path / "out" / "x", path)
        path.write_bytes(b"the next checkpoint")
        agent.say(by_broker=False)
        assert upload.wait(20)
    assert "was overwritten before it was uploaded" in str(upload.error)
    assert not (tmp_path / "out").exists()
