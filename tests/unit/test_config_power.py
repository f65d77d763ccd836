"""The sections ``power:`` and ``notices:``: what they accept, and what they say about mistakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from linkhold.config import Settings, load
from linkhold.config.power import Cloud, SensorSettings, UpsSettings, Watch
from linkhold.model import ConfigError
from linkhold.model.power_sources import Dialect

if TYPE_CHECKING:
    from pathlib import Path

UPS = "{name: a, ups: u}"
ESP = "name: s, broker: {host: b}, topics: [t]"
MISTAKES = [
    ("nut: [{ups: u}]", "power.nut[0].name: is missing; allowed: text that is not empty"),
    ("nut: [{name: a}]", "power.nut[0].ups: is missing"),
    ("nut: [{name: a, ups: 'u u'}]", "'u u' holds a space, a quote or a backslash; allowed: print"),
    (f"nut: [{UPS}, {UPS}]", "power.nut[1].name: 'a' is given twice; allowed: a name once; see po"),
    ("nut: [{name: kernel, ups: u}]", "power.nut[0].name: 'kernel' is the kernel's own view"),
    ("nut: [{name: a, ups: u, user: x}]", "power.nut[0].user: given without password_file"),
    ("nut: [{name: a, ups: u, password_file: /p}]", "power.nut[0].password_file: given without us"),
    ("nut: [{name: a, ups: u, login: true}]", "power.nut[0].login: upsd takes a login of users"),
    ("nut: [{name: a, ups: u, tls: {cert: /c}}]", "power.nut[0].tls.cert: given without key"),
    (
        f"{{supplies_needed: 2, nut: [{UPS}]}}",
        "power.supplies_needed: 2 are needed of 1; allowed: ",
    ),
    (
        f"{{sensors_needed: 3, mqtt: [{{{ESP}}}]}}",
        "power.sensors_needed: 3 are needed of 1; allowed: 2 to as many; see power.mqtt",
    ),
    ("sensors_needed: 1", "power.sensors_needed: 1 is too small; allowed: 2 to 64"),
    (
        "mqtt: [{name: s, topics: [t]}]",
        "power.mqtt[0].broker: no broker is given, and mqtt.fleet is empty; allowed: one of both",
    ),
    ("mqtt: [{name: s, broker: {host: b}}]", "power.mqtt[0].topics: is missing"),
    ("mqtt: [{name: s, broker: {host: b}, topics: [a#]}]", "'a#' is no topic to listen to; allow"),
    ("mqtt: [{name: s, broker: {host: b}, topics: ['#/a']}]", "'#/a' is no topic to listen to"),
    ("mqtt: [{name: s, broker: {host: b}, topics: [$SYS/x]}]", "'$SYS/x' is no topic to listen to"),
    ("mqtt: [{name: s, broker: {host: b}, topics: [cmnd/p/POWER]}]", "'cmnd/p/POWER' is no topic"),
    (
        "mqtt: [{name: s, broker: {host: b}, topics: [zigbee2mqtt/p/set]}]",
        "is no topic to listen t",
    ),
    (
        f"mqtt: [{{{ESP}, dialect: tasmote}}]",
        "'tasmote' is unknown (did you mean tasmota?); allowed",
    ),
    (
        f"mqtt: [{{{ESP}, dialect: tasmota, path: a}}]",
        "power.mqtt[0].path: tasmota has its own wor",
    ),
    (f"mqtt: [{{{ESP}, watch: input}}]", "power.mqtt[0].watch: generic has no inputs and outlets"),
    (
        f"mqtt: [{{{ESP}, path: a, pattern: b}}]",
        "power.mqtt[0].pattern: path and pattern are given",
    ),
    (f"mqtt: [{{{ESP}, pattern: '(a'}}]", "power.mqtt[0].pattern: '(a' is none: missing ), unterm"),
    (f"mqtt: [{{{ESP}, present: [yes]}}]", "yes means a yes/no value in YAML; put it in quotes"),
    (f"mqtt: [{{{ESP}, present: [A], absent: [a]}}]", "power.mqtt[0].absent: 'a' means both; allo"),
    (f"mqtt: [{{{ESP}, status_topic: t}}]", "power.mqtt[0].status_topic: 't' is a topic of mains"),
    (
        "mqtt: [{name: s, topics: [t], broker: {host: b, password_file: /p}}]",
        "power.mqtt[0].broker.password_file: given without username",
    ),
]


def read(path: Path, section: str) -> Settings:
    """Return the settings of a file with this section ``power:``."""
    path.write_text(f"power: {section}\n" if section[0] == "{" else f"power: {{{section}}}\n")
    return load(path)


@pytest.mark.parametrize(("section", "message"), MISTAKES)
def test_mistakes_say_where_what_and_what_is_allowed(
    tmp_path: Path, section: str, message: str
) -> None:
    """Each mistake of the section has its own message, with its line."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / "c.yaml", section)

    assert len(caught.value.mistakes) == 1
    assert message in caught.value.mistakes[0]
    assert caught.value.mistakes[0].startswith(f"{tmp_path}/c.yaml:1: ")


def test_files_that_power_names_are_looked_at(tmp_path: Path) -> None:
    """``linkhold check`` says which password and certificate of a source cannot be read."""
    path = tmp_path / "c.yaml"
    path.write_text(
        "power:\n"
        "  nut: [{name: a, ups: u, user: x, password_file: /nowhere/a, tls: {ca: /nowhere/b}}]\n"
        "  mqtt: [{name: s, topics: [t], broker: {host: b, tls: {ca: /nowhere/c}}}]\n"
    )

    with pytest.raises(ConfigError) as caught:
        load(path, files=True)

    found = [mistake.removeprefix(f"{path}:") for mistake in caught.value.mistakes]
    assert found == [
        "2: power.nut[0].tls.ca: /nowhere/b does not exist",
        "2: power.nut[0].password_file: /nowhere/a does not exist",
        "3: power.mqtt[0].broker.tls.ca: /nowhere/c does not exist",
    ]


def test_what_is_right_is_read(tmp_path: Path) -> None:
    """UPSes, sensors of two dialects and the fleet's broker are read as they are written."""
    text = (
        "mqtt: {fleet: [{host: f}]}\n"
        "notices: {cloud: never, logind: false}\n"
        "power:\n"
        "  supplies_needed: 2\n"
        "  poll: 1s\n"
        "  nut: [{name: a, ups: u1, host: '2001:db8::1'}, {name: b, ups: u2}]\n"
        "  mqtt:\n"
        "  - {name: plug, topics: [tele/p/+, stat/p/+], dialect: tasmota, watch: outlet}\n"
        "  - {name: esp, topics: [m], present: ['1'], invert: true, max_age: 90s}\n"
    )
    path = tmp_path / "c.yaml"
    path.write_text(text)
    got = load(path)

    assert got.power.nut[0] == UpsSettings("a", host="2001:db8::1", ups="u1")
    plug, esp = got.power.mqtt
    assert (plug.dialect, plug.watch, plug.broker) == (Dialect.TASMOTA, Watch.OUTLET, None)
    assert esp == SensorSettings("esp", ("m",), present=("1",), invert=True, max_age=90.0)
    assert (got.notices.cloud, got.notices.logind) == (Cloud.NEVER, False)
