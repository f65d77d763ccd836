"""From what sensors report to what the power machine hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.power.meaning import ANYTHING, Watched, What, meaning
from linkhold.decide.power.messages import MAX_BYTES, is_command, judge
from linkhold.decide.power.tokens import nut_status
from linkhold.decide.power.values import Said
from linkhold.decide.power.words import status_of_sensor

if TYPE_CHECKING:
    from linkhold.decide.power.generic import Mapping
    from linkhold.decide.power.meaning import Meaning
    from linkhold.model.power_sources import Dialect, SensorMessage, Supply, UpsReport

EMPTY_PERCENT = 5.0
"""A battery of this machine below it is low, where the kernel gives no level."""
BATTERIES = frozenset({"Battery", "UPS"})
DRAINING = frozenset({"Discharging"})


def of_ups(source: str, report: UpsReport) -> Said:
    """Return what a poll of upsd says."""
    if report.error:
        found = nut_status(f"ERR {report.error}")
        if found.what is What.UNKNOWN:
            found = meaning(What.COMM_LOST, f"upsd tells nothing of it: {report.error}")
        return Said(source, found)
    found = nut_status(report.status)
    return Said(source, found, report.charge, report.charge_low, report.runtime_s)


def of_message(
    source: str,
    dialect: Dialect,
    message: SensorMessage,
    mapping: Mapping | None = None,
    watched: Watched = ANYTHING,
) -> Said:
    """Return what an MQTT message of a configured sensor says."""
    found = judge(dialect, message, mapping, watched)
    if found.what is What.IGNORED and message.retained and is_command(message.topic):
        reason = f"a command is retained on {message.topic}: it switches at each reconnect"
        found = meaning(What.IGNORED, found.why, reason=reason)
    return Said(source, found, retained=message.retained)


def of_status(source: str, message: SensorMessage) -> Said:
    """Return what a message on the topic of a sensor's will says: whether it lives."""
    text = message.payload[:MAX_BYTES].decode("utf-8", "replace")
    found = status_of_sensor(text, "its will")
    return Said(source, found, retained=message.retained)


def of_supplies(source: str, supplies: tuple[Supply, ...]) -> Said:
    """Return what the kernel's own supplies say together; batteries of mice do not count."""
    ours = [supply for supply in supplies if supply.scope != "Device"]
    mains = [supply for supply in ours if supply.kind == "Mains" and supply.online is not None]
    batteries = [supply for supply in ours if supply.kind in BATTERIES]
    draining = [supply for supply in batteries if supply.status in DRAINING]
    charge = min((b.capacity for b in batteries if b.capacity is not None), default=None)
    runtime_s = max((b.runtime_s for b in draining if b.runtime_s is not None), default=None)
    found = _of_supplies(mains, batteries, draining)
    return Said(source, found, charge=charge, runtime_s=runtime_s)


def _of_supplies(mains: list[Supply], batteries: list[Supply], draining: list[Supply]) -> Meaning:
    fed, unfed = [s.name for s in mains if s.online], [s.name for s in mains if not s.online]
    if fed and unfed:
        reason = f"feed lost: {', '.join(unfed)}"
        return meaning(What.DEGRADED, f"{', '.join(fed)} carries alone", reason=reason)
    if fed:
        return meaning(What.OK, f"{', '.join(fed)} has mains")
    if draining and all(_is_empty(battery) for battery in draining):
        return meaning(What.LOW, "no mains, and the battery is nearly empty")
    if draining or (unfed and batteries):
        return meaning(What.LOST, "no mains: the battery carries this machine")
    if batteries and not mains and all(b.status in {"Full", "Charging"} for b in batteries):
        return meaning(What.OK, "the battery is not drained")
    return meaning(What.UNKNOWN, "the kernel knows no supply that says whether mains are there")


def _is_empty(battery: Supply) -> bool:
    if battery.capacity_level:
        return battery.capacity_level == "Critical"
    return battery.capacity is not None and battery.capacity <= EMPTY_PERCENT
