"""Tasmota: tele/, stat/ and cmnd/, in the order of any FullTopic."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.power.meaning import ANYTHING, Meaning, Watched, What, meaning, worst
from linkhold.decide.power.words import (
    contact,
    ignored,
    is_broken,
    mains_volts,
    measured,
    nothing,
    number,
    outlet,
    parsed,
    status_of_sensor,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_RELAY = re.compile(r"^POWER(\d*)$")
_SWITCH = re.compile(r"^Switch(\d+)$")
READ = re.compile(r"^(?:STATE|SENSOR|RESULT|STATUS(?:8|10|11)|POWER\d*)$")


def tasmota(topic: list[str], text: str, watched: Watched) -> Meaning:
    """Return what a message of a Tasmota device means."""
    last = topic[-1].upper()
    if last == "LWT":
        return status_of_sensor(text, "the device's will")
    if not READ.match(last):
        return ignored(f"{topic[-1]} is no topic of power")
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    if relay := _RELAY.match(last):
        on = truth(value)
        return ignored("the relay is neither on nor off") if on is None else _relay(relay, on)
    if not isinstance(value, dict):
        return ignored("no JSON object where one is due")
    return _document(value, watched)


def _document(document: dict[str, Any], watched: Watched) -> Meaning:
    inner = next((document[k] for k in ("StatusSNS", "StatusSTS") if k in document), document)
    if not isinstance(inner, dict):
        return ignored("no JSON object where one is due")
    relays = [found for key, value in inner.items() if (found := _said_relay(key, value))]
    meter = inner.get("ENERGY")
    meters = [_energy(meter)] if isinstance(meter, dict) else []
    switches = list(_switches(inner))
    # Nobody says which one counts: a plug's own relay, its meter, then what hangs on it.
    told = [*relays, *meters, *switches] if watched != ANYTHING else relays or meters or switches
    return worst(told, watched) or nothing("no relay, switch or meter of ours in it")


def _relay(relay: re.Match[str], on: bool) -> Meaning:  # noqa: FBT001 -- one of two states
    return outlet(on, f"the relay POWER{relay[1]}", channel=relay[1])


def _said_relay(key: str, value: object) -> Meaning | None:
    relay, on = _RELAY.match(key), truth(value)
    return None if relay is None or on is None else _relay(relay, on)


def _energy(energy: dict[str, Any]) -> Meaning:
    """Judge a meter: zero volts are told by a meter behind an open relay, so they prove nothing."""
    volts = mains_volts(_first(energy.get("Voltage")))
    if volts is None:
        if number(_first(energy.get("Voltage"))) is None:
            return nothing("the meter tells no voltage")
        return nothing("no voltage behind the relay; the plug itself still has mains")
    found = measured(volts) or meaning(What.OK, f"the meter has {volts:g} V", volts=volts)
    return replace(found, aspect="outlet")


def _first(value: Any) -> Any:
    """Return the first phase of a meter of several."""
    return value[0] if isinstance(value, list) and value else value


def _switches(document: dict[str, Any]) -> Iterator[Meaning]:
    for key, value in document.items():
        if found := _SWITCH.match(key):
            said = value.get("Action", value) if isinstance(value, dict) else value
            yield contact(said, key, found[1])
