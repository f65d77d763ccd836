"""The pure parts of leg B: waits, pace, the window, parking, and requests from outside."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.readings import ParkedReading, ReplayReading
from linkhold.legs.backoff import Backoff
from linkhold.legs.fleet_pace import Pacer, Timing
from linkhold.legs.fleet_pump import POISON_LOSSES, WINDOW, Flight, Kind, Ledger, Pump
from linkhold.legs.fleet_replay import MAX_TRIES, MAX_WAITING, Requests, parse_replay
from linkhold.model import WireError
from linkhold.mqtt import Connected, Received
from linkhold.store.outbox import Mark, ReplayRequest, Status, Stored
from support.outbox import entry


def stored(seq: int, status: Status = Status.PENDING, **how: Any) -> Stored:
    """Return an event as the keeper hands it out."""
    return Stored(seq, entry(seq, **how), status)


def send(pump: Pump, mid: int, now_s: float = 0.0) -> Stored:
    """Send the next event as ``mid`` and return it."""
    kind, event = pump.next()
    pump.sent(mid, Flight(kind, now_s, event))
    return event


def waits(lasted: list[float]) -> list[float]:
    """Return the longest wait after connections that lasted so many seconds, by default."""
    timing, longest = Timing(), []
    backoff = Backoff(timing.backoff_least_s, timing.backoff_most_s, timing.stable_s)
    for lasted_s in lasted:
        backoff, wait_s = backoff.failed(lasted_s)
        longest.append(wait_s)
    return longest


def test_waits_double_up_to_a_minute() -> None:
    """The ceiling of the jitter grows with each failure, and not beyond its bound."""
    assert waits([0] * 8) == [1, 2, 4, 8, 16, 32, 60, 60]


def test_only_a_stable_connection_resets_the_wait() -> None:
    """A broker that accepts and drops is not stormed."""
    assert waits([0, 29, 29, 30, 0]) == [1, 2, 4, 1, 2]


@given(st.lists(st.floats(0, 100), max_size=50))
def test_waits_stay_within_their_bounds(ups: list[float]) -> None:
    """Whatever happens, no wait is below the least or above the most."""
    assert all(1 <= wait_s <= Timing().backoff_most_s for wait_s in waits(ups))


@given(st.lists(st.floats(0, 0.5), max_size=300))
def test_the_pace_is_never_exceeded(steps: list[float]) -> None:
    """Over any time at most rate times that time and one burst go."""
    now_s, sent = 100.0, 0
    pacer = Pacer(200, now_s)
    for step_s in steps:
        now_s += step_s
        while pacer.take(now_s):
            sent += 1
        assert pacer.wait_s() <= 1 / 200
    assert sent <= 20 + (now_s - 100.0) * 200 + 1e-6


def test_the_window_bounds_what_is_in_flight() -> None:
    """No more than the window waits for answers, in order; an answer makes room for one."""
    pump = Pump(Ledger(), Connected())
    pump.offer(stored(seq) for seq in range(1, 50))
    sent: list[int] = []
    while pump.waiting:
        sent.append(send(pump, len(sent) + 1).row)

    assert sent == [*range(1, WINDOW + 1)]
    assert pump.acknowledged(1, 0, "") is not None
    assert pump.waiting
    assert send(pump, 99).row == WINDOW + 1


@pytest.mark.parametrize(("maximum", "window"), [(65535, 32), (20, 16), (4, 1), (1, 1)])
def test_the_window_obeys_the_broker(maximum: int, window: int) -> None:
    """The broker's receive maximum holds for events, state and presence together."""
    assert Pump(Ledger(), Connected(maximum)).window == window


def test_an_event_in_hand_is_not_taken_twice() -> None:
    """A fetch that begins again from the start doubles nothing that waits for an answer."""
    pump = Pump(Ledger(), Connected())
    pump.offer([stored(1), stored(2)])
    send(pump, 1)
    pump.offer([stored(1), stored(2), stored(3)])

    assert [send(pump, mid).row for mid in (2, 3)] == [2, 3]
    assert not pump.waiting


@pytest.mark.parametrize(
    ("code", "status"), [(0, Status.DELIVERED), (0x10, Status.NO_SUBSCRIBER), (0x87, Status.PARKED)]
)
def test_each_answer_has_its_status(code: int, status: Status) -> None:
    """0x00 delivers, 0x10 had no subscriber, from 0x80 on it is parked."""
    pump = Pump(Ledger(), Connected())
    pump.offer([stored(1)])
    send(pump, 7)
    answer = pump.acknowledged(7, code, "text")

    assert answer is not None
    assert answer.mark == Mark("boot-s1-1", status, code)
    assert pump.idle
    assert pump.acknowledged(7, code, "text") is None


def test_a_refusal_is_told_once_for_type_and_reason() -> None:
    """Also over connections; another type or another reason is news."""
    ledger = Ledger()
    told = []
    for seq, (kind, text) in enumerate([("a", "x"), ("a", "x"), ("b", "x"), ("a", "y")], 1):
        pump = Pump(ledger, Connected())
        pump.offer([stored(seq, event_type=kind)])
        send(pump, seq)
        answer = pump.acknowledged(seq, 0x87, text)
        assert answer is not None
        told.append(answer.reading)

    assert told == [
        ParkedReading("boot-s1-1", "x"), None,
        ParkedReading("boot-s1-3", "x"), ParkedReading("boot-s1-4", "y"),
    ]  # fmt: skip


def test_an_accepted_probe_frees_its_type() -> None:
    """The parked of that type become pending, and their next refusal is told again."""
    ledger = Ledger()
    ledger.refused(stored(1), "x")
    pump = Pump(ledger, Connected())
    pump.offer_probes([stored(1, Status.PARKED)])
    send(pump, 1)
    answer = pump.acknowledged(1, 0, "")

    assert answer is not None
    assert answer.unpark == "link.down"
    assert ledger.refused(stored(2), "x") is not None


def test_silence_is_overdue() -> None:
    """The oldest publication without an answer decides."""
    pump = Pump(Ledger(), Connected())
    pump.sent(1, Flight(Kind.STATE, 10.0))
    pump.sent(2, Flight(Kind.STATE, 20.0))

    assert (pump.overdue(10.0), pump.overdue(10.1)) == (False, True)
    pump.acknowledged(1, 0, "")
    assert not pump.overdue(20.0)


def test_an_event_that_ends_every_connection_is_parked() -> None:
    """The state was answered, this event never: after some connections it is the cause."""
    ledger = Ledger()
    answers = []
    for _ in range(POISON_LOSSES):
        pump = Pump(ledger, Connected())
        pump.sent(1, Flight(Kind.STATE, 0.0))
        pump.acknowledged(1, 0, "")
        pump.offer([stored(1), stored(2)])
        send(pump, 2)
        send(pump, 3)
        answers.append(pump.lost())

    assert answers[:-1] == [None] * (POISON_LOSSES - 1)
    assert answers[-1] is not None
    assert answers[-1].mark == Mark("boot-s1-1", Status.PARKED, 0x80)


def test_a_network_that_answers_nothing_parks_nothing() -> None:
    """Without any answer on a connection the network is the cause, not the event."""
    ledger = Ledger()
    for _ in range(3 * POISON_LOSSES):
        pump = Pump(ledger, Connected())
        pump.offer([stored(1)])
        send(pump, 1)
        assert pump.lost() is None


def test_a_replay_is_reported_when_all_is_answered() -> None:
    """Events of a replay come after pending ones, are not marked, and are counted."""
    ledger = Ledger()
    ledger.requests.active = ReplayRequest("r", "s1", 1, 3)
    pump = Pump(ledger, Connected())
    assert pump.replay_done() is None
    pump.offer_replay([stored(1), stored(2)], 1)
    pump.offer([stored(9)])
    assert [send(pump, mid).row for mid in (1, 2, 3)] == [9, 1, 2]
    for mid in (1, 2):
        pump.acknowledged(mid, 0, "")
    assert pump.replay_done() is None
    answer = pump.acknowledged(3, 0, "")

    assert answer is not None
    assert answer.mark is None
    assert pump.replay_done() == ReplayReading("r", 2, 1, "boot-s1-1", "boot-s1-2")
    assert pump.replay_done() is None


RANGE = {"request": "r-1", "session": "s1", "from_seq": 1, "to_seq": 9}


def test_both_forms_of_a_request_are_read() -> None:
    """A range of a session, or everything since a time; the limit is optional."""
    since = {"request": "x", "since": "2023-11-14T22:13:20Z", "limit": 5}

    assert parse_replay(json.dumps(RANGE).encode()) == ReplayRequest("r-1", "s1", 1, 9)
    found = parse_replay(json.dumps(since).encode())
    assert found == ReplayRequest("x", since_wall_s=1_700_000_000.0, limit=5)


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"\xff", b"[]", b"null", b"{}", b'"x"', b"1" * 5000, b"[" * 4000,
        *(
            json.dumps(RANGE | wrong).encode()
            for wrong in (
                {"request": ""}, {"request": "x" * 65}, {"request": 7}, {"request": "\ud800"},
                {"request": "two words"}, {"session": None}, {"from_seq": 0}, {"from_seq": True},
                {"from_seq": 10}, {"to_seq": 1 << 60}, {"to_seq": 1.5}, {"limit": 0},
                {"limit": 1001}, {"limit": "9"}, {"since": "2023-11-14T22:13:20Z"}, {"x": 1},
            )
        ),
        json.dumps({"request": "r", "since": "yesterday"}).encode(),
        json.dumps({"request": "r"}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_request_is_refused(payload: bytes) -> None:
    """Everything else raises WireError, and nothing else."""
    with pytest.raises(WireError):
        parse_replay(payload)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_garbage_never_gets_through(payload: bytes) -> None:
    """Bytes from outside are a request or a counted nothing."""
    requests = Requests()
    requests.received(Received("t", payload, retained=False, expiry_s=5))

    assert (requests.active is None) == (requests.ignored == 1)


def received(request: str, *, retained: bool = False, expiry_s: int | None = 5) -> Received:
    """Return a message with a request of this name."""
    payload = json.dumps(RANGE | {"request": request}).encode()
    return Received("t", payload, retained, expiry_s)


def test_requests_are_bounded_and_not_served_twice() -> None:
    """One is served, a few wait, more are dropped; retained, eternal and doubled ones ignored."""
    requests = Requests()
    for number in range(MAX_WAITING + 3):
        requests.received(received(f"r{number}"))
    requests.received(received("r0"))
    requests.received(received("y", retained=True))
    requests.received(received("z", expiry_s=None))
    served = []
    while requests.active is not None:
        served.append(requests.active.request)
        requests.finish()

    assert served == [f"r{number}" for number in range(MAX_WAITING + 1)]
    assert (requests.dropped, requests.ignored) == (2, 3)


def test_a_request_is_tried_on_a_few_connections_only() -> None:
    """One that ends each connection must not do so for ever; the next one has its turn."""
    requests = Requests()
    requests.received(received("bad"))
    requests.received(received("good"))
    begun = [requests.begin() for _ in range(MAX_TRIES + 1)]

    assert [one.request for one in begun if one] == ["bad"] * MAX_TRIES + ["good"]
