"""Payloads of the same kinds as the recorded ones: other versions, types, spellings and dates."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.decide.notices import dates
from linkhold.decide.payloads import explain_row

EC2 = "http://169.254.169.254/latest/meta-data"
SPOT = EC2 + "/spot/instance-action"
GCP = "http://metadata.google.internal/computeMetadata/v1/instance"
AZURE = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"
ALIBABA = "http://100.100.100.200/latest/maintenance/active-system-events"
PLAN = '{"upcomingMaintenance":{"maintenanceStatus":"PENDING"}}'
WRAPPED = '{"Set":{"Type":[{"EventId":"e","EventType":{"Name":"SystemMaintenance.Stop"}}]}}'

MESSAGES = [
    ("nut-status", "nut/ups", 'VAR ups ups.status "OB DISCHRG"', "power_lost"),
    ("nut-status", "nut/ups", "ups.status: OL", "power_ok"),
    ("nut-status", "nut/ups", "OL CHRG\0", "power_ok"),
    ("nut-status", "nut/ups/battery.charge", "97", "none"),
    ("nut-status", "nut/ups/ups.model", "Smart-UPS OB", "none"),
    ("nut-status", "nut/ups", {"battery.charge": 97}, "none"),
    ("nut-status", "nut/ups", {"data": {"ups.status": "OB LB"}}, "power_low"),
    ("nut-status", "nut/ups", {"ups.status": ["OL", "CHRG"]}, "power_ok"),
    ("nut-status", "nut/ups", {"ups.status": None}, "unknown"),
    ("nut-status", "nut/ups", '{"ups.status": "O', "ignored"),
    ("apcupsd-status", "apcupsd/LINEV", "230.0 Volts", "none"),
    ("apcupsd-status", "apcupsd", {"STATUS": "ONBATT", "BCHARGE": "9 Percent"}, "power_lost"),
    ("tasmota", "stat/p/SWITCH1", {"STATE": "OFF"}, "power_lost"),
    ("tasmota", "stat/p/POWER", {"POWER": "OFF"}, "outlet_off"),
    ("tasmota", "stat/p/STATUS0", {"StatusSNS": {}, "StatusSTS": {"POWER": "ON"}}, "power_ok"),
    ("tasmota", "tele/p/SENSOR", {"ENERGY": {"Voltage": [0, 231]}}, "power_ok"),
    ("tasmota", "tele/p/SENSOR", {"ENERGY": {"Voltage": 0.2}}, "none"),
    ("esphome", "r/binary_sensor/wifi_fault/state", "ON", "ignored"),
    ("esphome", "r/binary_sensor/power_button/state", "OFF", "ignored"),
    ("esphome", "r/binary_sensor/battery_ok/state", "OFF", "ignored"),
    ("esphome", "r/binary_sensor/outage/state", "ON", "power_lost"),
    ("shelly-gen2", "s/status/em:0", {"a_voltage": 0.1, "b_voltage": 230}, "power_degraded"),
    ("shelly-gen2", "s/status/pm1:0", {"voltage": 0.1}, "none"),
    ("zigbee2mqtt", "zigbee2mqtt/p/state", "OFF", "outlet_off"),
    ("zigbee2mqtt", "zigbee2mqtt/p/set/state", "OFF", "ignored"),
    ("mqtt-trap", "power/rack1/mains", 0, "power_lost"),
    ("mqtt-trap", "power/rack1/mains", True, "power_ok"),
    ("mqtt-trap", "power/rack1/mains", {"value": 0, "ts": 3}, "power_lost"),
    ("mqtt-trap", "power/rack1", [{"mains": False}], "power_lost"),
    ("mqtt-trap", "power/rack1", {"feeds": [{"mains": 1}, {"mains": 0}]}, "power_degraded"),
    ("mqtt-trap", "power/rack1", {"mains": None}, "unknown"),
    ("mqtt-trap", "power/rack1", {"battery_ok": False, "mains": True}, "power_ok"),
    ("mqtt-trap", "power/rack1/voltage", "230.4", "power_ok"),
    ("mqtt-trap", "power/rack1/rssi", "0", "none"),
]
NOTICES: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("aws", SPOT, '{"Action":"STOP"}', {"event": "spot_interruption", "action": "stop"}),
    ("gcp", GCP + "/preempted?alt=json", '"TRUE"', {"event": "spot_interruption"}),
    ("gcp", GCP + "/maintenance-event", '"NONE"', {"event": "none"}),
    ("gcp", GCP + "/upcoming-maintenance", PLAN, {"event": "maintenance_scheduled"}),
    ("azure", AZURE, '\ufeff{"events":[]}', {"event": "none"}),
    ("azure", AZURE, '{"Events":[{"EventType":"Freeze","DurationInSeconds":"9"}]}',
     {"action": "freeze", "duration_s": 9}),
    ("azure", AZURE, '{"Events":[{"EventType":"Reboot","EventStatus":"Started"}]}',
     {"action": "reboot", "seconds_left": 0}),
    ("alibaba", ALIBABA, '{"events":[]}', {"event": "none"}),
    ("alibaba", ALIBABA, '{"hello":1}', {"event": "unknown"}),
    ("alibaba", ALIBABA, WRAPPED, {"action": "stop", "severity": "critical"}),
    ("alibaba", ALIBABA, '[{"EventId":"e","EventCycleStatus":{"Name":"Canceled"}}]',
     {"event": "maintenance_cleared"}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "topic", "body", "event"), MESSAGES)
def test_messages(kind: str, topic: str, body: object, event: str) -> None:
    """What a version or bridge writes otherwise means the same; other variables are no status."""
    assert explain_row({"kind": kind, "topic_or_url": topic, "body": body})["event"] == event


@pytest.mark.parametrize(("kind", "url", "body", "wanted"), NOTICES)
def test_notices(kind: str, url: str, body: str, wanted: dict[str, Any]) -> None:
    """Names in any case, quotes, wrappers and a byte order mark change no meaning."""
    told = explain_row({"kind": kind, "topic_or_url": url, "status": "200", "body": body})

    assert {key: told.get(key) for key in wanted} == wanted


def test_on_line_after_an_outage_is_its_end() -> None:
    """``previous_body`` makes the edge: OL after OB restores, OL after OL is only fine."""
    row = {"kind": "nut-status", "topic_or_url": "nut/ups", "body": "OL CHRG"}

    assert explain_row({**row, "previous_body": "OB LB"})["event"] == "power_restored"
    assert explain_row({**row, "previous_body": "OL"})["event"] == "power_ok"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2027-01-15t08:00:00z", "2027-01-15T08:00:00Z"),
        ("2027/01/15 08:00:00,5 GMT", "2027-01-15T08:00:00Z"),
        ("2027-01-15T08:00:00+0000", "2027-01-15T08:00:00Z"),
        ("Fri, 15 Jan 2027 09:00:00 +0100", "2027-01-15T08:00:00Z"),
        (1_800_000_000, "2027-01-15T08:00:00Z"),
        ("1800000000000", "2027-01-15T08:00:00Z"),
        ("2027-01-01T00:00:00+99:99", None),
        ("2027-02-31T00:00:00Z", None),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-12:00", None),
        (True, None),
    ],
)
def test_dates(text: object, shown: str | None) -> None:
    """Dates of any vendor and version are read; impossible ones are none, and raise nothing."""
    found = dates.seconds(text)

    assert (None if found is None else dates.rfc3339(found)) == shown


@given(st.from_regex(dates._ISO, fullmatch=True) | st.from_regex(dates._HTTP, fullmatch=True))
def test_what_looks_like_a_date_never_raises(text: str) -> None:
    """Every date that is read can be shown again."""
    found = dates.seconds(text)

    assert found is None or dates.rfc3339(found)
