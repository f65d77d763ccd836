"""zigbee2mqtt: <base>/<name> with the plug's state, .../availability, and <base>/bridge/..."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linkhold.decide.power.meaning import Meaning, Watched, What, meaning, worst
from linkhold.decide.power.words import (
    NOTHING,
    ignored,
    is_broken,
    mains,
    mains_volts,
    measured,
    nothing,
    outlet,
    parsed,
    status_of_sensor,
    truth,
    word,
)
from linkhold.model import Severity

MAINS_KEYS = ("mains", "mains_present", "ac_status", "power_supply", "ac_connected")


def zigbee2mqtt(topic: list[str], text: str, watched: Watched) -> Meaning:
    """Return what a message of zigbee2mqtt means."""
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    bridge = topic[-2:] == ["bridge", "state"]
    if topic[-1] == "availability" or bridge:
        said = value.get("state") if isinstance(value, dict) else value
        return status_of_sensor(said, "the bridge" if bridge else "availability")
    if "bridge" in topic[:-1]:
        return ignored("the bridge speaks of itself")
    if isinstance(value, dict):
        return _device(value, watched)
    if _is_relay(topic[-1]) or topic[-1] in MAINS_KEYS:  # mqtt.output: attribute
        return _device({topic[-1]: value}, watched)
    return ignored("no JSON object where one is due")


def _device(document: dict[str, Any], watched: Watched) -> Meaning:
    volts = mains_volts(document.get("voltage"))
    relays = {key: said for key, said in document.items() if _is_relay(key)}
    found = [
        outlet(on, f"the relay {key}", channel=key.partition("_")[2], volts=volts)
        for key, said in relays.items()
        if (on := truth(said)) is not None
    ]
    found += [
        mains(truth(document[key]), key, document[key]) for key in MAINS_KEYS if key in document
    ]
    if told := worst(found, watched):
        return told
    if any(word(said) in NOTHING for said in relays.values()):
        return meaning(What.UNKNOWN, "the plug's state is null", Severity.INFO)
    if volts is None:
        return nothing("neither relay nor voltage in it")
    usual = meaning(What.OK, f"the meter has {volts:g} V", volts=volts)
    return replace(measured(volts) or usual, volts=volts)


def _is_relay(key: str) -> bool:
    return key == "state" or key.startswith("state_")
