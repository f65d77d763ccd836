"""Every metadata service, played by one of our own, also wrongly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.notices import Memory, Polled, step
from linkhold.decide.notices.azure import machine
from linkhold.decide.notices.services import SERVICES, wait_s
from linkhold.decide.notices.values import Known
from linkhold.model import Moment
from linkhold.sensors.cloud_http import answer_in
from linkhold.sensors.cloud_notices import CloudNotices
from linkhold.sensors.pace import GRID_S, until
from support.metadata_server import Asked, MetadataServer, Told

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.notices.services import Service
    from linkhold.model import Notice

NOTICE = '{"action": "terminate", "time": "2026-12-01T08:22:00Z"}'
FREEZE = {
    "EventId": "e1",
    "EventType": "Preempt",
    "EventStatus": "Scheduled",
    "Resources": ["vm-3"],
    "NotBefore": "Tue, 01 Dec 2026 08:20:30 GMT",
}


class Watch:
    """A poller against a server of a test's own, and the notices that follow."""

    def __init__(self, service: Service, answer: Callable[[Asked], Told]) -> None:
        self.service, self.server = quick(service), MetadataServer(answer)
        self.memory = Memory()
        self.polled: list[Polled] = []
        self.fresh: list[Notice] = []
        self.withdrawn: list[Notice] = []

    def take(self, polled: Polled) -> None:
        """Take a judged answer in."""
        outcome = step(self.memory, polled, Moment(time.monotonic_ns(), time.time()))
        self.memory = outcome.memory
        self.polled.append(polled)
        self.fresh += outcome.fresh
        self.withdrawn += outcome.withdrawn

    def until(self, check: Callable[[], object]) -> CloudNotices:
        """Poll until ``check`` is true, for 5 s at most."""

        async def play() -> CloudNotices:
            async with self.server:
                sensor = CloudNotices(self.service, address="127.0.0.1", port=self.server.port)
                task = asyncio.create_task(sensor.run(self.take))
                end = time.monotonic() + 5
                while not check():
                    assert time.monotonic() < end, self.polled[-3:]
                    await asyncio.sleep(0.005)
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            return sensor

        return asyncio.run(play())


def quick(service: Service) -> Service:
    """Return the service with short waits."""
    endpoints = tuple(
        replace(one, every_s=0.03, timeout_s=0.3, first_timeout_s=min(one.first_timeout_s, 1.0))
        for one in service.endpoints
    )
    return replace(service, endpoints=endpoints)


def only(service: Service, name: str) -> Service:
    """Return the service with one endpoint."""
    return replace(service, endpoints=tuple(e for e in service.endpoints if name in e.name))


def test_aws_tokens_are_renewed_when_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first token is refused for ever: a second is made at once, and the notice is heard.

    A proxy of the environment is not used.
    """
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    tokens: list[str] = []

    def answer(asked: Asked) -> Told:
        if asked.method == "PUT":
            assert asked.headers["x-aws-ec2-metadata-token-ttl-seconds"] == "21600"
            tokens.append(f"token{len(tokens)}")
            return Told(body=tokens[-1])
        if asked.headers.get("x-aws-ec2-metadata-token") != "token1":
            return Told(401)
        return Told(body=NOTICE) if "instance-action" in asked.path else Told(404)

    watch = Watch(only(SERVICES["aws"], "spot"), answer)
    sensor = watch.until(lambda: watch.fresh)

    assert len(watch.polled) == 2
    assert tokens == ["token0", "token1"]
    assert sensor.counters["cloud_tokens"] == 1
    deadline = watch.fresh[0].deadline
    assert deadline is not None
    assert 118 < deadline.mono_ns / 1e9 - time.monotonic() < 121


def test_aws_all_endpoints_are_asked_and_odd_answers_change_nothing() -> None:
    """404, a page, a redirect, 5xx, silence and cut-off JSON pass by; the notice comes and goes."""
    story = [
        Told(404),
        Told(200, "<html>login</html>"),
        Told(302, headers={"Location": "http://login.example.net/"}),
        Told(503),
        Told(200, NOTICE[:20]),
        Told(404, hang_s=0.4),
        Told(200, NOTICE),
        Told(200, "<html>login</html>"),
        Told(200, NOTICE),
        Told(404),
    ]
    spot = iter(story)

    def answer(asked: Asked) -> Told:
        if asked.method == "PUT":
            return Told(body="t")
        if "instance-action" in asked.path:
            return next(spot, Told(404))
        return Told(200, "[]") if "scheduled" in asked.path else Told(404)

    watch = Watch(SERVICES["aws"], answer)
    watch.until(lambda: watch.withdrawn)

    assert [n.action for n in watch.fresh] == ["terminate"]
    assert len(watch.withdrawn) == 1
    assert {p.endpoint for p in watch.polled} == {"aws spot", "aws rebalance", "aws scheduled"}
    odd = [p for p in watch.polled if p.judged.known is not Known.YES]
    assert len(odd) == 6
    assert all("login.example.net" not in asked.path for asked in watch.server.asked)


def test_google_answers_when_something_changes() -> None:
    """With the etag of the last answer the service holds the next one back until it changes."""

    def answer(asked: Asked) -> Told:
        assert asked.headers["metadata-flavor"] == "Google"
        assert asked.headers["host"] == "metadata.google.internal"
        told = {"Metadata-Flavor": "Google", "ETag": "abc1"}
        if "last_etag=abc1" in asked.path:
            assert "wait_for_change=true" in asked.path
            return Told(body="TRUE", headers=told | {"ETag": "abc2"}, hang_s=0.5)
        return Told(body="FALSE", headers=told, hang_s=10 if "abc2" in asked.path else 0)

    watch = Watch(only(SERVICES["gcp"], "preempted"), answer)
    watch.until(lambda: watch.fresh)

    assert [p.judged.known for p in watch.polled] == [Known.YES, Known.YES]
    assert watch.fresh[0].action == "preempt"


def test_google_is_not_believed_without_its_header() -> None:
    """A server that says TRUE without Metadata-Flavor is another one: unknown, no notice."""
    watch = Watch(only(SERVICES["gcp"], "preempted"), lambda _: Told(body="TRUE"))
    watch.until(lambda: watch.memory.blind)

    assert watch.fresh == []


def test_azure_is_slow_at_first_and_never_acknowledged() -> None:
    """A slow first call is waited for; events of others pass; nothing is ever posted."""
    calls: list[str] = []

    def answer(asked: Asked) -> Told:
        assert asked.headers["metadata"] == "true"
        if "instance/compute?" in asked.path:
            return Told(body='{"name": "vm-3", "priority": "Spot"}')
        calls.append(asked.path)
        other = {**FREEZE, "EventId": "e0", "Resources": ["vm-17"]}
        events = [other] if len(calls) < 3 else [other, FREEZE]
        return Told(body=json.dumps({"Events": events}), hang_s=0.6 if len(calls) == 1 else 0)

    watch = Watch(SERVICES["azure"], answer)
    watch.until(lambda: watch.fresh and len(watch.polled) > 3)

    assert [n.action for n in watch.fresh] == ["preempt"]
    assert all(p.judged.known is Known.YES for p in watch.polled)
    assert watch.polled[1].judged.announced  # the second of three calm answers was none of news
    assert {asked.method for asked in watch.server.asked} == {"GET"}


@pytest.mark.parametrize(
    ("vendor", "body"), [("alibaba", "2026-12-01T08:22:00Z"), ("tencent", "2026-12-01 16:22:00")]
)
def test_alibaba_and_tencent_name_a_date(vendor: str, body: str) -> None:
    """Both dates are the same moment, 120 s ahead; a service without tokens is asked without."""

    def answer(asked: Asked) -> Told:
        return Told(404) if asked.method == "PUT" else Told(body=body)

    watch = Watch(only(SERVICES[vendor], "spot"), answer)
    watch.until(lambda: watch.fresh)

    deadline = watch.fresh[0].deadline
    assert deadline is not None
    assert 118 < deadline.mono_ns / 1e9 - time.monotonic() < 121


HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    ("raw", "known"),
    [
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\n[ \n\r\n1\r\n]\r\n0\r\n\r\n", Known.YES),
        (HEAD + b"\r\n[]", Known.YES),
        (HEAD + b"Content-Length: 99\r\n\r\n[]", Known.UNKNOWN),
        (HEAD + b"Content-Length: 99999999\r\n\r\n[]", Known.UNKNOWN),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", Known.UNKNOWN),
        (HEAD + b"a: b\r\n" * 500 + b"\r\n", Known.UNKNOWN),
        (HEAD + b"a: " + b"b" * 100_000, Known.UNKNOWN),
        (b"ICY 200 OK\r\n\r\n[]", Known.UNKNOWN),
        (b"\x16\x03\x01\x00\x00", Known.UNKNOWN),
    ],
)
def test_http_that_is_none(raw: bytes, known: Known) -> None:
    """Chunks and bodies without a length are read; what is no whole answer is unknown."""
    watch = Watch(
        only(SERVICES["aws"], "scheduled"),
        lambda asked: Told(body="t") if asked.method == "PUT" else Told(raw=raw),
    )
    watch.until(lambda: watch.polled)

    assert watch.polled[0].judged.known is known


def test_odd_answers_are_asked_again_at_once_then_more_slowly() -> None:
    """At once after the first, never rarer than every 30 s, or the interval if that is longer."""
    spot, scheduled = SERVICES["aws"].endpoints[0], SERVICES["aws"].endpoints[2]

    waits = [wait_s(spot, odd, token_refused=False) for odd in range(7)]
    assert waits == [5.0, 0.2, 5.0, 10.0, 20.0, 30.0, 30.0]
    assert wait_s(spot, 1, token_refused=True) == 0.0
    assert wait_s(scheduled, 9, token_refused=False) == 60.0


def test_azure_is_asked_each_second_where_it_may_preempt() -> None:
    """A spot machine, and one of which nothing is known, each second; any other every 5 s."""
    events = SERVICES["azure"].endpoints[0]

    waits = [wait_s(events, 0, token_refused=False, spot=spot) for spot in (True, None, False)]
    assert waits == [1.0, 1.0, 5.0]
    assert wait_s(SERVICES["aws"].endpoints[0], 0, token_refused=False, spot=False) == 5.0
    assert machine('{"name": "vm-1", "priority": "Regular"}') == ("vm-1", False)
    assert machine('{"name": "vm-1", "priority": ""}') == ("vm-1", None)
    assert machine("<html>") == ("", None)


@given(st.binary(max_size=300), st.integers(0, 300), st.booleans())
def test_any_bytes_are_an_answer_or_none(data: bytes, cut: int, ended: bool) -> None:  # noqa: FBT001
    """Whatever comes, in whatever pieces: an answer, a ValueError, or a wait for more."""
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n"
    for text in (data, whole[:cut], whole[:cut] + data):
        with contextlib.suppress(ValueError):
            found = answer_in(text, ended=ended)
            assert found is None or 0 < found[1] <= len(text)
            assert found is not None or not ended
    assert answer_in(whole, ended=False) is not None


@given(st.floats(0.01, 60), st.floats(0, 1e6), st.floats(0, GRID_S))
def test_pauses_end_on_the_grid_and_are_never_longer(
    seconds: float, now_s: float, phase_s: float
) -> None:
    """A poll comes at its interval or less than half a second before it, in step with others."""
    slept_s = until(seconds, now_s, phase_s)

    assert slept_s <= seconds + 1e-4
    if seconds > GRID_S:
        assert slept_s > seconds - GRID_S - 1e-4
        points = (now_s + slept_s - phase_s) / GRID_S
        assert abs(points - round(points)) < 1e-3
