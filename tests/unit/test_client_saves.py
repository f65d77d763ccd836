"""When a checkpoint is due, with a simulated clock."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.client import GiveUp, Hold

if TYPE_CHECKING:
    from pathlib import Path


def due(hold: Any, *steps: int, save: bool = True) -> list[int]:
    """Walk the steps as a loop does; return those at which a checkpoint was made."""
    made = []
    for step in steps:
        hold.step(step)
        if hold.checkpoint_due(step):
            made.append(step)
            if save:
                with hold.saving():
                    hold.advance(1)
    return made


def test_every_n_steps() -> None:
    """Checkpoints fall on multiples of N, wherever the loop began."""
    hold = Hold.fake(checkpoint_every_steps=10)

    assert due(hold, *range(3, 35)) == [10, 20, 30]


def test_every_n_steps_without_saving() -> None:
    """Whoever never uses saving() gets the same schedule."""
    hold = Hold.fake(checkpoint_every_steps=10)

    assert due(hold, *range(3, 35), save=False) == [10, 20, 30]


def test_steps_start_over() -> None:
    """A counter that starts over with each epoch is followed."""
    hold = Hold.fake(checkpoint_every_steps=10)

    assert due(hold, *range(15), *range(15)) == [10, 10]


def test_every_s() -> None:
    """The interval in seconds counts from the end of the last save."""
    hold = Hold.fake(checkpoint_every_s=60)
    assert due(hold, 1) == []
    hold.advance(60)
    assert due(hold, 2, 3) == [2]
    hold.advance(59)
    assert due(hold, 4) == []
    hold.advance(1)
    assert due(hold, 5) == [5]


def test_request_is_served_once() -> None:
    """Each request of the agent is answered by one save, a new one by another."""
    hold = Hold.fake(checkpoint="on battery")
    assert due(hold, 1, 2, 3) == [1]
    hold.set(network="degraded")
    assert due(hold, 4) == []
    hold.set(checkpoint="rebalance")
    assert due(hold, 5, 6) == [5]
    hold.set(checkpoint=None)
    assert due(hold, 7) == []


def test_asked_twice_at_one_step() -> None:
    """A second question at the same step gets the same answer, until the save is made."""
    hold = Hold.fake(checkpoint="on battery")
    hold.step(1)
    assert hold.checkpoint_due(1)
    assert hold.checkpoint_due(1)
    with hold.saving():
        pass
    assert not hold.checkpoint_due(1)


def test_remote_waits_for_uploads() -> None:
    """Saves that need the network are not due while uploads are on hold, and are made up for."""
    hold = Hold.fake(
        checkpoint_every_steps=10, uploads="hold", checkpoint="on battery", checkpoint_to="remote"
    )
    assert due(hold, *range(15)) == []
    hold.set(uploads="go")
    assert due(hold, *range(15, 25)) == [15, 20]


@pytest.mark.parametrize("training", ["go", "hold"])
def test_remote_says_what_it_suppresses(training: str) -> None:
    """A checkpoint that is asked for and cannot be made is told once for each request."""
    hold = Hold.fake(uploads="hold", checkpoint_to="remote", checkpoint_every_steps=1, max_hold_s=1)
    due(hold, *range(5))
    assert hold.log == []
    for reason in ("on battery", "spot"):
        hold.set(checkpoint=reason, training=training)
        for step in range(5):
            with contextlib.suppress(GiveUp):
                due(hold, step)
        told = [line for line in hold.log if "no checkpoint although" in line]
        assert (len(told), reason in told[0]) == (1, True)
        hold.log.clear()


def test_local_does_not_wait() -> None:
    """Saves to a local disk, which is the default, go on while uploads are on hold."""
    hold = Hold.fake(checkpoint_every_steps=10, uploads="hold", checkpoint="on battery")

    assert due(hold, *range(15)) == [0, 10]
    assert hold.log == ["checkpoint at step 0: on battery"]


def test_silent_agent_opens_the_gate_without_a_step() -> None:
    """Paused checkpointing ends with the agent's silence even if nobody raises the flag."""
    hold = Hold.fake(checkpoint_every_steps=10, uploads="hold", checkpoint_to="remote")
    assert due(hold, 1, 11) == []
    hold._fake.newest = None
    assert hold.checkpoint_due(12)


def test_before_a_stop_once() -> None:
    """One checkpoint is due before a stop, and serves a request that came with it."""
    hold = Hold.fake(checkpoint="power low", stop="power low", stop_in_s=300)
    assert due(hold, 1, 2, 3) == [1]
    assert hold.stop_due


def test_failed_save_is_due_again_later() -> None:
    """A save that raised serves nothing; it is due again after growing pauses."""
    hold = Hold.fake(checkpoint="on battery")
    pauses = []
    for step in range(200):
        hold.step(step)
        if hold.checkpoint_due(step):
            pauses.append(step)
            with pytest.raises(OSError, match="disk full"), hold.saving():
                raise OSError("disk full")
        hold.advance(1)

    assert pauses == [0, 10, 30, 70, 150]
    hold.advance(200)
    assert due(hold, 201, 202) == [201]


def test_request_during_a_save_is_not_served_by_it() -> None:
    """A request that comes while a save is under way asks for another one."""
    hold = Hold.fake(checkpoint_every_steps=1)
    hold.step(1)
    assert not hold.checkpoint_due(1)
    assert hold.checkpoint_due(2)
    with hold.saving():
        hold.set(checkpoint="on battery")
    assert due(hold, 3) == [3]


def test_save_times() -> None:
    """The last save time and a moving mean of all are known."""
    hold = Hold.fake()
    assert (hold.last_save_s, hold.save_s) == (None, None)
    for seconds in (10, 20):
        with hold.saving():
            hold.advance(seconds)

    assert (hold.last_save_s, hold.save_s) == (20.0, 13.0)


def test_the_interval_on_battery_leaves_time_to_train() -> None:
    """Saves come every ``every_s`` seconds, and no sooner than a save takes after the last one."""
    hold = Hold.fake(checkpoint="on battery")
    made = []
    for second in range(100):
        request = hold._fake.state.advice.checkpoint
        assert request is not None
        advice = replace(hold._fake.state.advice, checkpoint=replace(request, every_s=5.0))
        hold._fake.state = replace(hold._fake.state, advice=advice)
        hold.advance(1)
        hold.step(second)
        if hold.checkpoint_due(second):
            made.append(second)
            with hold.saving():
                hold.advance(20)

    assert made[:4] == [0, 20, 40, 60]


@pytest.mark.parametrize(("left_s", "local_only"), [(45.0, False), (44.0, True)])
def test_one_and_a_half_saves_must_fit(left_s: float, local_only: bool) -> None:  # noqa: FBT001
    """Before a deadline the measured save time decides whether there is time for an upload."""
    hold = Hold.fake(checkpoint_every_steps=1)
    hold.step(1)
    with hold.saving():
        hold.advance(30)
    hold.set(stop="spot", stop_in_s=left_s)
    hold.step(2)

    assert hold.checkpoint_due(2)
    assert hold.local_only is local_only


def test_the_longer_of_last_and_mean_counts() -> None:
    """A save that was slow once is expected again; one that was quick proves little."""
    hold = Hold.fake()
    for took_s in (10, 40, 10):
        with hold.saving():
            hold.advance(took_s)
    hold.set(stop="spot", stop_in_s=25)
    hold.step(1)

    assert hold.save_s == pytest.approx(16.3)
    assert hold.local_only is False
    hold.set(stop="spot", stop_in_s=24)
    hold.step(2)
    assert hold.local_only is True


class Index:
    """A whole number of another library, as numpy and torch have them."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def test_steps_of_other_libraries() -> None:
    """Their whole numbers are steps."""
    hold: Any = Hold.fake(checkpoint_every_steps=10)

    assert [hold.checkpoint_due(Index(step)) for step in (9, 10, 11)] == [False, True, False]


@pytest.mark.parametrize("step", [None, "7", 1.5, float("nan")])
def test_what_is_no_step_is_refused_and_forgotten(step: Any) -> None:
    """The call is named, what is allowed too, and the next right step works."""
    hold = Hold.fake(checkpoint_every_steps=10)
    with pytest.raises(TypeError, match=r"^checkpoint_due: .* is no step number; give the global"):
        hold.checkpoint_due(step)
    with pytest.raises(TypeError, match=r"^step: .* is no step number"):
        hold.step(step)

    assert due(hold, 9, 10) == [10]


def test_the_program_asks_to_stop() -> None:
    """A save is due once, then the stop; a hold lets both pass."""
    hold = Hold.fake()
    hold.step(1)
    assert (hold.stop_due, hold.checkpoint_due(1)) == (False, False)

    hold.ask_to_stop("SIGTERM")
    hold.set(training="hold")

    assert due(hold, 2, 3) == [2]
    assert (hold.stop_due, hold.stop_reason, hold.seconds_left) == (True, "SIGTERM", None)
    assert hold.held_s == 0.0


def test_the_program_asks_to_stop_without_an_agent(tmp_path: Path) -> None:
    """It needs nobody else, and what is asked stays asked."""
    made = []
    with Hold.connect(run_dir=tmp_path, wait_s=0, cover=False) as hold:
        hold.step(1)
        hold.ask_to_stop()
        for step in (2, 3):
            hold.step(step)
            if hold.checkpoint_due(step):
                with hold.saving():
                    made.append(step)

        assert made == [2]
        assert hold.stop_reason == "asked by the program"
