"""Reading words, numbers and JSON of power sensors, none of which may be what it should be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from linkhold.decide.json_values import number
from linkhold.decide.power.meaning import Meaning, What, meaning
from linkhold.model import Severity

TRUE = frozenset({"on", "true", "1", "yes", "present", "ok", "online", "up", "mains", "line", "ol"})
FALSE = frozenset({"off", "false", "0", "no", "absent", "lost", "fail", "failed", "down", "ob"})
NOTHING = frozenset({"", "null", "none", "nan", "unknown", "unavailable", "undefined"})
ALIVE = {"online": True, "offline": False, "true": True, "false": False, "1": True, "0": False}

MAINS_NAMES = re.compile(
    r"mains|power|grid|utility|(?:^|_)(?:ac|line|ups|psu|input|feed|opto|supply|outlet)(?:_|\d|$)"
)
"""Names of things that tell whether mains are there; a door contact has no such name."""
INVERSE_NAMES = re.compile(
    r"(?:^|_)(?:lost|loss|fail\w*|dark|down|missing|absent|fault|off)(?:_|$)"
)
"""Ends of such names that make them true when mains are gone."""
OUTAGE_NAMES = re.compile(
    r"(?:^|_)(?:outage|blackout|(?:on|running_on)_batter\w*|discharging)(?:_|$)|no_(?:mains|power|ac)"
)
"""Names that are true when mains are gone, whatever else they say."""
OTHER_NAMES = re.compile(r"batter|button|reset|saving|temperature|fan|alarm|memory|update")
"""Names with the word power or UPS that tell of something else."""

BROWNOUT_VOLTS = ((1.0, 85.0), (141.0, 186.0))
"""No grid's nominal voltage less ten percent reaches into these: 100 to 127 V, 208 to 240 V."""
MIN_VOLTS = 1.0
"""Below it there is nothing: meters show some tenths of a volt of noise."""
MAX_PHASES = 8
MAX_VOLTS = 500.0
"""Above it a figure is no mains voltage: battery sensors of Zigbee tell millivolts."""


BLANK = " \t\r\n\0"
"""Around words; programs in C send the zero at a string's end."""


def parsed(text: str) -> Any:
    """Return the JSON value in ``text``, or ``text`` itself where there is none.

    Numbers that JSON does not have (NaN, Infinity) stay words; so does what is nested too deep.
    """
    try:
        return json.loads(text.strip(BLANK), parse_constant=str)
    except (ValueError, RecursionError):
        return text


def is_broken(text: str, value: Any) -> bool:
    """Tell whether ``text`` began as a JSON document and is none."""
    return value is text and text.lstrip()[:1] in {"{", "["}


def word(value: Any) -> str:
    """Return a value as one lower-case word; booleans and whole numbers as JSON has them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip(BLANK).strip('"').strip().lower()


def truth(value: Any) -> bool | None:
    """Return what a value says as a boolean, None where it says nothing."""
    said = word(value) if not isinstance(value, (dict, list)) else ""
    return True if said in TRUE else False if said in FALSE else None


def snake(name: str) -> str:
    """Return a name in lower case with underscores, from any way to write it."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", split.lower())


def is_inverse(name: str) -> bool | None:
    """Tell whether what is named so is true when mains are gone; None: it tells of other things."""
    if OUTAGE_NAMES.search(name):
        return True
    if OTHER_NAMES.search(name) or not MAINS_NAMES.search(name):
        return None
    return bool(INVERSE_NAMES.search(name))


def mains(
    present: bool | None,  # noqa: FBT001
    why: str,
    said: object,
    *,
    inverse: bool = False,
) -> Meaning:
    """Return what a mapped value says: mains are there, are gone, or nothing is known."""
    if present is None:
        if word(said) in NOTHING:
            return meaning(What.UNKNOWN, f"{why} tells nothing", Severity.INFO)
        return meaning(What.UNKNOWN, f"{why} is neither true nor false: {str(said)[:40]!r}")
    there = present is not inverse
    what = What.OK if there else What.LOST
    return meaning(what, f"{why} says that mains are {'there' if there else 'gone'}")


def contact(said: Any, name: str, channel: str) -> Meaning:
    """Return what an input says that is closed while mains are there."""
    found = mains(truth(said), f"{name}, taken for 'mains present',", said)
    return replace(found, aspect="input", channel=channel)


def outlet(
    on: bool,  # noqa: FBT001
    why: str,
    *,
    channel: str = "",
    volts: float | None = None,
) -> Meaning:
    """Return what a switched outlet says: its relay is no witness of mains."""
    if on:
        found = measured(volts) or meaning(What.OK, f"{why} is on", volts=volts)
    else:
        detail = f", mains are there ({volts:g} V)" if volts else ""
        found = meaning(What.OUTLET_OFF, f"{why} is switched off{detail}", volts=volts)
    return replace(found, aspect="outlet", channel=channel)


def measured(volts: float | None) -> Meaning | None:
    """Return a brownout where the voltage is one, None for every other voltage."""
    if volts is None or not any(low <= volts <= high for low, high in BROWNOUT_VOLTS):
        return None
    why = f"{volts:g} V is too low for any grid"
    return meaning(What.DEGRADED, why, reason="low voltage", volts=volts)


def metered(name: str, said: object) -> Meaning:
    """Return what a meter of mains voltage says; it is no plug's own, so zero means an outage."""
    if "volt" not in name or "bat" in name:
        return nothing(f"{name} is no voltage of mains")
    volts = number(said)
    if volts is None:
        return mains(None, f"the meter {name}", said)
    if not 0 <= volts < MAX_VOLTS:
        return ignored(f"{volts:g} is no voltage of mains")
    if volts < MIN_VOLTS:
        return meaning(What.LOST, f"the meter {name} has no voltage", volts=volts)
    return measured(volts) or meaning(What.OK, f"the meter has {volts:g} V", volts=volts)


def mains_volts(value: Any) -> float | None:
    """Return a plausible mains voltage in volts; None for none, zero or millivolts.

    Of several phases it is the highest.
    """
    if isinstance(value, list):
        return max(filter(None, map(mains_volts, value[:MAX_PHASES])), default=None)
    volts = number(value)
    return volts if volts is not None and MIN_VOLTS <= volts < MAX_VOLTS else None


def status_of_sensor(said: object, why: str) -> Meaning:
    """Return what a will or availability topic says of the sensor itself."""
    alive = ALIVE.get(word(said))
    if alive is None:
        return meaning(What.IGNORED, f"{why} is neither online nor offline")
    if alive:
        return meaning(What.NONE, f"{why}: the sensor is online, no word of mains", alive=True)
    text = f"{why}: the sensor is gone; it may be the outage itself, but that is no proof"
    return meaning(What.SENSOR_OFFLINE, text, alive=False)


def ignored(why: str) -> Meaning:
    """Return that a message is not to be read."""
    return meaning(What.IGNORED, why)


def nothing(why: str) -> Meaning:
    """Return that a message was understood and says nothing of power."""
    return meaning(What.NONE, why)
