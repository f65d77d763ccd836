"""Code that uploads inline, addresses, and what is said when something is missing."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.client import Hold, UploadsOnHold, storage, storage_fs, storage_proof, upload_calls
from linkhold.client.storage_proof import Unverified

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def spread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the dice for the random start after a hold always say: in the middle."""

    class Dice:
        @staticmethod
        def uniform(low: float, high: float) -> float:
            return (low + high) / 2

    monkeypatch.setattr(upload_calls, "_dice", Dice)


@pytest.mark.parametrize("gate", ["go", "newest"])
def test_inline_goes_at_once(gate: str) -> None:
    """While uploads may go, or the newest may, the code runs at once."""
    hold = Hold.fake(uploads=gate)
    with hold.uploading(wait=False):
        pass
    assert hold.held_s == 0


def test_inline_waits_for_the_end_of_a_hold() -> None:
    """It waits as long as uploads are held, then a random while, feeding watchdogs; and says so."""
    slices: list[float] = []

    def sleep(seconds: float) -> None:
        slices.append(seconds)
        if len(slices) == 40:
            hold.set(uploads="go", network="ok")

    hold = Hold.fake(uploads="hold", network="down", cause="eth0 lost carrier", sleep=sleep)
    fed: list[int] = []
    hold.on_wait = lambda: fed.append(1)
    with hold.uploading():
        began_s = hold.held_s

    assert 12.4 <= began_s <= 12.8  # 40 slices of 0.25 s on hold, 2.5 s of 5 at random
    assert max(slices) <= 0.5
    assert len(fed) == len(slices)
    assert hold.log[0] == "training on hold: uploads are held: network down (eth0 lost carrier)"


def test_inline_gives_up_in_time() -> None:
    """After its time it raises, before the code has run, and says what to do."""
    hold = Hold.fake(uploads="hold", network="down", cause="eth0 lost carrier")
    ran = False
    words = r"uploads are held: network down \(eth0 lost carrier\); still so after 7 s. Try again"
    with pytest.raises(UploadsOnHold, match=words), hold.uploading(timeout_s=7):
        ran = True

    assert not ran
    assert 7 <= hold.held_s < 7.5


def test_inline_waits_no_longer_than_training_would() -> None:
    """Without a time of its own the limit is that of the Hold."""
    hold = Hold.fake(uploads="hold", max_hold_s=20)
    with pytest.raises(UploadsOnHold, match="still so after 20 s"), hold.uploading():
        pass


def test_inline_that_does_not_wait() -> None:
    """With wait=False a hold raises at once."""
    hold = Hold.fake(uploads="hold")
    with pytest.raises(UploadsOnHold), hold.uploading(wait=False):
        pass
    assert hold.held_s == 0


@pytest.mark.parametrize("timeout_s", [-1, float("nan"), "5", True])
def test_inline_with_a_wrong_time(timeout_s: Any) -> None:
    """A wrong limit is said at once."""
    hold = Hold.fake(uploads="hold")
    with (
        pytest.raises((TypeError, ValueError), match="timeout_s"),
        hold.uploading(timeout_s=timeout_s),
    ):
        pass


def test_errors_of_the_code_pass_through() -> None:
    """What the code raises is its caller's."""
    hold = Hold.fake()
    with pytest.raises(ZeroDivisionError), hold.uploading():
        _ = 1 / 0


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("s3://b/k", "s3://b/k"),
        ("s3://b/run/", "s3://b/run/step-5.pt"),
        ("/out/", "/out/step-5.pt"),
        ("/out/x", "/out/x"),
        ("S3://b/k", "S3://b/k"),
    ],
)
def test_addresses(url: str, expected: str) -> None:
    """An address is as given; one that ends with / gets the name of the source."""
    assert storage.full_address(url, "/tmp/step-5.pt") == expected


@pytest.mark.parametrize(
    ("url", "error", "words"),
    [
        ("", ValueError, "is no address"),
        ("/", ValueError, "is no address"),
        ("s3://", ValueError, "names no file"),
        (5, TypeError, "5 is no address"),
        (None, TypeError, "None is no address"),
    ],
)
def test_wrong_addresses(url: Any, error: type[Exception], words: str) -> None:
    """What is no address is said at the call, with what would be one."""
    with pytest.raises(error, match=words):
        Hold.fake().upload_to(url, "/tmp/x")


def test_no_password_in_the_log() -> None:
    """Names of users and passwords in an address stay out of the log and of the breaker's name."""
    assert storage.shown("ftp://me:secret@host/x") == "ftp://host/x"
    assert storage.store_of("ftp://me:secret@host:21/x") == "ftp://host:21"
    assert storage.store_of("s3://bucket/a/b") == "s3://bucket"
    assert storage.store_of("/mnt/nfs/x") == "file://"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("gs://b/x", "gs:// needs the package gcsfs: pip install gcsfs"),
        ("nosuch://b/x", "no storage of fsspec is called nosuch://"),
    ],
)
def test_a_missing_package_is_named(tmp_path: Path, url: str, words: str) -> None:
    """A missing package is no crash of training: the handle and one line say what to install."""
    if url.startswith("gs"):
        pytest.importorskip("fsspec")
    path = tmp_path / "x"
    path.touch()
    hold = Hold.fake()
    upload = hold.upload_to(url, path)

    assert upload.done
    assert words in str(upload.error)
    assert words in hold.log[-1]


def test_fsspec_itself_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec the line names our extra."""
    monkeypatch.setattr(storage, "find_spec", lambda _name: None)
    path = tmp_path / "x"
    path.touch()

    assert "pip install 'linkhold[storage]'" in str(Hold.fake().upload_to("s3://b/x", path).error)


def test_a_missing_source_is_named(tmp_path: Path) -> None:
    """A source that is not there is said at once."""
    upload = Hold.fake().upload_to("s3://b/x", tmp_path / "gone.pt")

    assert upload.done
    assert "gone.pt" in str(upload.error)


def test_the_fake_uploads_to_memory(tmp_path: Path) -> None:
    """Tests of training code may name a store in memory: the gate counts, the content arrives."""
    import fsspec

    path = tmp_path / "x"
    path.write_bytes(b"weights")
    hold = Hold.fake(uploads="hold")
    upload = hold.upload_to("memory://uploading/x", path)
    assert not upload.done
    hold.set(uploads="go")

    assert (upload.done, upload.error) == (True, None)
    assert fsspec.filesystem("memory").cat("/uploading/x") == b"weights"
    assert not [name for name in fsspec.filesystem("memory").find("/") if "part" in name]


def test_a_folder_of_others_is_not_replaced(tmp_path: Path) -> None:
    """A folder is replaced by a newer upload of a folder only if an upload made it."""
    source, target = tmp_path / "dcp", tmp_path / "out"
    (source).mkdir()
    (source / "a").write_text("1")
    target.mkdir()
    (target / "thesis.txt").write_text("3 years")
    hold = Hold.fake()
    refused = hold.upload_to(target, source)
    assert "is there and no upload made it: name a new folder" in str(refused.error)
    assert (target / "thesis.txt").read_text() == "3 years"

    assert hold.upload_to(tmp_path / "new", source).error is None
    (source / "a").rename(source / "b")
    assert hold.upload_to(tmp_path / "new", source).error is None
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [storage_fs.COMPLETE, "b"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dcp", "new", "out"]


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"ETag": '"0123456789abcdef0123456789abcdef"'}, "0123456789abcdef0123456789abcdef"),
        ({"ETag": '"0123456789abcdef0123456789abcdef-7"'}, "0123456789abcdef0123456789abcdef-7"),
        ({"md5Hash": "1B2M2Y8AsgTpgAmY7PhCfg=="}, "d41d8cd98f00b204e9800998ecf8427e"),
        ({"ETag": "W/weak"}, None),
        ({"md5Hash": "not base64"}, None),
        ({"size": 5}, None),
    ],
)
def test_told_checksums(info: dict[str, Any], told: str | None) -> None:
    """S3's and Google's words for a checksum are understood, others are none."""
    assert storage_proof.told_md5(info) == told


def test_what_is_tried_again() -> None:
    """Faults of the way and of the store are retried, mistakes and a full disk are not."""
    assert storage.retryable(ConnectionResetError())
    assert storage.retryable(Unverified("x"))
    assert not storage.retryable(PermissionError(13, "no"))
    assert not storage.retryable(OSError(28, "No space left on device"))
    assert not storage.retryable(TypeError())


def test_botocore_is_calmed_and_the_user_has_the_last_word() -> None:
    """The retries of botocore are turned off for S3 alone, unless the user set them."""
    assert storage.calm("s3", {})["config_kwargs"]["retries"] == {"total_max_attempts": 1}
    given = {"anon": True, "config_kwargs": {"retries": {"total_max_attempts": 4}}}
    assert storage.calm("s3", given)["config_kwargs"]["retries"] == {"total_max_attempts": 4}
    assert storage.calm("s3", given)["anon"] is True
    assert storage.calm("gs", {"a": 1}) == {"a": 1}


def test_importing_the_client_stays_cheap() -> None:
    """Nobody pays for fsspec, torch or a storage before the first upload to one."""
    code = (
        "import sys, linkhold.client.outgoing, linkhold.client;"
        "print([m for m in ('fsspec', 's3fs', 'torch', 'aiohttp', 'asyncio', 'tenacity',"
        "'pyroute2', 'psutil', 'yaml') if m in sys.modules])"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"spool_max_bytes": 0}, "spool_max_bytes: 0 is not 1 to"),
        ({"spool_max_count": 1.5}, "spool_max_count: 1.5 is no whole number"),
        ({"spool_free_floor_bytes": -1}, "spool_free_floor_bytes: -1 is not 0 to"),
    ],
)
def test_wrong_settings(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    """A wrong bound of the spool is said when the Hold is made."""
    with pytest.raises((TypeError, ValueError), match=words):
        Hold.connect(spool=tmp_path, **settings)
