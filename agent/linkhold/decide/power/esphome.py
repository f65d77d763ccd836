"""ESPHome: <name>/<component>/<object_id>/state, and <name>/status."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.power.words import (
    ignored,
    is_inverse,
    mains,
    metered,
    outlet,
    snake,
    status_of_sensor,
    truth,
)

if TYPE_CHECKING:
    from linkhold.decide.power.meaning import Meaning, Watched

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
        return metered(name, text)
    return ignored(f"a {component} tells nothing of power")


def _binary(name: str, text: str) -> Meaning:
    inverse = is_inverse(name)
    if inverse is None:
        return ignored(f"{name} is no name of a mains sensor")
    return mains(truth(text), f"the sensor {name}", text, inverse=inverse)
