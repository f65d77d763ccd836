"""Requests of the fleet for a diagnosis: read strictly, rationed, answered by a child process."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.daemon.far_diagnosis import FarDiagnosis, Place
from linkhold.decide import far_diagnosis
from linkhold.decide.diagnosis.published import LEAST_BYTES, published, redacted
from linkhold.decide.far_diagnosis import HOUR_NS, MINUTE_NS, PER_HOUR, Desk, Ruling
from linkhold.door import Peer
from linkhold.legs.fleet_diagnose import (
    MAX_TRIES,
    MAX_WAITING,
    NOT_HEARD,
    SINCE_S,
    DiagnoseRequest,
    Ignored,
    Report,
    Reports,
    parse_diagnose,
    read_request,
)
from linkhold.model import LinkholdError, WireError
from linkhold.mqtt import Received

if TYPE_CHECKING:
    from linkhold.legs.fleet import FleetLeg

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=40,
)


def message(payload: bytes, *, retained: bool = False, expiry_s: int | None = 60) -> Received:
    """Return a message of cmd/diagnose."""
    return Received("linkhold/v1/lab/n1/cmd/diagnose", payload, retained, expiry_s)


def request(identity: str) -> bytes:
    """Return the body of a request."""
    return json.dumps({"id": identity}).encode()


# Reading.


def test_a_request_is_an_id_and_one_of_four_ages() -> None:
    """The id becomes a topic level; without an age it is the last hour."""
    assert parse_diagnose(b'{"id": "night-1"}') == DiagnoseRequest("night-1", "1h")
    assert parse_diagnose(b'{"id": "a.b_c", "since": "24h"}') == DiagnoseRequest("a.b_c", "24h")


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"[]",
        b"{}",
        b'{"id": 1}',
        b'{"id": ""}',
        b'{"id": "a/b"}',
        b'{"id": "#"}',
        b'{"id": "..-"}',
        b'{"id": "a", "since": "2h"}',
        b'{"id": "a", "since": 3600}',
        b'{"id": "a", "target": "192.0.2.1"}',
        b'{"id": "a", "config": "/etc/shadow"}',
        b'{"id": "a", "command": "reboot"}',
        b'{"id": "' + b"a" * 65 + b'"}',
        b'{"id": "a"' + b" " * 600 + b"}",
    ],
)
def test_nothing_else_is_a_request(payload: bytes) -> None:
    """No host, path, command or age of the sender's; no id that is no single topic level."""
    with pytest.raises(WireError):
        parse_diagnose(payload)


@given(st.binary(max_size=600) | JSON.map(lambda value: json.dumps(value).encode()))
def test_whatever_comes_is_a_request_or_malformed(payload: bytes) -> None:
    """Reading raises nothing but Ignored, and what it returns is within the closed sets."""
    try:
        found, kind = read_request(message(payload)), ""
    except Ignored as error:
        found, kind = None, error.kind
    assert kind == "malformed" if found is None else found.since in SINCE_S


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        ({"retained": True}, "retained"),
        ({"expiry_s": None}, "without expiry"),
        ({"expiry_s": 0}, "expired"),
    ],
)
def test_a_command_is_of_now(how: dict[str, Any], kind: str) -> None:
    """A retained command, one without an expiry and one that has expired are ignored."""
    with pytest.raises(Ignored) as caught:
        read_request(message(request("a"), **how))
    assert caught.value.kind == kind


# Rationing.


def test_one_at_a_time_one_a_minute_ten_an_hour() -> None:
    """Each limit refuses with the time after which to ask again."""
    desk, ruling, _ = far_diagnosis.rule(Desk(), "r0", 0)
    assert ruling is Ruling.TAKEN
    desk, ruling, why = far_diagnosis.rule(desk, "busy", 1)
    assert (ruling, why) == (
        Ruling.REFUSED,
        "diagnosis r0 is under way; ask again in 60 s with another id",
    )
    desk, ruling, why = far_diagnosis.rule(far_diagnosis.ended(desk), "soon", 20 * 10**9)
    assert (ruling, why) == (
        Ruling.REFUSED,
        "at most 1 a minute; ask again in 40 s with another id",
    )
    for number in range(1, PER_HOUR):
        desk, ruling, _ = far_diagnosis.rule(desk, f"r{number}", number * MINUTE_NS)
        assert ruling is Ruling.TAKEN
        desk = far_diagnosis.ended(desk)
    desk, ruling, why = far_diagnosis.rule(desk, "eleventh", 10 * MINUTE_NS)
    assert (ruling, why) == (
        Ruling.REFUSED,
        "at most 10 an hour; ask again in 3000 s with another id",
    )
    assert far_diagnosis.rule(desk, "later", HOUR_NS)[1] is Ruling.TAKEN


def test_a_message_that_comes_twice_is_one_request() -> None:
    """QoS 1 may deliver again: the id is known, and nothing is refused."""
    desk, _, _ = far_diagnosis.rule(Desk(), "r", 0)
    assert far_diagnosis.rule(desk, "r", 1) == (desk, Ruling.REPEATED, "its id r was used before")


@given(st.lists(st.tuples(st.integers(0, 30 * 10**9), st.booleans()), max_size=300))
def test_a_flood_runs_and_tells_no_more_than_allowed(steps: list[tuple[int, bool]]) -> None:
    """In no hour more than ten runs, in no minute more than one run and four refusals."""
    desk, now_ns = Desk(), 0
    taken: list[int] = []
    told: list[int] = []
    for number, (pause_ns, end) in enumerate(steps):
        now_ns += pause_ns
        desk, ruling, why = far_diagnosis.rule(desk, f"r{number}", now_ns)
        assert bool(why) == (ruling is not Ruling.TAKEN)
        taken += [now_ns] * (ruling is Ruling.TAKEN)
        told += [now_ns] * (ruling is Ruling.REFUSED)
        desk = far_diagnosis.ended(desk) if end else desk

    assert all(b - a >= MINUTE_NS for a, b in pairwise(taken))
    assert all(b - a >= HOUR_NS for a, b in zip(taken, taken[10:], strict=False))
    assert all(b - a >= MINUTE_NS for a, b in zip(told, told[4:], strict=False))
    assert len(desk.begun_ns) <= PER_HOUR
    assert len(desk.known) <= far_diagnosis.REMEMBERED


# What is published.


@given(st.dictionaries(st.text(max_size=120), JSON, max_size=12), st.integers(0, 4000))
def test_a_report_is_json_within_its_size(document: dict[str, Any], most: int) -> None:
    """Whatever is in it, the result is valid JSON and not longer than allowed."""
    payload = published(document, most)

    assert len(payload) <= max(LEAST_BYTES, most)
    assert isinstance(json.loads(payload), dict)


def test_a_report_of_nothing_but_names_is_small() -> None:
    """Names of fields are bounded in number and length, and all go when they alone are too long."""
    found = json.loads(published({str(n) + "\u20ac" * 90: None for n in range(1000)}, 0))
    assert found == {"cut": {"all": "it is left out"}}


def test_what_is_too_long_is_cut_where_it_is_long_and_says_so() -> None:
    """The verdict stays; the evidence loses its tail, and `cut` counts what is gone."""
    rows = [{"step": "links", "text": "x" * 90} for _ in range(4000)]
    payload = published({"state": "down", "sentence": "eth0 has no carrier", "evidence": rows})
    found = json.loads(payload)

    assert len(payload) <= 256 * 1024
    assert (found["state"], found["sentence"]) == ("down", "eth0 has no carrier")
    kept = len(found["evidence"])
    assert 0 < kept < 4000
    assert found["cut"] == {"evidence": f"{4000 - kept} of 4000 entries are left out"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://joe:geheim@h:1/x answers", "http://***@h:1/x answers"),
        ("https://s3.x/b?X-Amz-Signature=abc&y=1 is dead", "https://s3.x/b?*** is dead"),
        ("curl -v https://h/#token", "curl -v https://h/?***"),
        ("started with HF_TOKEN=hf_abc --lr 1", "started with HF_TOKEN=*** --lr 1"),
        ("api_key: abc, next", "api_key: ***, next"),
        ("Authorization: Bearer abc", "Authorization: ***"),
        ("rx_crc_errors grew by 7", "rx_crc_errors grew by 7"),
    ],
)
def test_secrets_are_not_published(text: str, shown: str) -> None:
    """Users, passwords and queries of URLs, keys and tokens; nothing else is touched."""
    assert redacted(text) == shown
    found = json.loads(published({"evidence": [{"text": text}]}))
    assert found["evidence"][0]["text"] == shown


@pytest.mark.parametrize("part", ["a", "a://", "token", "token ", "x://y@", "bearer ", "=?#@/:"])
def test_no_text_keeps_the_agent_busy(part: str) -> None:
    """Half a megabyte of what the patterns begin with is cleaned in a moment, in pieces."""
    began_s = time.process_time()
    redacted(part * (500_000 // len(part)))

    assert time.process_time() - began_s < 0.5


def test_reports_wait_for_a_broker_within_bounds() -> None:
    """Four at most, three connections each, told once what became of them."""
    reports, told = Reports(), list[tuple[str, str]]()

    def report(name: str) -> Report:
        return Report(name, {}, lambda reason: told.append((name, reason)))

    first, *others = (report(str(number)) for number in range(MAX_WAITING))
    assert all(reports.put(one) for one in (first, *others))
    assert not reports.put(report("surplus"))
    for _ in range(MAX_TRIES):  # connections that end before the answer
        assert reports.next() is first
    assert reports.next() is others[0]
    reports.answered(others[0], 0, "Success")
    reports.answered(others[0], 0, "Success")
    reports.withdraw(others[1])
    assert reports.next() is others[2]
    reports.answered(others[2], 0x10, "No matching subscribers")
    assert reports.next() is None
    assert told == [("0", "it could not be sent in time"), ("1", ""), ("3", NOT_HEARD)]


# The process that diagnoses.


class Leg:
    """Keeps what is to be published."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.published = asyncio.Event()
        self.takes = True

    def publish_report(self, report: Report) -> bool:
        self.reports.append(report)
        self.published.set()
        return self.takes

    def withdraw(self, report: Report) -> None:
        self.reports.remove(report)


def far(leg: Leg | None, code: str, deadline_s: float = 10.0) -> FarDiagnosis:
    """Return a FarDiagnosis whose child runs ``code``."""
    place = Place("linkhold/v1/lab/n1", None, Path("/nonexistent"))
    command = [sys.executable, "-c", code]
    return FarDiagnosis(
        place, lambda: cast("FleetLeg", leg), command=command, deadline_s=deadline_s
    )


def test_a_child_that_hangs_is_killed_and_the_loop_goes_on() -> None:
    """The answer says so after the deadline; meanwhile the loop never waited."""
    leg = Leg()

    async def scene() -> float:
        diagnosis = far(leg, "import time; time.sleep(60)", deadline_s=0.5)
        diagnosis.heard(message(request("hung")))
        longest = 0.0
        while not leg.reports:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            longest = max(longest, time.monotonic() - began)
        diagnosis.heard(message(request("again")))
        assert diagnosis.counters["diagnoses_failed"] == 1
        return longest

    longest = asyncio.run(asyncio.wait_for(scene(), 15))
    document = leg.reports[0].document
    assert (document["id"], document["outcome"]) == ("hung", "failed")
    assert "did not answer within 0.5 s" in document["why"]
    assert "at most 1 a minute" in leg.reports[1].document["why"]
    assert longest < 0.4


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('no json')", "answered what is no JSON"),
        ("print('[]')", "no report"),
        ("raise SystemExit(3)", "ended with 3"),
        ("import sys; sys.stdout.write('x' * 3_000_000)", "more than"),
    ],
)
def test_a_child_that_fails_is_said(code: str, why: str) -> None:
    """Whoever asked hears why there is no report."""
    leg = Leg()

    async def scene() -> None:
        far(leg, code).heard(message(request("r")))
        await leg.published.wait()

    asyncio.run(asyncio.wait_for(scene(), 15))
    assert leg.reports[0].document["outcome"] == "failed"
    assert why in leg.reports[0].document["why"]


def test_a_report_of_this_node_is_checked_and_told() -> None:
    """Not without a fleet, not from others than root, not what is no report; then by outcome."""
    leg = Leg()
    root, other = Peer(1, 0), Peer(1, 12345)
    good = json.dumps({"schema": 1, "state": "down", "sentence": "x", "id": "forged"}).encode()

    async def ask(
        diagnosis: FarDiagnosis, body: Any, peer: Peer = root, reason: str | None = None
    ) -> bytes:
        task = asyncio.ensure_future(
            diagnosis.handlers()["publish_diagnosis"]({"body": body}, peer)
        )
        await asyncio.sleep(0.02)
        if reason is not None:
            leg.reports[-1].told(reason)
        return await asyncio.wait_for(task, 5)

    async def scene() -> None:
        diagnosis = far(leg, "")
        for body, peer, text in (
            (good, other, "only root"),
            (None, root, "no report"),
            (b"\xff", root, "no JSON"),
            (b'{"schema": 1, "state": "fine"}', root, "no report"),
        ):
            with pytest.raises(LinkholdError, match=text):
                await ask(diagnosis, body, peer)
        with pytest.raises(LinkholdError, match="no fleet"):
            await ask(far(None, ""), good)
        with pytest.raises(LinkholdError, match="nobody is subscribed"):
            await ask(diagnosis, good, reason=NOT_HEARD)
        with pytest.raises(LinkholdError, match="Not authorized"):
            await ask(diagnosis, good, reason="Not authorized")
        told = await ask(diagnosis, good, reason="")
        topic = json.loads(b"{" + told + b"}")["topic"]
        assert topic == f"linkhold/v1/lab/n1/diag/{leg.reports[-1].id}"
        leg.takes = False
        with pytest.raises(LinkholdError, match="too many reports"):
            await ask(diagnosis, good)

    asyncio.run(scene())
    document = leg.reports[0].document
    assert document["id"] == leg.reports[0].id != "forged"
