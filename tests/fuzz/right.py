"""What a result must be, whatever came in: its types, its ranges, and that a person can read it."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import math
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from linkhold.mqtt import Acknowledged, Connected, Lost, Received, Subscribed
from linkhold.sensors import cloud_http
from linkhold.wire import is_topic_safe
from linkhold.wire.maintenance import MOST_S

if TYPE_CHECKING:
    from linkhold.client.spool.manifest import Manifest
    from linkhold.decide.notices.values import Judged
    from linkhold.decide.power.values import Said
    from linkhold.legs.fleet_diagnose import DiagnoseRequest
    from linkhold.model.keepalive import Connection
    from linkhold.model.kernel_log import Record
    from linkhold.model.power_sources import UpsReport
    from linkhold.mqtt import Notice
    from linkhold.sensors.reach.dns_message import Reply
    from linkhold.sensors.reach.http_message import Response
    from linkhold.store.outbox import ReplayRequest

MOST_TEXT = 5000
"""Of words that a state or an alert repeats: a line of upsd, which is the longest, and a little."""


def words(error: Exception) -> None:
    """Check that an error says something; one of time need not."""
    assert str(error).strip() or isinstance(error, asyncio.TimeoutError)


def notice(one: Notice) -> None:
    """Check what a connection tells."""
    assert isinstance(one, (Acknowledged, Connected, Lost, Received, Subscribed))
    if isinstance(one, Received):
        assert isinstance(one.payload, bytes)
        assert one.expiry_s is None or 0 <= one.expiry_s < 1 << 32
    if isinstance(one, Lost):
        assert one.reason.strip()


def ups(report: UpsReport) -> None:
    """Check what upsd says of a UPS."""
    for figure in (report.charge, report.charge_low, report.runtime_s):
        assert figure is None or (math.isfinite(figure) and figure >= 0)
    assert len(report.status) + len(report.error) < MOST_TEXT


def said(one: Said) -> None:
    """Check what a source of power is taken to say."""
    found = one.meaning
    assert found.why.strip()
    assert len(found.why) + len(found.reason) + len(" ".join(found.tokens)) < MOST_TEXT
    assert found.volts is None or math.isfinite(found.volts)


def response(one: Response) -> Response:
    """Check an answer of HTTP."""
    assert 100 <= one.status < 600
    assert len(one.body) <= cloud_http.MAX_BODY_BYTES
    assert all(name == name.lower() for name in one.headers)
    return one


def judged(one: Judged) -> None:
    """Check what a cloud is taken to announce."""
    assert one.why.strip()
    assert len(one.why) < MOST_TEXT
    for announced in one.announced:
        assert len(repr(announced)) < MOST_TEXT


def reply(one: Reply) -> None:
    """Check an answer of DNS."""
    assert len(one.addresses) <= 64
    for address in one.addresses:
        ipaddress.ip_address(address)


def record(one: Record | None) -> None:
    """Check a record of the kernel's log."""
    if one is not None:
        assert 0 <= one.level < 8
        assert "\n" not in one.text


def connection(one: Connection) -> None:
    """Check a socket that inet_diag lists."""
    for address, port in ((one.local, one.local_port), (one.remote, one.remote_port)):
        ipaddress.ip_address(address)
        assert 0 <= port < 1 << 16


def manifest(one: Manifest | None) -> None:
    """Check that a manifest leads nowhere outside of its entry."""
    if one is None:
        return
    for name in (one.base, *(file.path for file in one.files)):
        assert not PurePosixPath(name).is_absolute()
        assert ".." not in PurePosixPath(name).parts


def replay(one: ReplayRequest) -> None:
    """Check a request for events."""
    assert 0 < len(one.request) <= 64
    assert one.request.isascii()
    assert 1 <= one.limit <= 1000


def diagnosis(one: DiagnoseRequest) -> None:
    """Check a request for a diagnosis: its id becomes a level of a topic."""
    assert is_topic_safe(one.id)


def maintenance(one: tuple[str, float, str, str]) -> None:
    """Check announced work."""
    identity, for_s, why, by = one
    assert is_topic_safe(identity)
    assert 0 <= for_s <= MOST_S
    assert why.isprintable()
    assert by.isprintable()


def answers(text: bytes) -> None:
    """Check what the control socket said: lines of JSON, each granted or refused with a reason."""
    assert not text or text.endswith(b"\n")
    for line in text.splitlines():
        answer: dict[str, Any] = json.loads(line)
        assert answer.get("ok") in {True, False, None}
        assert answer.get("ok") is not False or answer["error"].strip()
