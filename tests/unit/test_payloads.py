"""What payloads of power sensors and clouds mean, beyond the recorded ones."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold import cli
from linkhold.decide.payloads import KINDS, explain_row
from linkhold.decide.power.generic import Mapping
from linkhold.decide.power.meaning import Watched, What
from linkhold.decide.power.messages import judge
from linkhold.model import LinkholdError
from linkhold.model.power_sources import Dialect, SensorMessage

EC2 = "http://169.254.169.254/latest/meta-data"
GCP = "http://metadata.google.internal/computeMetadata/v1/instance"
AZURE = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

ALIBABA = "http://100.100.100.200/latest"
TENCENT = "http://metadata.tencentyun.com/latest/meta-data/spot/termination-time"

SPOT = EC2 + "/spot/instance-action"
SCHEDULED = EC2 + "/events/maintenance/scheduled"
MIGRATE = "MIGRATE_ON_HOST_MAINTENANCE"
MELT = '{"Events":[{"EventType":"Melt","Resources":["a"]}]}'

MESSAGES = [
    ("nut-status", "nut/ups", "OL LB", "power_degraded"),
    ("nut-status", "nut/ups", "OB LB", "power_low"),
    ("nut-status", "nut/ups", "ALARM OL CHRG", "power_degraded"),
    ("nut-status", "nut/ups", "OL OVER", "power_degraded"),
    ("nut-status", "nut/ups", "OL CAL DISCHRG", "calibration"),
    ("nut-status", "nut/ups", "OFF", "power_degraded"),
    ("nut-status", "nut/ups", "FSD OB LB", "power_shutdown"),
    ("nut-status", "nut/ups", "ERR DRIVER-NOT-CONNECTED", "power_comm_lost"),
    ("nut-status", "nut/ups", "ERR ACCESS-DENIED", "unknown"),
    ("nut-status", "nut/ups", '{"ups.status": "OB DISCHRG"}', "power_lost"),
    ("nut-notify", "nut/notify", "UPS a@b on line power", "power_restored"),
    ("nut-notify", "nut/notify", "UPS a@b battery is low", "power_low"),
    ("nut-notify", "nut/notify", "UPS a@b: no longer on bypass", "power_ok"),
    ("nut-notify", "nut/notify", "NOTCAL", "power_ok"),
    ("apcupsd-status", "apc", "ONBATT LOWBATT ", "power_low"),
    ("apcupsd-status", "apc", "STATUS   : COMMLOST ", "power_comm_lost"),
    ("apcupsd-status", "apc", "ONLINE OVERLOAD ", "power_degraded"),
    ("apcupsd-event", "apc", "mainsback ups1 1 1", "power_restored"),
    ("apcupsd-text", "apc", "Battery power exhaused on UPS a. Doing shutdown.", "power_low"),
    ("apcupsd-text", "apc", "Communciations restored with UPS a", "power_comm_ok"),
    ("tasmota", "plug/tele/LWT", "Online", "none"),
    ("tasmota", "plug/stat/RESULT", '{"Switch1":{"Action":"OFF"}}', "power_lost"),
    ("tasmota", "stat/p/STATUS10", '{"StatusSNS":{"Switch1":"ON"}}', "power_ok"),
    ("tasmota", "stat/p/STATUS11", '{"StatusSTS":{"POWER2":"OFF"}}', "outlet_off"),
    ("tasmota", "tele/p/SENSOR", '{"ENERGY":{"Voltage":160}}', "power_degraded"),
    ("tasmota", "tele/p/INFO1", '{"Module":"x"}', "ignored"),
    ("esphome", "r/status", "offline", "sensor_offline"),
    ("esphome", "r/binary_sensor/on_battery/state", "ON", "power_lost"),
    ("esphome", "r/binary_sensor/door/state", "OFF", "ignored"),
    ("esphome", "r/sensor/mains_voltage/state", "0.0", "power_lost"),
    ("esphome", "r/sensor/mains_voltage/state", "nan", "unknown"),
    ("esphome", "r/switch/outlet/state", "OFF", "outlet_off"),
    ("esphome", "r/switch/outlet/command", "OFF", "ignored"),
    ("shelly-gen1", "shellies/p/online", "false", "sensor_offline"),
    ("shelly-gen1", "shellies/p/input/0", "0", "power_lost"),
    ("shelly-gen1", "shellies/p/relay/0/power", "0", "none"),
    ("shelly-gen2", "p/online", "false", "sensor_offline"),
    (
        "shelly-gen2",
        "p/events/rpc",
        '{"method":"NotifyStatus","params":{"input:0":{"id":0,"state":false}}}',
        "power_lost",
    ),
    ("shelly-gen2", "p/rpc", '{"method":"Switch.Set","params":{"id":0,"on":false}}', "ignored"),
    ("shelly-gen2", "p/status/input:0", '{"id":0,"state":null}', "unknown"),
    ("zigbee2mqtt", "zigbee2mqtt/p/availability", '{"state":"offline"}', "sensor_offline"),
    ("zigbee2mqtt", "zigbee2mqtt/bridge/log", '{"state":"OFF"}', "ignored"),
    ("zigbee2mqtt", "zigbee2mqtt/p", '{"voltage":3000,"battery":80}', "none"),
    ("mqtt-trap", "power/rack1/power", "0", "none"),
    ("mqtt-trap", "site/door", "OFF", "ignored"),
    ("mqtt-trap", "power/rack1/state", "perhaps", "unknown"),
    ("mqtt-trap", "power/rack1/outage", "true", "power_lost"),
    ("mqtt-trap", "power/rack1/state", "[" * 100_000, "ignored"),
    ("mqtt-trap", "power/rack1/set", "OFF", "ignored"),
]
NOTICES = [
    ("aws", SPOT, 404, "", "none"),
    ("aws", SPOT, 401, "", "unknown"),
    ("aws", SPOT, None, None, "unknown"),
    ("aws", SPOT, 200, "", "unknown"),
    ("aws", SPOT, 200, '{"action":"stop","time":"x"}', "spot_interruption"),
    ("aws", EC2 + "/spot/termination-time", 200, "<html>", "unknown"),
    ("aws", SCHEDULED, 200, '{"a":1}', "unknown"),
    ("aws", SCHEDULED, 200, "[1,2]", "unknown"),
    ("gcp", GCP + "/maintenance-event", 200, MIGRATE, "maintenance_scheduled"),
    ("gcp", GCP + "/preempted", 200, "hello", "unknown"),
    ("gcp", GCP + "/preempted", 503, "", "unknown"),
    ("azure", AZURE, 200, '{"Events":null}', "unknown"),
    ("azure", AZURE, 410, "", "unknown"),
    ("azure", AZURE, 200, MELT, "maintenance_scheduled"),
    ("alibaba", ALIBABA + "/meta-data/instance/spot/termination-time", 200, "soon", "unknown"),
    ("alibaba", ALIBABA + "/maintenance/active-system-events", 200, "[]", "none"),
    ("tencent", TENCENT, 404, "", "none"),
    ("odd", "http://192.0.2.1/", 200, "hello", "unknown"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "topic", "body", "event"), MESSAGES)
def test_messages(kind: str, topic: str, body: str, event: str) -> None:
    """Words are judged by meaning and by their dialect; nothing else is read as an outage."""
    row = {"kind": kind, "topic_or_url": topic, "body": body, "status": None}

    assert explain_row(row)["event"] == event


@pytest.mark.parametrize(("kind", "url", "status", "body", "event"), NOTICES)
def test_notices(kind: str, url: str, status: int | None, body: str | None, event: str) -> None:
    """404 is calm; what is odd is unknown, and then the state before is to be kept."""
    told = explain_row({"kind": kind, "topic_or_url": url, "status": status, "body": body})

    assert told["event"] == event
    assert told.get("keep_previous_state", False) is (event == "unknown")


def test_another_server_is_not_believed() -> None:
    """Without Metadata-Flavor a server that says TRUE, or nothing at all, is not Google's."""
    row = {"kind": "gcp", "topic_or_url": GCP + "/preempted", "body": "TRUE"}

    for status in (200, 404):
        told = explain_row({**row, "status": status, "response_headers": {"Server": "nginx"}})
        assert told["event"] == "unknown"

    flavoured = {**row, "status": 200, "response_headers": {"metadata-flavor": "Google"}}
    assert explain_row(flavoured)["event"] == "spot_interruption"


def test_what_is_retained_shuts_nothing_down() -> None:
    """A retained outage is a state of unknown age: a warning; a live one is critical."""
    row = {"kind": "nut-status", "topic_or_url": "nut/ups", "body": "OB LB"}

    assert explain_row({**row, "retain": True})["severity"] == "warning"
    assert explain_row({**row, "retain": False})["severity"] == "critical"


def test_a_full_ups_that_claims_low_battery_is_named() -> None:
    """LB at 97 % stays power_low, and the text says what contradicts it (R46)."""
    row = {"kind": "nut-status", "topic_or_url": "nut/ups", "body": "OB LB", "charge": 97}
    told = explain_row(row)

    assert told["event"] == "power_low"
    assert "97 %" in told["why"]


@pytest.mark.parametrize(
    ("mapping", "payload", "what"),
    [
        (Mapping(path="data.mains.present"), b'{"data":{"mains":{"present":false}}}', What.LOST),
        (Mapping(path="inputs.1"), b'{"inputs":[0,1]}', What.OK),
        (Mapping(path="data.none"), b'{"data":{}}', What.IGNORED),
        (Mapping(pattern=r"grid=(\w+)"), b"t=3 grid=off", What.LOST),
        (Mapping(pattern=r"grid=(\w+)"), b"t=3", What.IGNORED),
        (Mapping(true=("netz",), false=("akku",)), b"AKKU", What.LOST),
        (Mapping(true=("netz",), false=("akku",)), b"on", What.UNKNOWN),
        (Mapping(invert=True), b"1", What.LOST),
        (Mapping(), b"null", What.UNKNOWN),
    ],
)
def test_generic_sensors(mapping: Mapping, payload: bytes, what: What) -> None:
    """A path, a pattern, words and inversion say where and what the value is."""
    message = SensorMessage("any/topic", payload)

    assert judge(Dialect.GENERIC, message, mapping).what is what


PLUG = b'{"POWER":"ON","Switch1":"OFF","Switch2":"ON","ENERGY":{"Voltage":0}}'


@pytest.mark.parametrize(
    ("dialect", "topic", "payload", "watched", "what"),
    [
        (Dialect.TASMOTA, "tele/p/SENSOR", PLUG, Watched("input", "1"), What.LOST),
        (Dialect.TASMOTA, "tele/p/SENSOR", PLUG, Watched("input", "2"), What.OK),
        (Dialect.TASMOTA, "tele/p/SENSOR", PLUG, Watched("outlet"), What.OK),
        (Dialect.TASMOTA, "stat/p/POWER", b"ON", Watched("input", "1"), What.NONE),
        (Dialect.SHELLY_GEN2, "p/status/switch:0", b'{"output":true}', Watched("input"), What.NONE),
        (Dialect.SHELLY_GEN1, "shellies/p/relay/0", b"off", Watched("outlet", "1"), What.NONE),
        (
            Dialect.ZIGBEE2MQTT,
            "zigbee2mqtt/p",
            b'{"state_left":"ON","state_right":"OFF"}',
            Watched("outlet", "left"),
            What.OK,
        ),
    ],
)
def test_one_input_or_outlet_of_several(
    dialect: Dialect, topic: str, payload: bytes, watched: Watched, what: What
) -> None:
    """A device with several answers for the watched one alone: a relay is no witness of mains."""
    assert judge(dialect, SensorMessage(topic, payload), watched=watched).what is what


@given(st.sampled_from(Dialect), st.text(max_size=60), st.binary(max_size=200), st.booleans())
def test_no_bytes_raise(dialect: Dialect, topic: str, payload: bytes, retained: bool) -> None:  # noqa: FBT001
    """Whatever comes on whatever topic gets a meaning."""
    assert judge(dialect, SensorMessage(topic, payload, retained)).why


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["Events", "state", "voltage", "ENERGY", "POWER", "switch:0", "output",
                         "Code", "action", "time", "Resources", "EventType", "NotBefore"]),
        inner,
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip


@given(
    st.sampled_from(KINDS),
    st.sampled_from(
        [
            "tele/x/SENSOR",
            "p/status/switch:0",
            "zigbee2mqtt/p",
            EC2 + "/spot/instance-action",
            EC2 + "/events/maintenance/scheduled",
            GCP + "/upcoming-maintenance",
            AZURE,
            "http://100.100.100.200/latest/maintenance/active-system-events",
        ]
    ),
    JSON,
)
def test_no_document_raises(kind: str, topic: str, document: Any) -> None:
    """JSON of any shape where another is due gets an event."""
    row = {"kind": kind, "topic_or_url": topic, "status": 200, "body": json.dumps(document)}

    assert explain_row({**row, "id": 1})["event"]


def test_the_command_reads_lines_and_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good lines are told, bad ones named with their number and what is allowed; exit code 1."""
    good = json.dumps({"id": "a", "kind": "nut-status", "topic_or_url": "t", "body": "OB"})
    monkeypatch.setattr("sys.stdin", io.StringIO(f'{good}\n\n{{\n{{"kind": "tea"}}\n'))

    assert cli.main(["explain", "payload", "--json"]) == 1

    out, err = capsys.readouterr()
    assert json.loads(out)["event"] == "power_lost"
    assert "line 3: no JSON" in err
    assert "line 4: kind: 'tea' is not one of" in err


def test_people_get_a_sentence_that_steers_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without --json a line says severity, event and rule; escapes of the payload are shown."""
    row = {"kind": "nut-status", "topic_or_url": "t", "body": "\x1b[2J", "id": "x\x1b"}
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(row)))

    assert cli.main(["explain", "payload"]) == 0

    out = capsys.readouterr().out
    assert "warning unknown" in out
    assert "\x1b" not in out


def test_a_row_of_another_kind_is_refused() -> None:
    """A kind that nobody knows is an error that lists the known ones."""
    with pytest.raises(LinkholdError, match="is not one of"):
        explain_row({"kind": "tea"})
