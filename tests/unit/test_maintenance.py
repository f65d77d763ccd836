"""Planned work on a node: announced with an end, over restarts and a reboot."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.config import Settings
from linkhold.decide.node import Context, Memory, step
from linkhold.decide.readings import MaintenanceReading, Tick
from linkhold.decide.restore import restore
from linkhold.legs.fleet_maintenance import MOST_A_MINUTE, Announcements, maintenance_in
from linkhold.model import Identity, Moment, WireError
from linkhold.mqtt import Received
from linkhold.wire import check_event
from linkhold.wire.maintenance import maintenance_request, parse_maintenance_request
from linkhold.wire.state import StateEncoder
from support.outbox import IDENTITY

CONTEXT = Context(Settings(), IDENTITY)
ANNOUNCED = MaintenanceReading("m1", 600.0, "new optic", "me")


def at(seconds: float) -> Moment:
    """Return an instant, the boot at 1000 s of the wall clock."""
    return Moment(int(seconds * 1e9), 1000 + seconds)


def test_it_begins_once_and_ends_by_itself() -> None:
    """A message that comes twice begins nothing anew; the end wakes the agent and is an event."""
    begun = step(CONTEXT, Memory(), ANNOUNCED, at(10))
    again = step(CONTEXT, begun.memory, ANNOUNCED, at(20))
    assert [event.type for event in begun.events] == ["maintenance.started"]
    assert again.events == ()
    assert begun.wake_ns == at(610).mono_ns

    over = step(CONTEXT, again.memory, Tick(), at(610))
    assert [event.type for event in over.events] == ["maintenance.ended"]
    assert over.memory.state.maintenance is None
    for event in (*begun.events, *over.events):
        check_event(event)


def test_it_can_be_ended_before_its_time() -> None:
    """A request for 0 seconds ends what is announced, and does nothing without it."""
    end = MaintenanceReading("m2", 0.0, "done", "you")
    begun = step(CONTEXT, Memory(), ANNOUNCED, at(10))
    over = step(CONTEXT, begun.memory, end, at(70))
    assert over.memory.state.maintenance is None
    assert over.events[0].data["reason"] == "ended by you"
    assert over.events[0].data["lasted_s"] == 60
    assert step(CONTEXT, over.memory, end, at(80)).events == ()


@pytest.mark.parametrize("boot", ["same", "other"])
def test_it_outlives_a_restart_and_a_reboot(boot: str) -> None:
    """After a restart the rest counts by the monotonic clock, after a reboot by the wall clock."""
    begun = step(CONTEXT, Memory(), ANNOUNCED, at(10))
    document = json.loads(
        StateEncoder(IDENTITY).encode(begun.memory.state, at(11), clock_synced=True)
    )
    who = Identity("lab", "n1", "m", IDENTITY.boot_id if boot == "same" else "b2", "s2", at(0))
    now = at(110) if boot == "same" else Moment(5 * 10**9, 1110.0)
    work = restore(Context(Settings(), who), document, now).state.maintenance

    assert work is not None
    left_s = work.ends.seconds_since(now)
    assert left_s == pytest.approx(500, abs=0.01)
    late = Moment(5 * 10**9, 5000.0)
    other = Identity("lab", "n1", "m", "b3", "s3", at(0))
    assert restore(Context(Settings(), other), document, late).state.maintenance is None


@given(st.one_of(st.binary(max_size=300), st.from_regex(rb"\{.{0,60}\}", fullmatch=True)))
def test_any_bytes_are_a_request_or_refused(payload: bytes) -> None:
    """Bytes from the fleet are a request or a WireError, and nothing else."""
    with suppress(WireError):
        parse_maintenance_request(payload)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"for_s": 30}, "for_s is 0, or 60 to 604800"),
        ({"for_s": True}, "for_s is no number"),
        ({"why": " "}, "why is 1 to 200 printable characters"),
        ({"by": "a\nb"}, "by is 1 to 200 printable characters"),
        ({"id": "a/b"}, "id is 1 to 64 letters"),
        ({"host": "x"}, "expected the keys by, for_s, id, why"),
    ],
)
def test_what_is_no_request_is_refused(change: dict[str, object], text: str) -> None:
    """The reason says what is allowed."""
    document = {**json.loads(maintenance_request("m1", 600, "why", "me")), **change}
    with pytest.raises(WireError, match=text):
        parse_maintenance_request(json.dumps(document).encode())


def test_a_few_requests_a_minute_are_taken() -> None:
    """A flood would fill the outbox and keep the agent from all else: ten a minute, then again."""
    now_s = 1000.0
    announcements = Announcements(lambda: now_s)

    def taken(count: int) -> int:
        payloads = [maintenance_request(f"m{n}", 600, "why", "me") for n in range(count)]
        messages = [Received("t", payload, retained=False, expiry_s=30) for payload in payloads]
        return sum(announcements.received(one) is not None for one in messages)

    assert taken(500) == MOST_A_MINUTE
    now_s += 61
    assert taken(1) == 1


def test_retained_and_endless_requests_are_ignored() -> None:
    """A retained request would begin anew at each connect, one without expiry at any time."""
    payload = maintenance_request("m1", 600, "why", "me")
    for retained, expiry_s, taken in ((False, 30, True), (True, 30, False), (False, None, False)):
        message = Received("t", payload, retained, expiry_s)
        assert (maintenance_in(message) is not None) is taken
