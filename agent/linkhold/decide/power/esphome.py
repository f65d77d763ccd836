"""ESPHome: <name>/<component>/<object_id>/state, and <name>/status."""

from __future__ import annotations

from linkhold.decide.power.meaning import Meaning, Watched, What, meaning
from linkhold.decide.power.words import (
    INVERSE_NAMES,
    MAINS_NAMES,
    MAX_VOLTS,
    ignored,
    mains,
    measured,
    nothing,
    number,
    outlet,
    snake,
    status_of_sensor,
    truth,
)

ENTITY_LEVELS = 4
RELAYS = frozenset({"switch", "light", "output"})


def esphome(topic: list[str], text: str, _watched: Watched) -> Meaning:
    """Return what a message of an ESPHome device means."""
    if topic[-1] == "status" and len(topic) < ENTITY_LEVELS:
        return status_of_sensor(text, "the device's will")
    if topic[-1] != "state" or len(topic) < ENTITY_LEVELS:
        return ignored(f"{topic[-1]} is no topic of states")
    component, name = topic[-3], snake(topic[-2])
    if component == "binary_sensor":
        return _binary(name, text)
    if component in RELAYS:
        on = truth(text)
        return ignored("neither on nor off") if on is None else outlet(on, f"the switch {name}")
    if component == "sensor":
        return _measured(name, text)
    return ignored(f"a {component} tells nothing of power")


def _binary(name: str, text: str) -> Meaning:
    inverse = bool(INVERSE_NAMES.search(name))
    if not inverse and not MAINS_NAMES.search(name) and "present" not in name:
        return ignored(f"{name} is no name of a mains sensor")
    return mains(truth(text), f"the sensor {name}", text, inverse=inverse)


def _measured(name: str, text: str) -> Meaning:
    if "volt" not in name or "bat" in name:
        return nothing(f"{name} is no voltage of mains")
    volts = number(text)
    if volts is None:
        return mains(None, f"the meter {name}", text)
    if not 0 <= volts < MAX_VOLTS:
        return ignored(f"{volts:g} is no voltage of mains")
    if volts < 1:
        return meaning(What.LOST, f"the meter {name} has no voltage", volts=volts)
    return measured(volts) or meaning(What.OK, f"the meter has {volts:g} V", volts=volts)
