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
    outlet,
    parsed,
    status_of_sensor,
    truth,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_RELAY = re.compile(r"^POWER(\d*)$")
_SWITCH = re.compile(r"^SWITCH(\d+)$", re.IGNORECASE)
READ = re.compile(r"^(?:STATE|SENSOR|RESULT|STATUS(?:0|8|10|11)|POWER\d*|SWITCH\d+)$")
WRAPPERS = ("StatusSNS", "StatusSTS")
ACTIONS = ("Action", "ACTION", "State", "STATE")
"""Where a switch's state is, by the versions of the firmware."""


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
    if switch := _SWITCH.match(last):
        return _contact(switch, value)
    if isinstance(value, dict):  # also on POWER, with SetOption4
        return _document(value, watched)
    return _said_relay(last, value) or ignored("neither a relay's state nor a JSON object")


def _document(document: dict[str, Any], watched: Watched) -> Meaning:
    wrapped = [document[key] for key in WRAPPERS if isinstance(document.get(key), dict)]
    inner = {key: value for one in wrapped or [document] for key, value in one.items()}
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
    volts = mains_volts(energy.get("Voltage"))
    if volts is None:
        return nothing("no voltage behind the relay; the plug itself still has mains")
    found = measured(volts) or meaning(What.OK, f"the meter has {volts:g} V", volts=volts)
    return replace(found, aspect="outlet")


def _switches(document: dict[str, Any]) -> Iterator[Meaning]:
    for key, value in document.items():
        if found := _SWITCH.match(key):
            yield _contact(found, value)


def _contact(switch: re.Match[str], value: Any) -> Meaning:
    if isinstance(value, dict):
        value = next((value[key] for key in ACTIONS if key in value), None)
    return contact(value, switch[0], switch[1])
