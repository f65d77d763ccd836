"""The upload worker, with real threads and short pauses."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from linkhold.client import upload as module
from linkhold.client import upload_tries
from linkhold.client.retry.breaker import Breaker, State
from linkhold.client.upload import Uploader
from linkhold.client.upload_handle import Elsewhere, Upload
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
        self.looks = 0
        self.turn: Callable[[], Uploads] = lambda: self.gate
        self.log: list[str] = []
        self.pushed: list[object] = []
        self.uploader = Uploader(self.look, spread_s, Memo(self.log))

    def look(self) -> Uploads:
        self.looks += 1
        return self.turn()

    def add(self, source: object, push: Callable[[object], object] | None = None) -> Upload:
        return self.uploader.add(source, push or self.pushed.append, None)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    """A rig with short pauses, closed at the end."""
    monkeypatch.setattr(upload_tries, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(upload_tries, "LONGEST_PAUSE_S", 0.02)
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
    assert handle.attempts == upload_tries.MAX_TRIES
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


def test_newest_is_retried(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    """The newest upload is retried like any other when only the newest may go, jitter and all."""
    dice = Dice(0.0)
    monkeypatch.setattr(upload_tries, "_dice", dice)
    rig.gate = Uploads.NEWEST
    handle = rig.add("shard", failing(3))

    assert handle.wait(5)
    assert (handle.attempts, handle.error, len(dice.asked)) == (4, None, 3)
    assert all(low == 0 for low, _high in dice.asked)


def test_newer_one_ends_a_pause(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    """A newer upload need not wait for a pause of an older one, whichever comes first."""
    monkeypatch.setattr(upload_tries, "_dice", Dice(60.0))
    for when in (Uploads.NEWEST, Uploads.GO):
        rig.gate = when
        rig.add("old", failing(1000))
        while not rig.uploader._resting:
            time.sleep(0.001)
        new = rig.add("new")
        rig.gate = Uploads.NEWEST
        assert new.wait(5)


@pytest.mark.parametrize("pause_s", [0.0, 60.0])
@pytest.mark.parametrize("turned_when", ["before", "after"])
@pytest.mark.parametrize("gates", [[gate] for gate in Uploads] + [list(Uploads)])
def test_worker_never_spins(
    monkeypatch: pytest.MonkeyPatch,
    rig: Rig,
    gates: list[Uploads],
    turned_when: str,
    pause_s: float,
) -> None:
    """Failing uploads cost few looks at the gate and few attempts, whatever the gate says."""
    monkeypatch.setattr(upload_tries, "_dice", Dice(pause_s))
    turns = itertools.cycle(gates)
    if turned_when == "before":
        rig.turn = lambda: next(turns)
    handles = [rig.add(name, failing(1000)) for name in ("old", "new")]
    time.sleep(0.05)
    rig.turn = lambda: next(turns)
    time.sleep(0.3)

    assert rig.looks < 400
    assert all(handle.attempts <= upload_tries.MAX_TRIES for handle in handles)


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


@pytest.mark.parametrize(
    ("gate", "limits", "expected_s", "left"),
    [
        (Uploads.NEWEST, (9.0,), (0, 1), ("0", "1")),
        (Uploads.HOLD, (0.4,), (0.4, 1), ("0", "1", "2")),
        (Uploads.HOLD, (9.0, 0.2), (0.2, 1), ("0", "1", "2")),
        (Uploads.GO, (9.0, 0.0), (0, 1), ()),
    ],
)
def test_drain_waits_for_what_can_go(
    rig: Rig,
    gate: Uploads,
    limits: tuple[float, ...],
    expected_s: tuple[float, float],
    left: tuple[str, ...],
) -> None:
    """drain() leaves older ones behind the newest, and a hold when it was patient enough."""
    rig.gate = Uploads.HOLD
    for n in range(3):
        rig.add(n)
    rig.gate = gate
    began_s = time.monotonic()

    assert rig.uploader.drain(*limits) == left
    assert expected_s[0] <= time.monotonic() - began_s < expected_s[1]


def test_drain_waits_for_the_push_under_way(rig: Rig) -> None:
    """An upload that is under way is waited for in every state of the gate."""
    for gate in Uploads:
        rig.gate = Uploads.GO
        handle = rig.add("a", lambda _s: time.sleep(0.3))
        while not handle.attempts:
            time.sleep(0.001)
        rig.gate = gate
        assert rig.uploader.drain(5, 0.1) == ()


def test_drain_leaves_a_pause_in_a_hold(monkeypatch: pytest.MonkeyPatch, rig: Rig) -> None:
    """An upload between two attempts is not under way: a hold of it is not waited for long."""
    monkeypatch.setattr(upload_tries, "_dice", Dice(60.0))
    rig.add("a", failing(1000))
    while not rig.uploader._resting:
        time.sleep(0.001)
    rig.gate = Uploads.HOLD
    began_s = time.monotonic()

    assert rig.uploader.drain(9, 0.1) == ("a",)
    assert time.monotonic() - began_s < 1


def test_drain_sees_the_end_of_a_hold(rig: Rig) -> None:
    """A hold that ends while drain() waits costs no upload."""
    rig.gate = Uploads.HOLD
    for n in range(3):
        rig.add(n)
    threading.Timer(0.2, setattr, (rig, "gate", Uploads.GO)).start()

    assert rig.uploader.drain(5) == ()
    assert rig.pushed == [0, 1, 2]


def test_close_ends_a_retry_pause(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing does not wait for the end of a pause between attempts."""
    monkeypatch.setattr(upload_tries, "_dice", Dice(60.0))
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
    monkeypatch.setattr(upload_tries, "FIRST_PAUSE_S", 1.0)
    monkeypatch.setattr(upload_tries, "LONGEST_PAUSE_S", 60.0)
    dice = Dice(0.0)
    monkeypatch.setattr(upload_tries, "_dice", dice)
    assert rig.add("a", failing(8)).wait(5)

    assert [(0, n) for n in (1, 2, 4, 8, 16, 32, 60, 60)] == dice.asked


def recovered(rig: Rig, n: int) -> Upload:
    """Queue what an earlier process left, the n-th of it from the newest."""
    return rig.uploader.put(Upload(f"old {n}", rig.pushed.append, None, serial=-n))


def test_what_an_earlier_process_left_comes_last(rig: Rig) -> None:
    """Uploads of this process go first, then those of the spool, the newest of them first."""
    rig.gate = Uploads.HOLD
    handles = [recovered(rig, 2), rig.add("a"), recovered(rig, 1), rig.add("b"), recovered(rig, 3)]
    rig.gate = Uploads.GO

    assert all(handle.wait(5) for handle in handles)
    assert rig.pushed == ["a", "b", "old 1", "old 2", "old 3"]


def test_the_newest_may_be_an_old_one(rig: Rig) -> None:
    """When only the newest may go and this process has none, the newest of the spool goes."""
    rig.gate = Uploads.HOLD
    first, second = recovered(rig, 1), recovered(rig, 2)
    rig.gate = Uploads.NEWEST
    assert first.wait(5)
    assert rig.add("new").wait(5)
    time.sleep(0.1)
    assert not second.done
    assert rig.pushed == ["old 1", "new"]


def test_old_ones_push_no_new_one_out(rig: Rig) -> None:
    """The limit of the queue counts this process's uploads alone."""
    rig.gate = Uploads.HOLD
    handles = [recovered(rig, n + 1) for n in range(3)]
    handles += [rig.add(n) for n in range(module.MAX_WAITING)]

    assert not any(handle.done for handle in handles)


def test_a_withdrawn_one_is_not_pushed(rig: Rig) -> None:
    """What waits can be taken back, what is under way cannot."""
    gate = threading.Event()
    running = rig.add("a", lambda _s: gate.wait(5))
    while not running.attempts:
        time.sleep(0.001)
    waiting = rig.add("b")

    assert (rig.uploader.withdraw(running), rig.uploader.withdraw(waiting)) == (False, True)
    gate.set()
    assert running.wait(5)
    assert rig.uploader.drain(5) == ()
    assert rig.pushed == []


def test_an_attempt_that_was_none_does_not_count(rig: Rig) -> None:
    """While another process has the upload under way, tries are not used up."""
    left = iter(range(30))

    def push(_source: object) -> None:
        if next(left, None) is not None:
            raise Elsewhere("another process has it")

    handle = rig.add("a", push)
    assert handle.wait(10)
    assert (handle.error, handle.attempts) == (None, 1)


class Store:
    """A store that is out of order until told otherwise."""

    def __init__(self, rig: Rig) -> None:
        self.now_s, self.works, self.asked = 0.0, False, 0
        self.breaker = Breaker(failures=2, open_s=10, now_s=lambda: self.now_s, share=lambda: 1.0)
        rig.uploader._breakers = lambda store: self.breaker if store else None
        self._rig = rig

    def add(self, name: str) -> Upload:
        return self._rig.uploader.put(Upload(name, self.push, None, store="s3://b"))

    def push(self, _source: object) -> None:
        self.asked += 1
        if not self.works:
            raise ConnectionResetError


def test_a_broken_store_is_left_alone(rig: Rig) -> None:
    """An open breaker means no attempt, and none is counted; other stores are not kept waiting."""
    store = Store(rig)
    handles = [store.add(name) for name in ("a", "b")]
    while store.breaker.state is not State.OPEN:
        time.sleep(0.001)
    time.sleep(0.2)
    assert store.asked == 2
    assert rig.add("elsewhere").wait(5)
    assert sum(handle.attempts for handle in handles) == 2

    store.now_s = 10.0
    while store.asked < 3:
        time.sleep(0.001)
    time.sleep(0.2)
    assert store.asked == 3  # a single probe
    store.works, store.now_s = True, 100.0
    assert all(handle.wait(5) and handle.error is None for handle in handles)
    assert store.asked == 5


def test_a_pause_that_the_store_asks_for(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry-After is the least pause, within reason."""
    pauses: list[float] = []
    monkeypatch.setattr(rig.uploader, "_rest", lambda _upload, pause_s: pauses.append(pause_s))

    class Busy(Exception):
        def __init__(self, seconds: str) -> None:
            self.response = SimpleNamespace(status_code=503, headers={"Retry-After": seconds})

    Busy.__module__, Busy.__qualname__ = "requests.exceptions", "HTTPError"
    asked = iter(("7", "100000"))

    def push(_source: object) -> None:
        seconds = next(asked, None)
        if seconds is not None:
            raise Busy(seconds)

    assert rig.add("a", push).wait(5)
    assert pauses == [7.0, 600.0]
