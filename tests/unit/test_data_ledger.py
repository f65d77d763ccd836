"""Batches of a pass under simulated workers that die, lose and fail: pure, thousands of runs."""

from __future__ import annotations

import itertools
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.data import passes
from linkhold.client.data.courses import Feed, MapCourse
from linkhold.client.data.ledger import FILLER, Ledger, Receipt, Ticket, Turn
from linkhold.client.data.passes import Pass
from linkhold.client.data.rebuilds import IN_VAIN, Rebuilds, WorkersLost
from linkhold.client.voice import Memo

if TYPE_CHECKING:
    from collections.abc import Iterator

DIED = "DataLoader worker (pid(s) 7) exited unexpectedly"


class Simulated:
    """Plays torch's iterator and its workers: turns, reading ahead, and deaths by the dice.

    A worker's random state is a number that grows with each batch it reads.
    """

    def __init__(self, feed: Feed, workers: int, ahead: int, dice: random.Random) -> None:
        self._feed, self._workers, self._ahead, self._dice = feed, workers, ahead, dice
        self.killed = self.running = False
        self.deaths = 0
        self.persistent = False
        self.may_die = True

    def start(self) -> None:
        if not self.running:
            self._random = [1000 * worker for worker in range(self._workers)]
        self._begin()

    def start_anew(self, *, gently: bool) -> None:
        del gently
        self._random = [1000 * worker for worker in range(self._workers)]  # as from the seed
        self._begin()

    def _begin(self) -> None:
        self.killed, self.running = False, True
        iter(self._feed)  # torch asks twice, and uses the second answer
        self._tickets = iter(self._feed)
        self._turn = itertools.cycle(range(self._workers))
        self._ready: list[Any] = []
        self._read(self._workers * self._ahead)

    def _read(self, batches: int) -> None:
        for ticket in itertools.islice(self._tickets, batches):
            worker = next(self._turn)
            if ticket.number == FILLER:
                self._ready.append((Receipt(FILLER, worker, None), None))
                continue
            if ticket.random is not None:
                self._random[worker] = int(ticket.random)
            self._random[worker] += 1
            state = self._random[worker]
            batch = (ticket.indices, state)
            self._ready.append((Receipt(ticket.number, worker, b"%d" % state), batch))

    def next(self) -> Any:
        fate = self._dice.random() if self.may_die else 1.0
        if fate < 0.08:
            self.killed, self.deaths = True, self.deaths + 1
            raise RuntimeError(DIED)
        if fate < 0.1 and len(self._ready) > 1:
            self.deaths += 1
            del self._ready[0]  # lost on the way: its successor comes in its place
        if not self._ready:
            raise StopIteration
        found = self._ready.pop(0)
        self._read(1)
        return tuple(found[0]), found[1]

    def release(self) -> None:
        self.running = self.persistent

    def end(self) -> None:
        self.running = False


class Endless(Rebuilds):
    """The dice may well kill four times in a row: that is no end here."""

    def spend(self, cause: str, delivered: int, due: object) -> str:
        self.in_vain = 0
        return super().spend(cause, delivered, due)


def run(seed: int, *, faults: bool) -> tuple[list[Any], int]:
    """Run three passes; return what was delivered, and how many deaths there were."""
    shape = random.Random(seed)
    workers, ahead, length = shape.randint(1, 4), shape.randint(1, 4), shape.randint(0, 40)
    persistent = shape.random() < 0.5
    order, dice = random.Random(seed + 1), random.Random(seed + 2)

    class Sampler:
        def __iter__(self) -> Iterator[int]:
            return iter(order.sample(range(length), length))  # another order each time

        def __len__(self) -> int:
            return length

    ledger = Ledger(workers)
    feed = Feed(Sampler(), ledger)
    crew: Any = Simulated(feed, workers, ahead, dice)
    crew.persistent, crew.may_die = persistent, faults
    course = MapCourse(crew, feed, ledger)
    seen: list[Any] = []
    for _pass in range(3):
        seen += [*Pass(crew, course, Endless(10_000), Memo([])), "end"]
    return seen, crew.deaths


def test_a_thousand_schedules() -> None:
    """In 1,000 random schedules of deaths and losses each batch comes once, in order, exact."""
    deaths = 0
    for seed in range(1000):
        found, died = run(seed, faults=True)
        wanted, _none = run(seed, faults=False)

        assert found == wanted, seed
        deaths += died
    assert deaths > 2000


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 4), st.integers(0, 1 << 32))
def test_out_of_order_nothing_twice_nothing_missing(
    drawn: list[int], workers: int, seed: int
) -> None:
    """Whatever order batches come in and when workers die, each is handed on exactly once."""
    dice, ledger = random.Random(seed), Ledger(workers, in_order=False)
    live, handed_on = iter(list(enumerate(drawn))), []
    ledger.begin(keep_workers=False)
    while True:
        tickets = list(itertools.islice(ledger.tickets(live), dice.randint(1, 9)))
        dice.shuffle(tickets)
        for ticket in tickets[: dice.randint(0, len(tickets))]:
            turn = ledger.settle(Receipt(ticket.number, 0, None))
            if turn is Turn.HAND_ON:
                handed_on.append(ticket.indices)
            assert ledger.settle(Receipt(ticket.number, 0, None)) is Turn.TWICE
        if ledger.complete and not tickets:
            break
        ledger.restart()

    assert sorted(handed_on) == list(enumerate(drawn))
    assert ledger.delivered == len(drawn)


def test_a_missing_batch_is_seen() -> None:
    """In order, a batch that comes before its turn is not handed on: one is missing."""
    ledger = Ledger(2)
    ledger.begin(keep_workers=False)
    list(itertools.islice(ledger.tickets(iter("abc")), 3))

    assert ledger.settle(Receipt(1, 1, None)) is Turn.GAP
    assert ledger.settle(Receipt(0, 0, None)) is Turn.HAND_ON
    assert ledger.settle(Receipt(1, 1, None)) is Turn.HAND_ON
    assert ledger.due_indices() == "c"


def test_new_workers_keep_their_turns() -> None:
    """After a rebuild fillers go first, and each worker gets the state of its predecessor once."""
    ledger = Ledger(3)
    ledger.begin(keep_workers=False)
    live = iter("abcdefgh")
    list(itertools.islice(ledger.tickets(live), 6))
    for number in range(4):
        ledger.settle(Receipt(number, number % 3, b"%d" % number))
    ledger.restart()

    tickets = list(ledger.tickets(live))

    assert tickets[:4] == [
        Ticket(FILLER),
        Ticket(4, "e", b"1"),
        Ticket(5, "f", b"2"),
        Ticket(6, "g", b"3"),
    ]
    assert tickets[4] == Ticket(7, "h", None)


def test_gently_one_batch_at_a_time() -> None:
    """After deaths without a batch, of those due only one is among as many tickets as workers."""
    ledger = Ledger(2)
    ledger.begin(keep_workers=False)
    live = iter("abcde")
    list(itertools.islice(ledger.tickets(live), 4))
    ledger.settle(Receipt(0, 0, b"0"))
    ledger.restart(gently=True)

    tickets = [ticket.indices for ticket in ledger.tickets(live)]

    assert tickets == [None, "b", None, None, "c", None, None, "d", None, None, "e"]
    turns = [number % 2 for number, indices in enumerate(tickets) if indices]
    assert turns == [1, 0, 1, 0]  # each worker keeps its turn


def test_workers_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork that fails for lack of memory is tried again after a pause, and counted."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    ledger = Ledger(2)
    feed = Feed([1, 2, 3], ledger)
    crew: Any = Simulated(feed, 2, 1, random.Random(1))
    answers = iter([OSError(12, "Cannot allocate memory"), OSError(11, "Try again"), None])
    start, follow = crew.start_anew, crew.next
    ends = iter([RuntimeError(DIED)])
    crew.may_die = False

    def start_anew(*, gently: bool) -> None:
        error = next(answers)
        if error is not None:
            raise error
        start(gently=gently)

    def after_death() -> Any:
        for error in ends:
            crew.killed = True
            raise error
        return follow()

    crew.start_anew, crew.next = start_anew, after_death
    lines: list[str] = []
    batches = Pass(crew, MapCourse(crew, feed, ledger), Rebuilds(9), Memo(lines))

    assert [indices for indices, _random in batches] == [1, 2, 3]
    assert pauses == [passes.START_PAUSE_S] * 2
    assert "Cannot allocate memory" in lines[1]


def test_rebuilds_have_limits() -> None:
    """In a row without a batch, and in a pass; each error says where, why and what to do."""
    rebuilds = Rebuilds(most=10)
    for _death in range(IN_VAIN):
        rebuilds.spend("killed", 7, [1, 2])
    with pytest.raises(WorkersLost, match=r"4 times in a row while batch 7 \(samples \[1, 2\]\)"):
        rebuilds.spend("killed", 7, [1, 2])

    rebuilds.begin()
    for _death in range(10):
        rebuilds.progress()
        assert "at batch 9" in rebuilds.spend("killed", 9, None)
    rebuilds.progress()
    with pytest.raises(WorkersLost, match="10 is the limit"):
        rebuilds.spend("killed", 9, None)
    assert rebuilds.total == 13
