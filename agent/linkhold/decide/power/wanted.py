"""The sources that the configuration names, as the power machine and its parsers want them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.config.power import Watch
from linkhold.config.power_contradictions import FEEDS, KERNEL
from linkhold.decide.power.generic import Mapping
from linkhold.decide.power.meaning import Watched
from linkhold.decide.power.reports import of_message, of_status
from linkhold.decide.power.values import Rules, SourceRules
from linkhold.model.power_sources import Dialect, SourceKind

if TYPE_CHECKING:
    from linkhold.config.power import PowerSettings, SensorSettings
    from linkhold.decide.power.values import Said
    from linkhold.model.power_sources import SensorMessage

POLLS = 5
UPS_LEAST_S = 15.0
"""A UPS is silent after so many polls, and never sooner than this."""
KERNEL_MAX_AGE_S = 100.0
"""The kernel's files are read every 30 s."""
SENSOR_DEBOUNCE_S = 1.0
FOR_EVER_S = 10 * 365 * 86400.0


def rules(power: PowerSettings, mains_back_s: float, *, kernel: bool, feeds: bool = False) -> Rules:
    """Return the rules of the machine.

    ``kernel``: the kernel knows a supply of this machine; ``feeds``: it shows the feeds of PSUs.
    """
    ups_s = max(UPS_LEAST_S, POLLS * power.poll)
    sources = [SourceRules(one.name, SourceKind.UPS, ups_s) for one in power.nut]
    if kernel:
        sources.append(SourceRules(KERNEL, SourceKind.SUPPLY, KERNEL_MAX_AGE_S))
    if feeds:
        sources.append(SourceRules(FEEDS, SourceKind.FEEDS, KERNEL_MAX_AGE_S))
    sources += [
        SourceRules(
            one.name, SourceKind.SENSOR, one.max_age or FOR_EVER_S, debounce_s=SENSOR_DEBOUNCE_S
        )
        for one in power.mqtt
    ]
    return Rules(
        tuple(sources),
        supplies_needed=power.supplies_needed,
        sensors_needed=power.sensors_needed,
        mains_back_s=mains_back_s,
    )


def said(sensor: SensorSettings, message: SensorMessage) -> Said:
    """Return what a message on one of a sensor's topics, or on that of its will, says."""
    if sensor.status_topic and message.topic == sensor.status_topic:
        return of_status(sensor.name, message)
    mapping = None
    if sensor.dialect is Dialect.GENERIC:
        mapping = Mapping(
            sensor.path, sensor.pattern, sensor.present, sensor.absent, invert=sensor.invert
        )
    watched = Watched("" if sensor.watch is Watch.ANY else sensor.watch.value, sensor.channel)
    return of_message(sensor.name, sensor.dialect, message, mapping, watched)


def matches(pattern: str, topic: str) -> bool:
    """Tell whether a topic filter covers ``topic`` (MQTT v5, 4.7.1)."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if levels[0].startswith("$") and wanted[0] in {"+", "#"}:
        return False
    if wanted[-1] == "#":
        wanted, levels = wanted[:-1], levels[: len(wanted) - 1]
    return len(wanted) == len(levels) and all(
        one in {"+", level} for one, level in zip(wanted, levels, strict=True)
    )
