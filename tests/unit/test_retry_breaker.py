"""The breaker, on a simulated clock."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.retry.breaker import Breaker, Permit, State
from linkhold.client.retry.keep import Alone
from linkhold.client.retry.standing import Standing

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.client.retry.keep import Keep


class World:
    """A breaker and its clock."""

    def __init__(
        self,
        failures: int = 3,
        share: Callable[[], float] = lambda: 1.0,
        keep: Keep[Standing] | None = None,
    ) -> None:
        self.now_s = 0.0
        self.breaker = Breaker(
            failures=failures,
            open_s=4.0,
            longest_open_s=20.0,
            now_s=lambda: self.now_s,
            share=share,
            keep=keep,
        )

    def admitted(self) -> Permit:
        """Return leave, which must be given."""
        permit = self.breaker.admit()
        assert permit is not None
        return permit

    def fail(self, times: int = 1) -> None:
        """Make calls that fail."""
        for _ in range(times):
            self.breaker.failed(self.admitted())


def test_failures_in_a_row_open_it() -> None:
    """It opens with the third failure in a row; a success in between begins the row anew."""
    world = World()
    world.fail(2)
    world.breaker.succeeded(world.admitted())
    world.fail(2)

    assert world.breaker.state is State.CLOSED
    world.fail()
    assert (world.breaker.state, world.breaker.admit()) == (State.OPEN, None)


def test_open_phases_double_up_to_the_longest() -> None:
    """Each failed probe doubles the pause before the next one: 4, 8, 16, 20, 20 s."""
    world = World(failures=1)
    lengths = []
    for _ in range(5):
        world.fail()
        began_s = world.now_s
        while world.breaker.state is State.OPEN:
            world.now_s += 0.5
        lengths.append(world.now_s - began_s)

    assert lengths == [4, 8, 16, 20, 20]


def test_open_phases_differ_between_nodes() -> None:
    """The dice shorten a phase down to its half, so that nodes do not probe in step."""
    world = World(failures=1, share=lambda: 0.0)
    world.fail()
    world.now_s = 1.9

    assert world.breaker.state is State.OPEN
    world.now_s = 2.0
    assert world.breaker.state is State.HALF_OPEN


def test_what_the_other_side_asks_for_is_waited() -> None:
    """An open phase lasts at least as long as Retry-After said, up to 5 minutes."""
    world = World(failures=1)
    world.breaker.failed(world.admitted(), 60.0)
    world.now_s = 59.0

    assert world.breaker.state is State.OPEN
    world.now_s = 60.0
    world.breaker.failed(world.admitted(), 86400.0)
    world.now_s = 359.0
    assert world.breaker.state is State.OPEN
    world.now_s = 360.0
    assert world.breaker.state is State.HALF_OPEN


def test_one_probe_at_a_time() -> None:
    """Half-open lets one call through; the others wait until it reports."""
    world = World(failures=1)
    world.fail()
    world.now_s = 4.0
    probe = world.admitted()

    assert probe.probe
    assert world.breaker.admit() is None
    world.breaker.forgot(probe)  # cancelled: the next one may try
    assert world.admitted().probe


def test_a_lost_probe_is_replaced() -> None:
    """A probe that never reports keeps the others out for longest_open_s, not for ever."""
    world = World(failures=1)
    world.fail()
    world.now_s = 4.0
    world.admitted()
    world.now_s = 23.9

    assert world.breaker.admit() is None
    world.now_s = 24.0
    assert world.admitted().probe


def test_late_failures_of_calls_under_way_change_nothing() -> None:
    """Calls that were let through before it opened neither lengthen the phase nor count."""
    world = World(failures=1)
    late = [world.admitted() for _ in range(50)]
    world.fail()
    for permit in late:
        world.breaker.failed(permit)
    world.now_s = 4.0

    assert world.breaker.state is State.HALF_OPEN


def test_the_link_opens_it_at_once_and_lets_a_probe_through() -> None:
    """A link event opens without any failure, no success closes it, recovery allows one probe."""
    world = World()
    under_way = world.admitted()
    world.breaker.trip()
    world.breaker.succeeded(under_way)
    world.now_s = 1000.0

    assert (world.breaker.state, world.breaker.admit()) == (State.OPEN, None)
    world.breaker.recover()
    assert world.admitted().probe
    assert world.breaker.admit() is None


def test_a_probe_after_the_link_came_back_begins_anew() -> None:
    """When the first probe after a link event fails, the first open phase follows, no long one."""
    world = World(failures=1)
    for _ in range(4):
        world.fail()
        world.now_s += 20.0
    world.breaker.trip()
    world.breaker.recover()
    world.fail()
    world.now_s += 4.0

    assert world.breaker.state is State.HALF_OPEN


def test_failures_while_the_link_is_down_do_not_count() -> None:
    """What fails because the node has no network says nothing about the dependency."""
    world = World()
    under_way = [world.admitted() for _ in range(10)]
    world.breaker.trip()
    for permit in under_way:
        world.breaker.failed(permit)
    world.breaker.recover()
    world.breaker.succeeded(world.admitted())

    assert world.breaker.state is State.CLOSED


def test_recovery_without_a_trip_changes_nothing() -> None:
    """The agent's "all is well" does not open a way to a dependency that is down by itself."""
    world = World(failures=1)
    world.fail()
    world.breaker.recover()

    assert world.breaker.state is State.OPEN


def test_a_hung_call_keeps_nobody_from_asking() -> None:
    """The lock is not held during a call: others are answered while one hangs."""
    world = World()
    hung, over = threading.Event(), threading.Event()

    def call() -> None:
        permit = world.admitted()
        hung.set()
        over.wait(10)
        world.breaker.succeeded(permit)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        assert hung.wait(10)
        answers: list[object] = []
        other = threading.Thread(target=lambda: answers.append(world.breaker.admit()))
        other.start()
        other.join(5)
        assert len(answers) == 1
    finally:
        over.set()
        thread.join()


def test_a_child_is_not_bound_by_the_parents_probe() -> None:
    """After a fork the child may probe itself, also when the lock was held."""
    world = World(failures=1, keep=(keep := Alone(Standing(), Standing.unprobed)))
    world.fail()
    world.now_s = 4.0
    world.admitted()
    keep._lock.acquire()
    world.breaker.after_fork()

    assert world.admitted().probe


_STEPS = st.lists(
    st.sampled_from(["admit", "succeeded", "failed", "forgot", "trip", "recover"])
    | st.floats(0.1, 30.0),
    max_size=80,
)


class History:
    """Plays any order of events and checks the rules at each call for leave."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.out: list[Permit] = []
        self.probe: Permit | None = None
        self.probe_s = 0.0

    def play(self, step: str | float) -> None:
        """Let time pass, ask for leave, end a call, or let the link change."""
        if isinstance(step, float):
            self.world.now_s += step
        elif step == "admit":
            self._admit()
        elif step in {"trip", "recover"}:
            self.probe = None  # after a link event one more probe may go
            getattr(self.world.breaker, step)()
        elif self.out:
            permit = self.out.pop()
            self.probe = None if permit == self.probe else self.probe
            getattr(self.world.breaker, step)(permit)

    def _admit(self) -> None:
        state, permit = self.world.breaker.state, self.world.breaker.admit()
        if state is State.CLOSED:
            self.probe = None
            assert permit is not None
            assert not permit.probe
        elif permit is not None:
            assert state is State.HALF_OPEN
            assert permit.probe
            assert self.probe is None or self.world.now_s - self.probe_s >= 20.0
            self.probe, self.probe_s = permit, self.world.now_s
        if permit is not None:
            self.out.append(permit)


@given(_STEPS, st.integers(1, 4), st.floats(0, 1))
def test_no_call_while_open_and_one_probe_when_half_open(
    steps: list[str | float], failures: int, share: float
) -> None:
    """In any history: open admits nobody, half-open one probe in 20 s, closed everybody."""
    history = History(World(failures, lambda: share))
    for step in steps:
        history.play(step)
