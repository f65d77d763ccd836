"""When no attempt is made: the node, the breaker, the budget, the slots; and what is said."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
import urllib.error
from email.message import Message
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.retry import BudgetSpent, NoAttempt, Policy, Retry, files
from linkhold.client.retry.breaker import State
from support.retry_forms import Flaky, busy
from support.retrying import START_S, RetryWorld, reset

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world() -> RetryWorld:
    """Return a world without agent, whose breaker does not get in the way."""
    return RetryWorld(failures=100)


@pytest.mark.parametrize("advice", [{"network": "down"}, {"uploads": "hold"}])
def test_no_attempt_while_the_node_says_no(advice: dict[str, str]) -> None:
    """While the network is down or uploads are on hold nothing is called, and nothing counted."""
    world = RetryWorld()
    world.say(**advice)
    world.plan(60, lambda: world.say(network="ok"))
    moments: list[float] = []
    world.retry(attempts=1).call(lambda: moments.append(world.now_s))

    assert START_S + 60 <= moments[0] <= START_S + 60 + 5 + 0.25
    assert world.dependency.counters["attempts"] == 1
    assert 59 < world.dependency.counters["held_s"] < 66


def test_calls_start_spread_after_an_outage() -> None:
    """Calls that were held back start uniformly within spread_s of the recovery."""
    starts: list[float] = []
    for seed in range(200):
        world = RetryWorld(seed)
        world.say(network="down")
        world.plan(60, lambda world=world: world.say(network="ok"))  # type: ignore[misc]
        world.retry(spread_s=5.0).call(lambda world=world: starts.append(world.now_s - START_S))  # type: ignore[misc]

    assert 60 <= min(starts) < 60.7
    assert 64.3 < max(starts) <= 65.25
    assert 62 < sum(starts) / len(starts) < 63


def test_a_dependency_on_the_node_itself_is_not_held() -> None:
    """With stop_on=() the node's network does not matter; ("network",) passes over uploads."""
    world = RetryWorld(stop_on=())
    world.say(network="down", uploads="hold")

    assert world.retry().call(Flaky(0)) == "done"
    data = world.another("data", stop_on=("network",))
    world.say(network="ok", uploads="hold")
    assert world.retry(data).call(Flaky(0)) == "done"
    assert world.sleeps == []


def test_a_silent_agent_holds_nobody() -> None:
    """A state older than 15 s stops nothing: without an agent everything goes."""
    world = RetryWorld()
    world.say(network="down")
    world.beating = False
    world.retry().call(Flaky(0))

    assert 15 < world.now_s - START_S < 15 + 5 + 1


def test_the_time_limit_holds_while_waiting() -> None:
    """A hold longer than the limit ends in NoAttempt, whose text says why and what to do."""
    world = RetryWorld()
    world.say(network="down", cause=("eth0 lost carrier",))
    function = Flaky(0)
    with pytest.raises(NoAttempt, match=r"s3: no attempt .*eth0 lost carrier.*time_limit_s"):
        world.retry(time_limit_s=30).call(function)

    assert (function.calls, world.now_s) == (0, START_S + 30)


def test_a_hold_after_a_failure_ends_in_that_failure() -> None:
    """When the limit passes in a hold after an attempt, the attempt's error comes out."""
    world = RetryWorld()
    world.say(network="ok")

    def call() -> None:
        world.say(network="down")
        raise reset()

    with pytest.raises(ConnectionResetError):
        world.retry(time_limit_s=30).call(call)

    assert world.dependency.counters["given_up"] == 1


def test_the_first_call_waits_for_the_agents_first_word() -> None:
    """A process that starts during an outage does not call before it could have heard of it."""
    world = RetryWorld()
    world.source.looked = False

    def speak() -> None:
        world.source.looked = True
        world.say(network="down")

    world.plan(0.1, speak)
    world.plan(5, lambda: world.say(network="ok"))
    calls: list[float] = []
    world.retry().call(lambda: calls.append(world.now_s - START_S))

    assert calls[0] >= 5


def test_a_deaf_process_waits_a_moment_only() -> None:
    """Without any word the first call goes after 0.3 s."""
    world = RetryWorld()
    world.source.looked = False
    world.retry().call(Flaky(0))

    assert 0.3 <= world.now_s - START_S < 0.35


def test_nobody_listens_when_there_are_no_calls() -> None:
    """After 30 s without a call the listener is let go; the next call waits for a fresh state."""
    world = RetryWorld()
    world.say(network="ok")
    world.retry().call(Flaky(0))
    (chore,) = world.source.chores
    world.pass_time(29)
    chore()
    assert world.source.alarms
    world.beating = False
    world.pass_time(31)
    chore()
    assert not world.source.alarms
    assert not world.source.chores

    world.plan(0.1, lambda: world.say(network="down"))
    world.plan(0.2, lambda: setattr(world, "beating", True))
    world.plan(20, lambda: world.say(network="ok"))
    began_s, calls = world.now_s, list[float]()
    world.retry().call(lambda: calls.append(world.now_s - began_s))
    assert calls[0] >= 20


def test_a_link_event_opens_the_breaker_at_once() -> None:
    """The alarm of the listener opens it without any call, recovery makes it half-open."""
    world = RetryWorld()
    world.retry().call(Flaky(0))
    world.say(network="down")

    assert world.dependency.breaker.state is State.OPEN
    world.say(network="ok")
    assert world.dependency.breaker.state is State.HALF_OPEN


def test_the_breaker_spares_a_dead_dependency() -> None:
    """Without agent: once open, one probe goes per open phase, whoever makes it."""
    world = RetryWorld(failures=3, open_s=4.0)
    moments: list[float] = []

    def call() -> None:
        moments.append(world.now_s - START_S)
        raise reset()

    with pytest.raises(ConnectionResetError):
        world.retry(attempts=1000, time_limit_s=120, first_pause_s=0.1).call(call)

    gaps = [later - earlier for earlier, later in itertools.pairwise(moments)]
    assert len(moments) <= 3 + 8
    assert all(gap >= 2 for gap in gaps[2:])
    assert world.dependency.counters["probes"] == len(moments) - 3


def test_one_probe_for_all_callers() -> None:
    """While a probe is under way nobody else calls; its success lets them in, spread."""
    world = RetryWorld(failures=1, open_s=4.0)
    with pytest.raises(ConnectionResetError):
        world.retry(attempts=1).call(Flaky(1))
    world.pass_time(4.0)
    waiting = iter(world.retry(spread_s=0.0))
    turn: list[object] = []

    def probe() -> None:
        world.plan(1.0, lambda: turn.append("over"))
        other = contextvars.Context().run(_pause_of, world)
        assert other > 0  # held back, while this is the probe

    world.retry().call(probe)
    with next(waiting):
        pass
    assert world.dependency.breaker.state is State.CLOSED


def _pause_of(world: RetryWorld) -> float:
    from linkhold.client.retry.run import Run

    run = Run(world.dependency, Policy(), world.dice)
    return run.turn().pause_s()


def test_an_answer_like_404_closes_the_breaker() -> None:
    """A dependency that answers works, even if the answer is no."""
    world = RetryWorld(failures=1, open_s=1.0)
    with pytest.raises(ConnectionResetError):
        world.retry(attempts=1).call(Flaky(1))
    world.pass_time(2.0)
    with pytest.raises(urllib.error.HTTPError):
        world.retry().call(
            Flaky(1, lambda: urllib.error.HTTPError("http://x/", 404, "", Message(), None))
        )

    assert world.dependency.breaker.state is State.CLOSED


def test_a_spent_budget_fails_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no retry left the call ends at once, raised from what would have been tried again."""
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    world = RetryWorld(budget=2, failures=100)
    function = Flaky(100)
    with pytest.raises(BudgetSpent, match=r"s3: .* 2 retries in 60 s") as caught:
        world.retry().call(function)

    assert function.calls == 3  # the first one is free
    assert isinstance(caught.value.__cause__, ConnectionResetError)
    assert world.dependency.counters["budget_spent"] == 1
    assert Flaky(0)() == world.retry().call(Flaky(0))  # first attempts go on


def test_calls_at_once_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many threads no more than two are ever inside a call."""
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path))
    world = RetryWorld(calls_at_once=2)
    again = Retry(world.dependency, Policy())
    inside, most, lock = 0, 0, threading.Lock()

    def call() -> None:
        nonlocal inside, most
        with lock:
            inside += 1
            most = max(most, inside)
        threading.Event().wait(0.03)
        with lock:
            inside -= 1

    threads = [threading.Thread(target=again.call, args=(call,)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 2
    assert world.dependency.counters["queued_calls"] >= 1


def test_one_line_per_outage(world: RetryWorld) -> None:
    """Many failures of many calls make one line, and one when it works again."""
    for _ in range(5):
        with pytest.raises(ConnectionResetError):
            world.retry(attempts=4).call(Flaky(100))
    world.retry().call(Flaky(0))
    world.retry().call(Flaky(0))

    assert len(world.lines) == 2
    assert "Connection reset by peer" in world.lines[0]
    assert "works again after" in world.lines[1]
    assert "20 attempts failed" in world.lines[1]
    assert world.dependency.counters["outages"] == 1


def test_a_hold_is_an_outage_of_its_own() -> None:
    """Calls that wait for the node say so once, with the agent's reason."""
    world = RetryWorld()
    world.say(network="down", cause=("eth0 lost carrier",))
    world.plan(60, lambda: world.say(network="ok"))
    world.retry().call(Flaky(0))

    assert len(world.lines) == 2
    assert "eth0 lost carrier" in world.lines[0]
    assert "0 attempts failed, 1 call waited" in world.lines[1]


_OUTCOMES = st.lists(st.sampled_from(["ok", "fail", "mistake", "later"]), min_size=1, max_size=40)
_EVENTS = st.lists(
    st.tuples(st.floats(0, 200), st.sampled_from(["down", "up", "hold", "silent"])), max_size=12
)


@given(_OUTCOMES, _EVENTS, st.integers(1, 8), st.floats(1, 200), st.integers(0, 5))
def test_no_history_breaks_the_policy(
    outcomes: list[str],
    events: list[tuple[float, str]],
    attempts: int,
    limit_s: float,
    seed: int,
) -> None:
    """In any history: never more attempts than allowed, none while the node or breaker says no."""
    world = RetryWorld(seed, failures=2)
    world.say(network="ok")
    for at_s, what in events:
        fields = {"down": {"network": "down"}, "hold": {"uploads": "hold"}}.get(what, {})
        world.plan(at_s, lambda fields=fields: world.say(**fields))  # type: ignore[misc]
    left, made = list(outcomes), 0

    def call() -> None:
        nonlocal made
        made += 1
        breaker, view = world.dependency.breaker, world.source.newest
        assert world.dependency.node.why_not(("network", "uploads")) is None, view
        assert breaker.state is not State.OPEN
        assert world.now_s - START_S <= limit_s
        world.pass_time(0.5)
        outcome = left.pop(0) if left else "ok"
        if outcome == "mistake":
            raise KeyError("mistake")
        if outcome != "ok":
            raise busy("2") if outcome == "later" else reset()

    with contextlib.suppress(OSError, KeyError, NoAttempt):
        world.retry(attempts=attempts, time_limit_s=limit_s).call(call)

    assert made <= attempts
    assert made == world.dependency.counters["attempts"]
    assert world.now_s - START_S <= limit_s + 0.5 + 0.01
