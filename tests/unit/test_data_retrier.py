"""Reads that are tried again, on a simulated clock."""

from __future__ import annotations

import itertools
import pickle
import random
import re
import subprocess
import sys
import urllib.error
from email.message import Message
from multiprocessing import resource_sharer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.client import Hold
from linkhold.client.data import policy_for, retrying
from linkhold.client.data.retrier import Retrier, retryable
from linkhold.client.data.shared import Shared
from linkhold.client.pause import Clock
from linkhold.client.retry.families import family
from linkhold.client.retry.nesting import Mark
from linkhold.client.voice import Memo

if TYPE_CHECKING:
    from collections.abc import Callable


RESET = ConnectionResetError(104, "Connection reset by peer")


class World:
    """A clock, a gate that is closed in given spans of seconds, and a log."""

    def __init__(
        self, closed: list[tuple[float, float]] | None = None, limit_s: float = 900
    ) -> None:
        self.now_s = 1000.0
        self.closed_spans = closed or []
        self.log: list[str] = []
        clock = Clock(lambda: int(self.now_s * 1e9), self._sleep)
        gate: Any = self
        self.retrier = Retrier(policy_for(limit_s), gate, Shared(), Memo(self.log), clock)
        self.attempts: list[float] = []

    def closed(self) -> str | None:
        at_s = self.now_s - 1000
        shut = any(begin <= at_s < end for begin, end in self.closed_spans)
        return "network down (eth0 lost carrier)" if shut else None

    def _sleep(self, seconds: float) -> None:
        assert 0 <= seconds <= 0.25  # watchdogs are fed at least four times a second
        self.now_s += max(seconds, 1e-6)

    def read_failing_until(self, end_s: float, error: Exception = RESET) -> Callable[[], str]:
        """Return a read that fails until ``end_s`` seconds after the start."""

        def read() -> str:
            self.attempts.append(self.now_s - 1000)
            if self.attempts[-1] < end_s:
                raise error.with_traceback(None)  # raised before, it would grow
            return "data"

        return read


def test_no_attempt_while_the_node_is_cut_off() -> None:
    """After the first failure nothing is tried until the network is back, then within 2 s."""
    world = World([(0.0, 60.0)])

    assert world.retrier.call(world.read_failing_until(60)) == "data"
    assert len(world.attempts) == 2
    assert 60 <= world.attempts[1] <= 62.5
    assert world.retrier.shared.retries == 1
    assert 60 <= world.retrier.shared.waited_s <= 62.5
    assert world.retrier.shared.waiting == 0


def test_one_line_per_outage_and_one_at_its_end() -> None:
    """Sixty seconds of failures are two lines; a hiccup is none."""
    world = World([(5.0, 40.0)])
    world.retrier.call(world.read_failing_until(60))

    assert len(world.log) == 2
    assert world.log[0].startswith("reading data waits, at most 900 s: ConnectionResetError")
    assert re.fullmatch(r"data comes again after [6-9]\d\.\d s, \d+ failures", world.log[1])

    quiet = World()
    quiet.retrier.call(quiet.read_failing_until(0.0001))
    assert quiet.log == []


@settings(deadline=None, max_examples=60)  # a busy machine's time is no property
@given(st.lists(st.tuples(st.floats(0, 60), st.floats(0, 30)), max_size=4), st.floats(0, 90))
def test_properties_of_waiting(spans: list[tuple[float, float]], outage_s: float) -> None:
    """Never an attempt in a closed span, never one after the limit, always an end."""
    closed = [(begin, begin + length) for begin, length in spans]
    world = World(closed, limit_s=60)
    try:
        world.retrier.call(world.read_failing_until(outage_s))
    except ConnectionResetError:
        assert world.now_s - 1000 >= 60
    assert world.now_s - 1000 <= 60.5
    for at_s in world.attempts[1:]:
        assert not any(begin <= at_s < end for begin, end in closed)


def test_attempts_grow_with_the_logarithm_of_an_outage() -> None:
    """Pauses widen to 15 s and are drawn from zero on (full jitter)."""
    counts, pauses = [], []
    for _run in range(20):
        world = World()
        world.retrier.call(world.read_failing_until(300))
        counts.append(len(world.attempts))
        pauses += [b - a for a, b in zip(world.attempts[7:-1], world.attempts[8:], strict=False)]
    assert max(counts) < 80
    assert max(pauses) <= 15.3
    assert min(pauses) < 3
    assert max(pauses) > 12


def test_the_limit_lets_the_error_through() -> None:
    """After max_wait_s the last error comes out as it is, and the log says after what."""
    world = World(limit_s=10)
    last = TimeoutError("timed out")

    with pytest.raises(TimeoutError) as caught:
        world.retrier.call(world.read_failing_until(1e9, last))
    assert caught.value is last
    assert world.log[-1].startswith("data given up after 10 s and")


def test_retry_after_is_honoured() -> None:
    """A server that asks for 20 s is not asked again before."""
    headers = Message()
    headers["Retry-After"] = "20"
    busy = urllib.error.HTTPError("http://x", 503, "busy", headers, None)
    world = World()
    world.retrier.call(world.read_failing_until(0.5, busy))

    assert 20 <= world.attempts[1] <= 20.6


@pytest.mark.parametrize(
    "error",
    [
        KeyError("label"),
        FileNotFoundError(2, "no such file"),
        PermissionError(13, "no"),
        urllib.error.HTTPError("http://x", 404, "gone", Message(), None),
        OSError(28, "No space left on device"),
    ],
)
def test_hopeless_errors_pass_at_once(error: Exception) -> None:
    """What no attempt can cure comes out unchanged, at the first attempt and at a later one."""
    world = World()
    with pytest.raises(type(error)) as caught:
        world.retrier.call(world.read_failing_until(9, error))
    assert caught.value is error
    assert len(world.attempts) == 1

    answers = iter([RESET, error])

    def read() -> None:
        raise next(answers)

    with pytest.raises(type(error)) as caught:
        world.retrier.call(read)
    assert caught.value is error


def test_passing_descriptors_is_no_network() -> None:
    """The AF_UNIX errors of a worker that ended look like network errors, and are not retried."""
    passed = resource_sharer.DupFd(0)
    resource_sharer.stop()  # as when the worker that offered the descriptor ends

    with pytest.raises(OSError, match=r"refused|No such file") as caught:
        passed.detach()

    assert family(ConnectionRefusedError(111, "refused")) is not None
    assert retryable(caught.value) is None
    assert retryable(RESET) is not None


def test_random_state_is_that_of_the_first_attempt() -> None:
    """A read that draws, fails and is read again has drawn once."""
    world, answers = World(), iter([RESET, RESET, None])

    def read() -> float:
        drawn = random.random()
        error = next(answers)
        if error is not None:
            raise error
        return drawn

    random.seed(5)
    wanted = (random.random(), random.random())
    random.seed(5)

    assert (world.retrier.call(read), random.random()) == wanted


def test_retries_do_not_multiply() -> None:
    """Inside another retry's attempt this one does not retry."""
    world = World()
    mark = Mark()
    try:
        with pytest.raises(ConnectionResetError):
            world.retrier.call(world.read_failing_until(5))
    finally:
        mark.end()
    assert len(world.attempts) == 1


def test_watchdogs_are_fed_while_the_trainer_waits() -> None:
    """on_wait is called at least twice a second of waiting."""
    world, fed = World([(0, 30)]), []
    world.retrier.on_wait = lambda: fed.append(world.now_s)
    world.retrier.call(world.read_failing_until(30))

    assert all(b - a <= 0.5 for a, b in itertools.pairwise(fed))
    assert len(fed) > 100


def test_copies_begin_at_zero() -> None:
    """A pickled or copied data set has counters of its own."""
    shared = Shared()
    shared.count_retry()

    assert pickle.loads(pickle.dumps(shared)).retries == 0
    assert shared.retries == 1


@pytest.mark.parametrize(
    ("given_s", "error"), [(0, ValueError), (-1, ValueError), ("9", TypeError), (True, TypeError)]
)
def test_wrong_times_are_named(given_s: Any, error: type[Exception]) -> None:
    """max_wait_s is checked where it is given."""
    with pytest.raises(error, match="max_wait_s"):
        retrying([1, 2], max_wait_s=given_s)


@pytest.mark.parametrize(("most", "error"), [(-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_wrong_limits_are_named(most: Any, error: type[Exception]) -> None:
    """max_rebuilds is checked where it is given."""
    with pytest.raises(error, match="max_rebuilds"):
        Hold.fake().data([], max_rebuilds=most)


@pytest.mark.parametrize("given", [3, iter([1]), object()])
def test_what_is_no_data_set_is_refused(given: Any) -> None:
    """The error names the kind and what is allowed."""
    with pytest.raises(TypeError, match="no data set"):
        retrying(given)


def test_what_is_no_loader_is_refused() -> None:
    """hold.data says what it takes and what to do with anything else."""
    with pytest.raises(TypeError, match=r"list is no torch DataLoader.*retrying"):
        Hold.fake().data([1, 2])


def test_importing_brings_no_torch() -> None:
    """A fresh interpreter with linkhold.client.data has imported none of the heavy packages."""
    heavy = ("torch", "numpy", "pyroute2", "psutil", "yaml", "systemd", "asyncio")
    code = (
        "import sys, linkhold.client.data, linkhold.client.data_calls;"
        f"print(' '.join(m for m in {heavy!r} if m in sys.modules))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )

    assert run.stdout.strip() == ""
