"""The client against a real broker and hand-made states."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import Broker, until
from client.states import HOLD, HandAgent, document, event
from linkhold.client import GiveUp, Hold, decision, listener

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def connected(run_dir: Path, **arguments: Any) -> Iterator[Hold]:
    """A Hold that is closed at the end, without waiting for uploads."""
    hold = Hold.connect(run_dir=run_dir, **arguments)
    try:
        yield hold
    finally:
        hold.close(0)


def held(hold: Hold) -> float:
    """Do one step; return the seconds it took."""
    began_s = time.monotonic()
    hold.step(1)
    return time.monotonic() - began_s


def test_hold_and_release(broker: Broker, run_dir: Path, agent: HandAgent) -> None:
    """A state holds training at the next step, and another releases it within a second."""
    agent.say(by_file=False)
    with connected(run_dir) as hold:
        assert held(hold) < 0.1

        agent.say(by_file=False, **HOLD)
        assert until(lambda: hold._attention)
        timer = threading.Timer(1.0, lambda: agent.say(by_file=False))
        timer.start()

        assert 0.8 < held(hold) < 2.0
        assert hold.waiting_for is None
        assert 0.8 < hold.held_s < 2.0
        timer.join()


def test_words(
    broker: Broker, run_dir: Path, agent: HandAgent, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says why training is held when that begins, and how long it was when it ends."""
    caplog.set_level(logging.INFO, "linkhold")
    agent.say(**HOLD)
    with connected(run_dir) as hold:
        timer = threading.Timer(0.4, agent.say)
        timer.start()
        hold.step(1)
        timer.join()

    assert "linkhold agent of node node found" in caplog.messages
    assert "training on hold: network down (eth0 lost carrier)" in caplog.messages
    assert [line for line in caplog.messages if re.match(r"held \d+\.\d s", line)]


@pytest.mark.usefixtures("broker")
def test_already_on_hold_at_the_start(run_dir: Path, agent: HandAgent) -> None:
    """The retained state is known before connect() returns."""
    agent.say(by_file=False, **HOLD)
    with connected(run_dir, max_hold_s=0.3) as hold, pytest.raises(GiveUp):
        hold.step(1)


def test_broker_killed_and_restarted(broker: Broker, run_dir: Path, agent: HandAgent) -> None:
    """While the broker is dead the file tells, and a new broker is found by itself."""
    agent.say()
    with connected(run_dir) as hold:
        assert until(lambda: hold.counters.get("connects", 0) >= 1)
        broker.kill()
        agent.say(by_broker=False, **HOLD)
        assert until(lambda: hold._attention, 2.5)

        broker.start()
        assert until(lambda: broker.lines("SUBSCRIBE") >= 2, 4)
        agent.say(by_file=False)
        assert until(lambda: hold._source.newest is not None and hold._source.newest.epoch == 3)
        assert held(hold) < 0.5


def test_frozen_broker(
    broker: Broker, run_dir: Path, agent: HandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that is stopped and keeps its socket is noticed by silence; the file tells."""
    monkeypatch.setattr(listener, "DOUBT_S", 0.5)
    agent.say()
    with connected(run_dir) as hold:
        assert until(lambda: hold._source.newest is not None)
        broker.signal(signal.SIGSTOP)
        time.sleep(0.6)
        agent.say(by_broker=False, **HOLD)

        assert until(lambda: hold._attention, 3)
        broker.signal(signal.SIGCONT)


def test_agent_appears_later(run_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Without a run folder all passes and one line says so; an agent that comes is heard."""
    later = run_dir / "later"
    with connected(later) as hold:
        for step in range(3):
            hold.step(step)
        later.mkdir()
        broker = Broker(later)
        broker.start()
        HandAgent(later).say(by_file=False, **HOLD)

        assert until(lambda: hold._attention, 3)
        broker.kill()
    said = [line for line in caplog.messages if line.startswith("no linkhold agent in")]
    assert len(said) == 1


def test_run_folder_replaced(run_dir: Path) -> None:
    """A run folder that becomes another one is looked up by its path again."""
    place = run_dir / "mount"
    place.mkdir()
    HandAgent(place).say(by_broker=False)
    with connected(place) as hold:
        place.rename(run_dir / "old")
        place.mkdir()
        second = HandAgent(place)
        second.epoch = 5
        second.say(by_broker=False, **HOLD)
        assert until(lambda: hold._attention, 3)


def test_no_agent_costs_no_wait(run_dir: Path) -> None:
    """Where neither file nor broker is, connect() does not wait."""
    began_s = time.monotonic()
    with connected(run_dir):
        assert time.monotonic() - began_s < 0.5


def test_mute_broker_costs_a_second(broker: Broker, run_dir: Path) -> None:
    """A broker without any state delays connect() by wait_s and no more."""
    began_s = time.monotonic()
    with connected(run_dir, wait_s=0.3) as hold:
        assert 0.2 < time.monotonic() - began_s < 1.0
        assert held(hold) < 0.1


def test_silence_releases(run_dir: Path, agent: HandAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hold ends when the agent has been silent for too long; its stop stays in force."""
    monkeypatch.setattr(decision, "STALE_S", 1.0)
    agent.say(by_broker=False, **HOLD, checkpoint={"id": "c", "reason": "battery"})
    with connected(run_dir, checkpoint_to="local") as hold:
        hold.step(1)  # passes once, for the checkpoint
        assert 0.2 < held(hold) < 3
        assert hold.checkpoint_due(2)


def test_garbage(broker: Broker, run_dir: Path, agent: HandAgent) -> None:
    """Whatever arrives that is no state of this boot is counted and changes nothing."""
    agent.say()
    bad = (
        b"\xff\x00",
        b"[]",
        b"",
        event(document(epoch=9, boot_id="another", **HOLD)),
        event(document(epoch=9, mono_ns=time.monotonic_ns() + 10**11, **HOLD)),
        event(document(epoch=0, **HOLD)),
    )
    with connected(run_dir) as hold:
        assert until(lambda: broker.lines("SUBSCRIBE"))
        for payload in bad:
            agent.publish(payload)
        assert until(lambda: hold.counters.get("older", 0) >= 1)
        assert held(hold) < 0.1
        counters = hold.counters
    assert tuple(counters[name] for name in ("garbage", "foreign_boot", "future")) == (2, 1, 1)
    assert "listener_errors" not in counters


def test_thread_survives(run_dir: Path, agent: HandAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception inside the listener is counted and does not end it."""
    monkeypatch.setattr(listener, "AFTER_ERROR_S", 0.05)
    agent.say(by_broker=False)
    with connected(run_dir) as hold, monkeypatch.context() as broken:
        broken.setattr(decision, "is_fresh", lambda *_a: 1 / 0)
        assert until(lambda: hold.counters.get("listener_errors", 0) >= 2)
        broken.undo()
        agent.say(by_broker=False, **HOLD)
        assert until(lambda: hold._attention, 3)


def test_dead_listener_is_replaced(
    run_dir: Path, agent: HandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever killed the thread, the next look of training starts another."""
    agent.say(by_broker=False)
    with connected(run_dir) as hold:
        source = hold._source
        assert isinstance(source, listener.Listener)
        thread = source._thread
        assert thread is not None
        with monkeypatch.context() as broken:
            broken.setattr(source, "_wanted", lambda _broker: False)
            thread.join(2)

        hold._attention = True
        hold.step(1)

        assert source._thread is not None
        assert source._thread.is_alive()


@pytest.mark.usefixtures("broker")
def test_several_holds_share_one_thread(run_dir: Path, agent: HandAgent) -> None:
    """Two Holds of one run folder hear the same through one connection, each by its settings."""
    agent.say(network="down", holds=["network"])
    with connected(run_dir, hold_on=("network",), max_hold_s=0.2) as strict:
        with connected(run_dir) as easy:
            names = [thread.name for thread in threading.enumerate()]
            assert names.count("linkhold") == 1
            assert held(easy) < 0.1
        with pytest.raises(GiveUp):
            strict.step(1)


@pytest.mark.usefixtures("broker")
def test_made_in_another_thread(run_dir: Path, agent: HandAgent) -> None:
    """A Hold works when it is made and used outside the main thread."""
    agent.say(**HOLD)
    raised: list[BaseException] = []

    def train() -> None:
        with connected(run_dir, max_hold_s=0.2) as hold:
            try:
                hold.step(1)
            except GiveUp as error:
                raised.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join(5)

    assert len(raised) == 1


def test_forgotten_hold_ends_its_thread(run_dir: Path) -> None:
    """A Hold that nobody closed and nobody holds lets its thread end."""
    hold = Hold.connect(run_dir=run_dir)
    assert hold.held_s == 0
    del hold  # the fixture no_thread_left checks the rest


def test_keyboard_interrupt(run_dir: Path, agent: HandAgent) -> None:
    """Ctrl-C ends a hold at once, and the next step holds again."""
    agent.say(by_broker=False, **HOLD)
    with connected(run_dir, max_hold_s=5) as hold:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        began_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            hold.step(1)
        assert time.monotonic() - began_s < 1.0

        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            hold.step(2)


def test_idle_thread_sleeps(
    broker: Broker, run_dir: Path, agent: HandAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without news the thread wakes no more than twice a second, with a broker and without."""
    turns: list[Any] = []
    turn = listener.Listener._turn

    def counted(*arguments: Any) -> None:
        turns.append(arguments[0])
        turn(*arguments)

    agent.say()
    with connected(run_dir) as one, connected(run_dir / "none") as other:
        time.sleep(0.7)
        monkeypatch.setattr(listener.Listener, "_turn", counted)
        time.sleep(2)
    # Listeners that other tests of this process left are not counted.
    assert sum(ours in (one._source, other._source) for ours in turns) <= 8


PROGRAM = """
import sys, time
from linkhold.client import Hold
heavy = {"paho", "tenacity", "pyroute2", "psutil", "yaml", "systemd", "rich", "asyncio"}
assert not heavy & {name.split(".")[0] for name in sys.modules}, "the import is not light"
hold = Hold.connect(run_dir=sys.argv[1])
upload = hold.upload("x", lambda _s: time.sleep(60))
hold.step(1)
"""


@pytest.mark.usefixtures("broker")
def test_exit_hangs_on_nothing(run_dir: Path, agent: HandAgent) -> None:
    """A program that ends without close(), an upload under way, ends at once and in silence."""
    agent.say()
    began_s = time.monotonic()

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM, str(run_dir)],
        capture_output=True,
        timeout=20,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, b"")
    assert time.monotonic() - began_s < 5
