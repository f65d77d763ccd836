"""What clouds and power sensors say, and lines of what they said."""

from __future__ import annotations

import contextlib
import json
from functools import partial
from typing import TYPE_CHECKING

from fuzz import right
from fuzz.target import Target
from linkhold.decide import metadata, notices
from linkhold.decide import payloads as rows
from linkhold.decide.notices.values import Odd
from linkhold.decide.power import messages, reports
from linkhold.decide.power.generic import Mapping as PowerMapping
from linkhold.model.power_sources import Dialect, SensorMessage

if TYPE_CHECKING:
    from collections.abc import Sequence


NOTICES = {
    "aws": b'{"action":"terminate","time":"2026-11-29T03:02:00Z"}',
    "azure": (
        b'{"DocumentIncarnation":2,"Events":[{"EventId":"A-1","EventType":"Preempt",'
        b'"ResourceType":"VirtualMachine","Resources":["vm1"],"EventStatus":"Scheduled",'
        b'"NotBefore":"Mon, 29 Nov 2026 03:02:00 GMT",'
        b'"Description":"x","EventSource":"Platform","DurationInSeconds":-1}]}'
    ),
    "gcp": b"TERMINATE_ON_HOST_MAINTENANCE",
    "alibaba": (
        b'[{"EventId":"e-1","EventType":"SystemMaintenance.Reboot","EventStatus":"Scheduled",'
        b'"NotBefore":"2026-11-29T03:02:00Z"}]'
    ),
    "tencent": b'{"action":"terminate","time":"2026-11-29 03:02:00"}',
}


PATHS = {
    "aws": (
        "spot/instance-action",
        "events/maintenance/scheduled",
        "events/recommendations/rebalance",
    ),
    "azure": ("metadata/scheduledevents",),
    "gcp": ("instance/maintenance-event", "instance/preempted", "instance/upcoming-maintenance"),
    "alibaba": ("instance/spot/termination-time", "instance/events"),
    "tencent": ("spot/termination-time", "events"),
}


def notice(vendor: str, data: bytes) -> None:
    """Judge a body as the answer of each endpoint of a cloud."""
    body = data.decode("utf-8", "replace")
    for path in PATHS[vendor]:
        for status, headers in ((200, {"Date": body[:40], "ETag": "x"}), (404, None), (503, {})):
            url = f"http://169.254.169.254/latest/meta-data/{path}"
            answer = notices.Answer(url, status, body, headers, this_vm="vm1")
            right.judged(notices.judge(vendor, answer))


def identity(data: bytes) -> None:
    """Judge a body as what names this machine at each cloud, and as a token."""
    body = data.decode("utf-8", "replace")
    for service in metadata.SERVICES:
        found = metadata.judge(service.vendor, 200, {"metadata-flavor": "Google"}, body)
        assert len(found[1]) < right.MOST_TEXT
        with contextlib.suppress(Odd):
            metadata.token_of(service, 200, body)


POWER = {
    Dialect.GENERIC: (b'{"data":{"mains":true}}', b"ON", b'[{"state":"OFF"}]'),
    Dialect.TASMOTA: (
        b'{"Time":"2020-09-20T09:41:28","Switch1":"ON"}',
        b'{"StatusSNS":{"Switch1":"OFF"}}',
    ),
    Dialect.ESPHOME: (b"ON", b"OFF"),
    Dialect.SHELLY_GEN1: (b"1", b"on", b'{"relays":[{"ison":true}]}'),
    Dialect.SHELLY_GEN2: (
        b'{"src":"s","method":"NotifyStatus","params":{"ts":1631266595.43,"input:0":{"id":0,"state":false}}}',
        b'{"id":0,"output":true,"apower":3.1,"voltage":229.8}',
    ),
    Dialect.ZIGBEE2MQTT: (b'{"state":"ON","power":12,"voltage":231}', b'{"state":"online"}'),
    Dialect.APCUPSD_STATUS: (b"ONLINE", b'{"STATUS":"ONBATT LOWBATT"}'),
    Dialect.APCUPSD_EVENT: (b"onbattery", b"offbattery"),
    Dialect.APCUPSD_TEXT: (b"STATUS   : ONLINE\nBCHARGE  : 100.0 Percent\n",),
    Dialect.NUT_STATUS: (b"OL CHRG", b"OB LB", b'{"ups.status":"OB"}'),
    Dialect.NUT_NOTIFY: (b"UPS ups@h on battery", b"ONBATT"),
}


TOPICS = (
    *("stat/d/RESULT", "tele/d/SENSOR", "stat/d/POWER1", "d/binary_sensor/mains/state", "d/status"),
    *("shellies/x/input/0", "s/events/rpc", "s/status/switch:0", "zigbee2mqtt/p", "ups/STATUS", ""),
)


MAPPINGS = (
    None,
    PowerMapping(path="data.mains"),
    PowerMapping(path="0.state", true=("ON",), false=("OFF",), invert=True),
    PowerMapping(pattern=r"mains=(\w+)"),
)


def power_message(dialect: Dialect, data: bytes) -> None:
    """Judge a payload on each kind of topic."""
    for topic in TOPICS:
        for retained in (False, True):
            message = SensorMessage(topic, data, retained)
            for mapping in MAPPINGS if dialect is Dialect.GENERIC else (None,):
                right.said(reports.of_message("s", dialect, message, mapping))
                messages.judge(dialect, message, mapping)
            right.said(reports.of_status("s", message))


def explained() -> Sequence[bytes]:
    """Return rows for ``linkhold explain payload``."""
    azure = str(NOTICES["azure"], "ascii")
    url = "http://169.254.169.254/metadata/scheduledevents"
    asked = {"status": 200, "response_headers": {"Date": "x"}, "this_vm": "vm1"}
    ups = {"body": "OB LB", "previous_body": "OL", "charge": 80}
    made = [
        {"kind": "tasmota", "topic_or_url": "stat/d/POWER", "body": "OFF", "retain": True},
        {"kind": "nut-status", "topic_or_url": "ups", "id": "x", **ups},
        {"kind": "azure", "topic_or_url": url, "body": azure, **asked},
        {"kind": "mqtt-trap", "topic_or_url": "a", "body": r"\x00\xff", "body_is": "hex"},
    ]
    return [json.dumps(row).encode() for row in made]


def explain(data: bytes) -> None:
    """Explain a line of recorded payloads, and print what is made of it."""
    from linkhold.cli import explain_payload

    told = rows.explain_row(explain_payload._row(data.decode("utf-8", "backslashreplace")))
    json.dumps(told)
    explain_payload._sentence(1, told).encode()


def power_targets() -> tuple[Target, ...]:
    """Return a target for each dialect of power sensors."""
    reads = ("decide/power/messages.py", "decide/power/words.py", "decide/power/reports.py")
    return tuple(
        Target(
            f"a power sensor, {dialect.value}",
            reads,
            partial(power_message, dialect),
            partial(tuple, samples),
            json=True,
        )
        for dialect, samples in POWER.items()
    )


def notice_targets() -> tuple[Target, ...]:
    """Return a target for the notices of each cloud."""
    reads = ("decide/notices/reading.py",)
    return tuple(
        Target(
            f"notices of {vendor}",
            reads,
            partial(notice, vendor),
            partial(tuple, [body]),
            json=True,
        )
        for vendor, body in NOTICES.items()
    )


def identities() -> Sequence[bytes]:
    """Return what names machines at clouds."""
    named = [b"i-0123456789abcdef0", b"1234567890", b'{"uuid":"x","id":12}']
    return [*named, b'["token-12345678"]', b'{"id":"%s"}' % (b"x" * 6000)]
