"""One MQTT message of a power sensor: which dialect it is in, and what must not be read at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from linkhold.decide.json_values import number
from linkhold.decide.power import announcements, esphome, generic, shelly, tasmota, tokens, zigbee
from linkhold.decide.power.meaning import ANYTHING, Meaning, Watched, retained
from linkhold.decide.power.words import ignored, is_broken, nothing, parsed, snake
from linkhold.model.power_sources import Dialect

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.model.power_sources import SensorMessage

STATUS_KEYS = ("ups_status", "status")
"""Where bridges of NUT and apcupsd put the status when they send all variables as one JSON."""
WRAPPED = 4
MAX_BYTES = 65_536
"""No word on power is longer; a firmware image on a wildcard topic is."""
COMMAND_LEVELS = frozenset({"cmnd", "cmd", "command", "set", "get"})


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
    return bool(COMMAND_LEVELS & set(levels[-2:]) or {"cmnd", "command"} & set(levels))


def _judge_text(
    dialect: Dialect,
    levels: list[str],
    text: str,
    mapping: generic.Mapping | None,
    watched: Watched,
) -> Meaning:
    if dialect in _BY_TEXT:
        return _judge_words(dialect, levels[-1], text)
    if not text.strip():
        return ignored("empty: the topic was cleared")
    if dialect in _BY_TOPIC:
        found = _BY_TOPIC[dialect](levels, text, watched)
        return found if watched.admits(found) else nothing("it is not of what is watched")
    return generic.guessed(levels, text) if mapping is None else generic.mapped(mapping, text)


def _judge_words(dialect: Dialect, level: str, text: str) -> Meaning:
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    if dialect in _OF_STATUS and (number(value) is not None or _is_variable(level)):
        return nothing(f"{level[:40]} is a figure or a variable, no status")
    if not isinstance(value, dict):
        return _BY_TEXT[dialect](text)
    said = _status_in(value)
    if said is None:
        return nothing("no status in it: what is not told is unchanged")
    return _BY_TEXT[dialect](" ".join(map(str, said)) if isinstance(said, list) else str(said))


_OF_STATUS = frozenset({Dialect.NUT_STATUS, Dialect.APCUPSD_STATUS})


def _is_variable(level: str) -> bool:
    """Tell whether a topic's last level names something else than the status.

    NUT's variables have a dot (battery.charge), those of apcaccess are in capitals (LINEV).
    """
    other = snake(level) not in STATUS_KEYS
    return other and ("." in level or (level.isupper() and len(level) > SHORT_NAME))


SHORT_NAME = 3
"""UPS, APC: names of devices, not of variables."""


def _status_in(document: dict[str, Any], depth: int = 0) -> Any:
    """Return the status in the JSON of a bridge, in itself or in an object in it; None for none."""
    for key, value in document.items():
        if snake(key) in STATUS_KEYS and not isinstance(value, dict):
            return "" if value is None else value
    inner = (value for value in document.values() if isinstance(value, dict))
    found = (_status_in(value, depth + 1) for value in inner if depth < WRAPPED)
    return next((said for said in found if said is not None), None)
