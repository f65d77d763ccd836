"""A Hold with a simulated clock and a state that the test sets."""

from __future__ import annotations

import doctest
import json
import logging
import pickle
import random
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkhold import model
from linkhold.client import GiveUp, Hold, fake, marker, voice

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"hold_on": ("power",)}, ValueError, "hold_on: 'power' is not one of network"),
        ({"hold_on": "network"}, TypeError, r"hold_on: write \['network'\] instead of"),
        ({"hold_on": 5}, TypeError, r"hold_on: write \[5\] instead of 5"),
        ({"cover_exclude_ports": 80}, TypeError, r"cover_exclude_ports: write \[80\] instead"),
        ({"cover_exclude_peers": [7]}, ValueError, "cover_exclude_peers: 7 is no IP address"),
        ({"run_dir": 5}, TypeError, "run_dir: 5 is no path"),
        ({"spool": 5}, TypeError, "spool: 5 is no path"),
        ({"spool": ""}, ValueError, "spool: '' names no folder; write None for none"),
        ({"run_dir": "~nobody-here/x"}, ValueError, "run_dir: '~nobody-here/x': "),
        ({"logger": "train"}, TypeError, "logger: 'train' is no logger"),
        ({"checkpoint_every_steps": 0}, ValueError, "checkpoint_every_steps: 0 is less than 1"),
        ({"checkpoint_every_steps": 1.5}, TypeError, "1.5 is no whole number of steps"),
        ({"checkpoint_every_steps": True}, TypeError, "True is no whole number of steps"),
        ({"checkpoint_every_s": 0}, ValueError, "checkpoint_every_s: 0 is out of range"),
        ({"checkpoint_every_s": "60"}, TypeError, "'60' is no number of seconds"),
        ({"checkpoint_to": "s3"}, ValueError, "'s3' is not one of local, remote"),
        ({"max_hold_s": float("inf")}, ValueError, "max_hold_s: inf is out of range"),
        ({"upload_spread_s": -1}, ValueError, "upload_spread_s: -1 is out of range"),
        ({"wait_s": float("nan")}, ValueError, "wait_s: nan is out of range"),
        ({"agree": "mpi"}, ValueError, "agree: 'mpi' is not one of None, torch"),
    ],
)
def test_wrong_argument(arguments: Any, error: type[Exception], text: str) -> None:
    """A wrong argument is refused at once, by name and with what is allowed."""
    with pytest.raises(error, match=text):
        Hold.connect(**arguments)


def test_documented_example() -> None:
    """The example in the docstring of FakeHold is true."""
    failed, tried = doctest.testmod(fake)

    assert (failed, tried > 5) == (0, True)


def test_nothing_wrong_costs_one_test() -> None:
    """While nothing is wrong, step() looks at no clock and no state."""
    hold = Hold.fake()
    hold.step(1)
    for name in ("_clock", "_source", "_guidance", "_checkpoints"):
        delattr(hold, name)

    hold.step(2)


def test_hold_says_why_and_how_long() -> None:
    """A hold is told at its start, once a minute and at its end."""
    hold = Hold.fake(network="down", training="hold", cause="eth0 lost carrier")

    def end() -> None:
        if hold.held_s >= 150:
            hold.set(network="ok", training="go")

    hold.on_wait = end
    hold.step(1)

    assert hold.log == [
        "training on hold: network down (eth0 lost carrier)",
        "still on hold after 60.0 s: network down (eth0 lost carrier)",
        "still on hold after 120.0 s: network down (eth0 lost carrier)",
        "held 150.0 s: network down (eth0 lost carrier)",
    ]
    assert hold.held_s == 150.0
    assert hold.waiting_for is None


def test_hook_sees_the_reason_and_may_fail() -> None:
    """on_wait runs in each slice of at most half a second; its exception is told once."""
    hold = Hold.fake(holds=["network"], network="down", hold_on=("network",), max_hold_s=2)
    seen = []

    def hook() -> None:
        seen.append((hold.waiting_for, hold.held_s))
        raise RuntimeError("watchdog away")

    hold.on_wait = hook
    with pytest.raises(GiveUp):
        hold.step(1)

    assert seen[0] == ("network down", 0.25)
    assert len(seen) == 8
    assert sum("on_wait raised" in line for line in hold.log) == 1


def test_give_up() -> None:
    """A hold beyond max_hold_s raises with an exit code for the launcher; the next holds again."""
    hold = Hold.fake(training="hold", max_hold_s=30)
    for _ in range(2):
        with pytest.raises(model.GiveUp, match="on hold for 30 s, the limit") as raised:
            hold.step(1)

        assert getattr(raised.value, "exit_code", None) == 75
    assert hold.held_s == 60.0


def test_give_up_ends_the_process_resumably() -> None:
    """A loop that does not know of GiveUp ends with exit code 75, without a traceback."""
    code = (
        "from linkhold.client import Hold\n"
        "hold = Hold.fake(training='hold', max_hold_s=1)\n"
        "hold.step(1)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stdout, done.stderr) == (75, "", "")


def test_interrupt_in_a_hold() -> None:
    """What interrupts the sleep passes through, and the hold is accounted for."""

    def sleep(_seconds: float) -> None:
        raise KeyboardInterrupt

    hold = Hold.fake(training="hold", sleep=sleep)
    with pytest.raises(KeyboardInterrupt):
        hold.step(1)

    assert (hold.held_s, hold.waiting_for) == (0.25, None)
    with pytest.raises(KeyboardInterrupt):
        hold.step(2)


def test_stop_goes_before_hold() -> None:
    """A stop ends a hold, so that the loop can save and leave."""
    hold = Hold.fake(training="hold")
    hold.on_wait = lambda: hold.set(stop="power low", stop_in_s=60)
    hold.step(1)

    assert hold.stop_due
    assert "asked to stop within 60 s: power low" in hold.log


def test_checkpoint_goes_before_hold_once() -> None:
    """A hold lets one step pass for a checkpoint that is asked, served or not."""
    hold = Hold.fake(training="hold", checkpoint="on battery", max_hold_s=5)
    hold.step(1)
    with pytest.raises(GiveUp):
        hold.step(2)

    hold.set(checkpoint="another")
    hold.step(3)
    with hold.saving():
        pass
    with pytest.raises(GiveUp):
        hold.step(4)


def test_stop() -> None:
    """Reason and time left of a stop are there as long as it is asked."""
    hold = Hold.fake()
    assert (hold.stop_due, hold.stop_reason, hold.seconds_left) == (False, None, None)
    hold.set(stop="spot", stop_in_s=120)
    hold.step(1)
    hold.advance(20)
    assert (hold.stop_due, hold.stop_reason, hold.seconds_left) == (True, "spot", 100.0)
    hold.set(stop=None)
    hold.step(2)
    assert not hold.stop_due


def test_agent_comes_and_goes() -> None:
    """Silence is told, and a flapping agent fills no log."""
    hold = Hold.fake()
    for step in range(30):
        hold.set(agent=step % 2 == 1)
        hold.step(step)

    silent = "the linkhold agent is silent: training and uploads go on"
    assert [silent] == hold.log
    hold.advance(61)
    hold.set(agent=True, stop="power low", stop_in_s=60)
    hold.set(agent=False)
    assert hold.log[-1] == f"{silent}; it asked for a stop, which stays"
    assert hold.stop_due
    hold.advance(61)
    hold.step(31)
    assert not hold.stop_due


def test_exit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """exit() leaves a marker for the launcher and ends with the resumable code."""
    monkeypatch.chdir(tmp_path)
    hold = Hold.fake(stop="spot instance ends", stop_in_s=120)
    hold.step(41)
    with pytest.raises(SystemExit) as raised:
        hold.exit()

    assert raised.value.code == 75
    content = json.loads((tmp_path / ".linkhold-stop").read_text())
    assert tuple(content[k] for k in ("reason", "step", "code")) == ("spot instance ends", 41, 75)
    assert content["at"].endswith("Z")


@pytest.mark.parametrize(
    ("stop_in_s", "expected"),
    [(None, (60.0, 60.0)), (3, (0.0, 60.0)), (35, (30.0, 60.0)), (3600, (3595.0, 60.0))],
)
def test_time_for_uploads_at_exit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    stop_in_s: float | None,
    expected: tuple[float, float],
) -> None:
    """exit() waits for uploads until shortly before the deadline, for a hold at most 60 s."""
    monkeypatch.chdir(tmp_path)
    hold = Hold.fake(uploads="hold", stop="spot", stop_in_s=stop_in_s)
    hold.upload("a", lambda _s: None)
    asked: list[tuple[float, ...]] = []

    def drain(*limits: float) -> tuple[str, ...]:
        asked.append(limits)
        return ()

    assert hold._uploader is not None
    monkeypatch.setattr(hold._uploader, "drain", drain)
    with pytest.raises(SystemExit):
        hold.exit()

    assert asked == [expected]


def test_local_only() -> None:
    """Whether the agent's checkpoint had better stay local is known as long as it is asked."""
    hold = Hold.fake(checkpoint="on battery")
    hold.step(1)
    assert not hold.local_only
    hold.set(checkpoint="spot", local_only=True)
    hold.step(2)
    with hold.saving():
        assert hold.local_only
    assert hold.local_only
    hold.set(agent=False)
    assert hold.local_only
    hold.set(checkpoint=None)
    hold.step(3)
    assert not hold.local_only


@pytest.mark.parametrize("deadline_ns", [10**400, -(10**400), 2**63 - 1, 0])
def test_nonsense_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deadline_ns: int
) -> None:
    """A deadline of any size is lived with: in step(), in words, and at the exit."""
    monkeypatch.chdir(tmp_path)
    hold = Hold.fake(stop="spot")
    stop = model.StopRequest("s", "nonsense", deadline_ns)
    hold._fake.state = replace(hold._fake.state, advice=model.Advice(stop=stop))
    hold.advance(1)
    hold.step(1)

    assert 0 <= (hold.seconds_left or 0.0) < 1e10
    assert "asked to stop within" in hold.log[-1]
    with pytest.raises(SystemExit):
        hold.exit()


def test_exit_without_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A marker that cannot be written is told and prevents nothing."""
    monkeypatch.setenv(marker.MARKER_VARIABLE, str(tmp_path / "no/such/folder"))
    hold = Hold.fake()
    with pytest.raises(SystemExit):
        hold.exit(3)

    assert hold.log[0].startswith("no stop marker for the launcher: ")
    assert list(tmp_path.iterdir()) == []


def test_context_and_close() -> None:
    """Leaving the context closes; after that everything passes and close() does nothing."""
    with Hold.fake(training="hold") as hold:
        waiting = hold.upload("a", lambda _s: None)
    hold.step(1)
    hold.close()

    assert waiting.done
    assert not hold.stop_due


def test_uploads_of_the_fake() -> None:
    """The fake runs uploads at once, or when the gate opens, and shows errors in the handle."""
    pushed: list[str] = []
    hold = Hold.fake(uploads="hold")
    first, second = hold.upload("a", pushed.append), hold.upload("b", pushed.append)
    assert (first.done, pushed) == (False, [])
    hold.set(uploads="newest")
    assert (second.done, pushed) == (True, ["b"])
    hold.set(uploads="go")
    assert pushed == ["b", "a"]
    broken = hold.upload("c", lambda _s: 1 / 0)
    assert isinstance(broken.error, ZeroDivisionError)
    hold.set(uploads="hold")
    left = hold.upload("d", pushed.append)
    hold.close()
    assert "1 upload not done: d" in hold.log
    assert "the program ended before" in str(left.error)


def test_fake_is_not_pickled() -> None:
    """A fake says that it cannot follow into another process."""
    with pytest.raises(TypeError, match="stays in the test"):
        pickle.dumps(Hold.fake())


def test_own_dice(tmp_path: Path) -> None:
    """The training run's random stream is the same with and without a Hold."""
    random.seed(1)
    expected = random.random()
    random.seed(1)
    with Hold.connect(run_dir=tmp_path, wait_s=0.2) as hold:
        failing = iter([True, False])
        upload = hold.upload("x", lambda _s: next(failing) and 1 / 0)
        upload.wait(5)

    assert upload.attempts == 2
    assert expected == random.random()


def test_logger_is_the_jobs(caplog: pytest.LogCaptureFixture) -> None:
    """Lines go to the given logger, else to the one called linkhold, without handlers of ours."""
    caplog.set_level(logging.INFO)
    voice.Voice(logging.getLogger("job")).info("100 % sure")
    voice.Voice().warning("so")

    assert caplog.record_tuples == [("job", 20, "100 % sure"), ("linkhold", 30, "so")]
    assert logging.getLogger("linkhold").handlers == []


async def push_later(path: Any) -> None:
    """Do nothing, and later."""


def test_a_push_that_only_promises_is_no_upload() -> None:
    """A function that returns a coroutine has uploaded nothing: no attempt more, and it is said."""
    upload = Hold.fake().upload("a", lambda _path: push_later("a"))

    assert str(upload.error).startswith("nothing was uploaded: push returned coroutine")


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda hold: hold.upload("a", None), "upload: push is None, which cannot be called"),
        (lambda hold: hold.upload("a", push_later), "upload: push is a coroutine function; write"),
        (lambda hold: hold.resume_uploads("a"), "resume_uploads: push is 'a', which cannot"),
        (lambda hold: hold.upload_to("memory://a", "b", storage_options=5), "storage_options is 5"),
        (lambda hold: hold.uploading(timeout_s="5").__enter__(), "timeout_s: '5' is no number of"),
        (lambda hold: hold.exit("75"), "exit: '75' is no exit code"),
        (lambda hold: hold.exit(256), "exit: 256 is no exit code"),
    ],
)
def test_wrong_argument_of_a_call(call: Callable[[Hold], object], text: str) -> None:
    """What can never work is refused where it is written, not in a thread hours later."""
    with pytest.raises((TypeError, ValueError), match=text):
        call(Hold.fake())
