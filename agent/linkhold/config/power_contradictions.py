"""Entries of ``power:`` that make no sense together, or with the rest of the file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from linkhold.config.finding import Finding
from linkhold.config.power import SensorSettings, Watch
from linkhold.config.schema import shown
from linkhold.model.power_sources import Dialect

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.config.brokers import BrokerSettings, TlsSettings
    from linkhold.config.power import PowerSettings, UpsSettings
    from linkhold.config.schema import Key
    from linkhold.config.settings import Settings

KERNEL = "kernel"
FEEDS = "feeds"
"""The name of the kernel's own view among the sources."""
GENERIC_KEYS = ("status_topic", "path", "pattern", "present", "absent", "invert")
SEVERAL = frozenset(
    {Dialect.TASMOTA, Dialect.SHELLY_GEN1, Dialect.SHELLY_GEN2, Dialect.ZIGBEE2MQTT}
)
"""Dialects of devices that may have several inputs and outlets."""
MAX_PATTERN = 200


def power_contradictions(settings: Settings) -> Iterator[Finding]:
    """Yield every setting of the power sources that disagrees with another one."""
    power = settings.power
    yield from _names(power)
    yield from _counts(power)
    for number, ups in enumerate(power.nut):
        yield from _ups(ups, ("power", "nut", number))
    for number, sensor in enumerate(power.mqtt):
        at: Key = ("power", "mqtt", number)
        yield from _sensor(sensor, at)
        if sensor.broker is not None:
            yield from credentials(sensor.broker, (*at, "broker"))
        elif not settings.mqtt.fleet:
            text = "no broker is given, and mqtt.fleet is empty; allowed: one of both"
            yield Finding((*at, "broker"), text, ("mqtt", "fleet"))


def credentials(broker: BrokerSettings, at: Key) -> Iterator[Finding]:
    """Yield what does not go together in how a broker is logged in to."""
    if broker.password_file and not broker.username:
        text = "given without username; allowed: both, neither or username alone"
        yield Finding((*at, "password_file"), text, (*at, "username"))
    yield from _pair(broker.tls, at)


def _pair(tls: TlsSettings | None, at: Key) -> Iterator[Finding]:
    if tls is None:
        return
    for one, other in (("cert", "key"), ("key", "cert")):
        if getattr(tls, one) and not getattr(tls, other):
            text = f"given without {other}; allowed: both or neither"
            yield Finding((*at, "tls", one), text, (*at, "tls", other))


def _names(power: PowerSettings) -> Iterator[Finding]:
    first: dict[str, Key] = {}
    named: list[tuple[Key, str]] = [
        *((("power", "nut", number), one.name) for number, one in enumerate(power.nut)),
        *((("power", "mqtt", number), one.name) for number, one in enumerate(power.mqtt)),
    ]
    for key, name in named:
        if name in {KERNEL, FEEDS}:
            text = f"{shown(name)} is the kernel's own view; allowed: another name"
            yield Finding((*key, "name"), text)
        before = first.setdefault(name, key)
        if before != key:
            text = f"{shown(name)} is given twice; allowed: a name once"
            yield Finding((*key, "name"), text, (*before, "name"))


def _counts(power: PowerSettings) -> Iterator[Finding]:
    most = max(1, len(power.nut))
    if power.supplies_needed > most:
        text = f"{power.supplies_needed} are needed of {len(power.nut)}; allowed: 1 to {most}"
        yield Finding(("power", "supplies_needed"), text, ("power", "nut"))
    if power.mqtt and power.sensors_needed > max(2, len(power.mqtt)):
        text = f"{power.sensors_needed} are needed of {len(power.mqtt)}; allowed: 2 to as many"
        yield Finding(("power", "sensors_needed"), text, ("power", "mqtt"))


def _ups(ups: UpsSettings, at: Key) -> Iterator[Finding]:
    if ups.password_file and not ups.user:
        text = "given without user; allowed: both or neither"
        yield Finding((*at, "password_file"), text, (*at, "user"))
    if ups.user and not ups.password_file:
        text = "given without password_file; allowed: both or neither (upsd wants both)"
        yield Finding((*at, "user"), text, (*at, "password_file"))
    if ups.login and not ups.user:
        text = "upsd takes a login of users only; allowed: true together with user"
        yield Finding((*at, "login"), text, (*at, "user"))
    yield from _pair(ups.tls, at)


def _sensor(sensor: SensorSettings, at: Key) -> Iterator[Finding]:
    if sensor.dialect is Dialect.GENERIC:
        yield from _mapping(sensor, at)
    else:
        usual = SensorSettings()
        for key in GENERIC_KEYS:
            if getattr(sensor, key) != getattr(usual, key):
                text = f"{sensor.dialect.value} has its own words; allowed: with dialect generic"
                yield Finding((*at, key), text, (*at, "dialect"))
    if sensor.dialect not in SEVERAL:
        names = ", ".join(sorted(one.value for one in SEVERAL))
        for key, given in (("watch", sensor.watch is not Watch.ANY), ("channel", sensor.channel)):
            if given:
                text = f"{sensor.dialect.value} has no inputs and outlets; allowed: with {names}"
                yield Finding((*at, key), text, (*at, "dialect"))


def _mapping(sensor: SensorSettings, at: Key) -> Iterator[Finding]:
    if sensor.path and sensor.pattern:
        text = "path and pattern are given; allowed: one of them, or none for the whole payload"
        yield Finding((*at, "pattern"), text, (*at, "path"))
    if problem := _pattern_problem(sensor.pattern):
        yield Finding((*at, "pattern"), f"{problem}; allowed: a regular expression of Python")
    present = {word.lower() for word in sensor.present}
    for word in sensor.absent:
        if word.lower() in present:
            text = f"{shown(word)} means both; allowed: in one of both lists"
            yield Finding((*at, "absent"), text, (*at, "present"))
    if sensor.status_topic in sensor.topics:
        text = f"{shown(sensor.status_topic)} is a topic of mains too; allowed: another one"
        yield Finding((*at, "status_topic"), text, (*at, "topics"))


def _pattern_problem(pattern: str) -> str:
    if len(pattern) > MAX_PATTERN:
        return f"is longer than {MAX_PATTERN} characters"
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{shown(pattern)} is none: {error}"
    return ""
