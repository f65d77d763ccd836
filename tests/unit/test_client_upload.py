"""The upload worker, with real threads and short pauses."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkhold.client import upload as module
from linkhold.client.upload import Uploader
from linkhold.client.voice import Memo
from linkhold.model import Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Dice:
    """Dice that always fall the same way and remember what they were asked."""

    def __init__(self, answer: float) -> None:
        self.answer = answer
        self.asked: list[tuple[float, float]] = []

    def uniform(self, low: float, high: float) -> float:
        self.asked.append((low, high))
        return self.answer


class Rig:
    """An uploader whose gate and log a test holds in its hands."""

    def __init__(self, spread_s: float = 0.0) -> None:
        self.gate = Uploads.GO
        self.log: list[str] = []
        self.pushed: list[object] = []
        self.uploader = Uploader(lambda: self.gate, spread_s, Memo(self.log))

    def add(self, source: object, push: Callable[[object], object] | None = None) -> module.Upload:
        return self.uploader.add(source, push or self.pushed.append, None)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A rig with short pauses, closed at the end."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.02)
    monkeypatch.setattr(module, "SLICE_S", 0.02)
    rig = Rig()
    yield rig
    rig.uploader.close()


def failing(times: int) -> Callable[[object], object]:
    """A push that raises so many times, then succeeds."""
    left = iter(range(times))

    def push(_source: object) -> None:
        if next(left, None) is not None:
            raise ConnectionResetError("peer went away")

    return push


def test_in_order(rig: Rig) -> None:
    """Uploads run one at a time in the order given."""
    handles = [rig.add(n) for n in range(20)]

    assert handles[-1].wait(5)
    assert list(range(20)) == rig.pushed
    assert all(handle.done and handle.error is None for handle in handles)


def test_retries(rig: Rig) -> None:
    """An exception is retried; the log says so in few lines and then that it is done."""
    handle = rig.add("shard", failing(5))

    assert handle.wait(5)
    assert (handle.attempts, handle.error) == (6, None)
    assert sum("failed, next in" in line for line in rig.log) == 3
    assert "ConnectionResetError: peer went away" in rig.log[0]
    assert rig.log[-1] == "upload of shard done at attempt 6"


def test_gives_up(rig: Rig) -> None:
    """After the last try the handle has the error and the log one line."""
    handle = rig.add("shard", failing(1000))

    assert handle.wait(10)
    assert handle.attempts == module.MAX_TRIES
    assert isinstance(handle.error, ConnectionResetError)
    assert rig.log[-1].startswith("upload of shard failed for good: ConnectionResetError")


def test_exit_in_a_push(rig: Rig) -> None:
    """A push that calls sys.exit() ends its upload, not the worker, and is not repeated."""

    def push(_source: object) -> None:
        raise SystemExit(1)

    handle = rig.add("a", push)
    assert rig.add("b").wait(5)
    assert (handle.attempts, isinstance(handle.error, SystemExit)) == (1, True)


def test_gate_is_the_stop_condition(rig: Rig) -> None:
    """While uploads are on hold there is no attempt at all, not even a retry."""

    def push(_source: object) -> None:
        rig.gate = Uploads.HOLD
        raise ConnectionResetError

    handle = rig.add("a", push)
    time.sleep(0.3)
    assert (handle.attempts, handle.done) == (1, False)
    handle.push = rig.pushed.append
    rig.gate = Uploads.GO
    assert handle.wait(5)
    assert rig.pushed == ["a"]


def test_spread_after_a_hold(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    """After a hold the first upload starts within the spread, at random; without one at once."""
    dice = Dice(0.2)
    monkeypatch.setattr(module, "_dice", dice)
    rig.uploader._spread_s = 5.0
    rig.add(1).wait(5)
    assert dice.asked == []
    rig.gate = Uploads.HOLD
    handle = rig.add(2)
    time.sleep(0.1)
    rig.gate = Uploads.GO
    assert not handle.wait(0.1)
    assert handle.wait(5)
    assert dice.asked == [(0, 5.0)]


def test_newest_only(rig: Rig) -> None:
    """When only the newest may go, it goes alone; older ones follow when all may go."""
    rig.gate = Uploads.HOLD
    handles = [rig.add(n) for n in range(3)]
    rig.gate = Uploads.NEWEST
    assert handles[2].wait(5)
    time.sleep(0.1)
    assert rig.pushed == [2]
    assert rig.add(3).wait(5)
    rig.gate = Uploads.GO
    assert handles[1].wait(5)
    assert rig.pushed == [2, 3, 0, 1]


def test_newest_overtakes_a_failing_one(rig: Rig) -> None:
    """A retrying upload makes room for a newer one when only the newest may go."""
    old = rig.add("old", failing(10_000))
    while not old.attempts:
        time.sleep(0.001)
    rig.gate = Uploads.NEWEST
    assert rig.add("new").wait(5)
    assert rig.pushed == ["new"]


def test_full_queue(rig: Rig) -> None:
    """The oldest waiting upload yields when the queue is full, and both say so."""
    rig.gate = Uploads.HOLD
    handles = [rig.add(n) for n in range(module.MAX_WAITING + 1)]

    assert str(handles[0].error) == "superseded: 64 newer uploads wait"
    assert not handles[1].done
    assert rig.log == ["upload of 0 given up: superseded: 64 newer uploads wait"]


def test_source_removed_while_waiting(rig: Rig, tmp_path: Path) -> None:
    """A file that was removed before its turn is no reason for retries, and is named."""
    path = tmp_path / "step-100.pt"
    path.touch()
    rig.gate = Uploads.HOLD
    handle, text = rig.add(path), rig.add(str(path))
    path.unlink()
    rig.gate = Uploads.GO

    assert text.wait(5)
    assert f"{path} is gone: it was removed before it was uploaded" == str(handle.error)
    assert (0, str(handle.error)) == (handle.attempts, str(text.error))


@pytest.mark.parametrize("source", ["s3://b/k", "model", {"a": 1}, Path("s3://b/k"), None])
def test_source_that_is_no_local_file(rig: Rig, source: object) -> None:
    """Anything that is not clearly a local path is handed to the push as it is."""
    assert rig.add(source).wait(5)
    assert [source] == rig.pushed


def test_drain_and_close(rig: Rig) -> None:
    """drain() returns what is left after its time; close() ends that, and what comes later."""
    gate = threading.Event()
    running, waiting = rig.add("a", lambda _s: gate.wait(5)), rig.add("b")
    began_s = time.monotonic()

    assert rig.uploader.drain(0.2) == ("a", "b")
    assert time.monotonic() - began_s < 1
    rig.uploader.close()
    gate.set()
    assert running.wait(5)
    assert running.error is None
    assert str(waiting.error) == "the program ended before this upload"
    assert str(rig.add("c").error) == "this Hold is closed"
    assert rig.uploader.drain(1) == ()


def test_close_ends_a_retry_pause(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing does not wait for the end of a pause between attempts."""
    monkeypatch.setattr(module, "_dice", Dice(60.0))
    handle = rig.add("a", failing(1000))
    while not rig.log:
        time.sleep(0.001)
    rig.uploader.close()

    assert handle.wait(5)
    assert str(handle.error) == "the program ended before this upload"


def test_worker_ends_when_idle(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without work ends, and the next upload starts another."""
    monkeypatch.setattr(module, "IDLE_S", 0.05)
    for round_ in range(2):
        assert rig.add(round_).wait(5)
        thread = rig.uploader._thread
        if thread is not None:
            thread.join(5)
    assert rig.pushed == [0, 1]


def test_no_thread_to_have(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """When no thread can be started the handle says so; nothing is raised."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert str(rig.add("a").error) == "can't start new thread"


def test_full_jitter(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are drawn from zero to a bound that doubles."""
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 1.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 60.0)
    dice = Dice(0.0)
    monkeypatch.setattr(module, "_dice", dice)
    assert rig.add("a", failing(8)).wait(5)

    assert [(0, n) for n in (1, 2, 4, 8, 16, 32, 60, 60)] == dice.asked
