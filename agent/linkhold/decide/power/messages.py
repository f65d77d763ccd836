"""One MQTT message of a power sensor: which dialect it is in, and what must not be read at all."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from linkhold.decide.power import announcements, esphome, generic, shelly, tasmota, tokens, zigbee
from linkhold.decide.power.meaning import ANYTHING, Meaning, Watched, retained
from linkhold.decide.power.words import ignored, nothing, parsed

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.model.power_sources import SensorMessage

STATUS_KEYS = ("ups.status", "ups_status", "status", "STATUS", "Status")
"""Where bridges of NUT and apcupsd put the status when they send all variables as one JSON."""
MAX_BYTES = 65_536
"""No word on power is longer; a firmware image on a wildcard topic is."""
COMMAND_LEVELS = frozenset({"cmnd", "cmd", "command", "set", "get"})


class Dialect(str, Enum):
    """The makes of sensors whose messages are known."""

    TASMOTA = "tasmota"
    ESPHOME = "esphome"
    SHELLY_GEN1 = "shelly-gen1"
    SHELLY_GEN2 = "shelly-gen2"
    ZIGBEE2MQTT = "zigbee2mqtt"
    APCUPSD_STATUS = "apcupsd-status"
    APCUPSD_EVENT = "apcupsd-event"
    APCUPSD_TEXT = "apcupsd-text"
    NUT_STATUS = "nut-status"
    NUT_NOTIFY = "nut-notify"
    GENERIC = "generic"


_BY_TOPIC: dict[Dialect, Callable[[list[str], str, Watched], Meaning]] = {
    Dialect.TASMOTA: tasmota.tasmota,
    Dialect.ESPHOME: esphome.esphome,
    Dialect.SHELLY_GEN1: shelly.gen1,
    Dialect.SHELLY_GEN2: shelly.gen2,
    Dialect.ZIGBEE2MQTT: zigbee.zigbee2mqtt,
}
_BY_TEXT: dict[Dialect, Callable[[str], Meaning]] = {
    Dialect.APCUPSD_STATUS: tokens.apcupsd_status,
    Dialect.APCUPSD_EVENT: announcements.apcupsd_event,
    Dialect.APCUPSD_TEXT: announcements.apcupsd_text,
    Dialect.NUT_STATUS: tokens.nut_status,
    Dialect.NUT_NOTIFY: announcements.upsmon,
}


def judge(
    dialect: Dialect,
    message: SensorMessage,
    mapping: generic.Mapping | None = None,
    watched: Watched = ANYTHING,
) -> Meaning:
    """Return what a message means in ``dialect``. Never raises, whatever the bytes are.

    A generic message without ``mapping`` is judged by names, for people who ask; ``watched`` says
    which input or outlet of a device with several counts.
    """
    levels = [level for level in message.topic.split("/") if level] or [""]
    if is_command(message.topic):
        return ignored("a topic of commands: it says what somebody wants, not what is")
    if message.topic.startswith("$"):
        return ignored("a topic of the broker itself")
    if len(message.payload) > MAX_BYTES:
        return ignored(f"longer than {MAX_BYTES} bytes")
    try:
        text = message.payload.decode()
    except UnicodeDecodeError:
        return ignored("no valid UTF-8")
    found = _judge_text(dialect, levels, text.removeprefix("\ufeff"), mapping, watched)
    return retained(found) if message.retained else found


def is_command(topic: str) -> bool:
    """Tell whether a topic carries commands.

    One that is retained there switches the outlet each time the device connects
    (arendst/Tasmota#890): worth telling the owner.
    """
    levels = topic.lower().split("/")
    return levels[-1] in COMMAND_LEVELS or bool({"cmnd", "command"} & set(levels))


def _judge_text(
    dialect: Dialect,
    levels: list[str],
    text: str,
    mapping: generic.Mapping | None,
    watched: Watched,
) -> Meaning:
    if dialect in _BY_TEXT:
        return _BY_TEXT[dialect](_status_in(text))
    if not text.strip():
        return ignored("empty: the topic was cleared")
    if dialect in _BY_TOPIC:
        found = _BY_TOPIC[dialect](levels, text, watched)
        return found if watched.admits(found) else nothing("it is not of what is watched")
    return generic.guessed(levels, text) if mapping is None else generic.mapped(mapping, text)


def _status_in(text: str) -> str:
    """Return the status in the JSON of a bridge; every other text as it is."""
    value = parsed(text)
    if not isinstance(value, dict):
        return text
    inner = value.get("ups", value)
    document = inner if isinstance(inner, dict) else value
    return next((str(document[key]) for key in STATUS_KEYS if key in document), "")
