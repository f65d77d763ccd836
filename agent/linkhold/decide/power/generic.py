"""Any other sensor: a topic, where its value is, and which values mean that mains are there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.decide.json_values import number
from linkhold.decide.power.meaning import What, meaning
from linkhold.decide.power.words import (
    NOTHING,
    ignored,
    is_broken,
    is_inverse,
    mains,
    metered,
    nothing,
    parsed,
    snake,
    status_of_sensor,
    truth,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.power.meaning import Meaning

FIGURES = frozenset(
    {"power", "watt", "watts", "w", "va", "load", "current", "energy", "kwh", "consumption"}
    | {"frequency", "rssi", "uptime", "count", "interval", "humidity", "signal"}
)
"""Names of figures: 0 says that nothing is drawn or counted, not that mains are gone."""
WILLS = frozenset({"lwt", "online", "status", "availability", "available", "connected"})
PLAIN = ("state", "value", "val", "status", "present", "on")
"""Keys without a meaning of their own: the topic says what it is."""
MAX_DEPTH = 6
MAX_ENTRIES = 64
MOST_SEARCHED = 256
"""Characters of a text that a pattern is tried on: a word in a line of some.

`.*mains.*=(.+)` takes time with the cube of them, and nothing else of the agent runs meanwhile, as
`re` keeps the GIL: 0.4 ms for 256, 160 ms for 2,000. What is longer is JSON, which has paths."""


@dataclass(frozen=True, slots=True)
class Mapping:
    """How a message says whether mains are there.

    ``path`` leads through JSON (``data.mains.present``, list entries by number), or ``pattern``
    finds the value in the text (its first group); with neither the whole payload is the value.
    ``true`` and ``false`` are the words for mains that are there and gone (compared without case;
    empty: the usual ones); ``invert`` exchanges both.
    """

    path: str = ""
    pattern: str = ""
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    invert: bool = False


def mapped(mapping: Mapping, text: str) -> Meaning:
    """Return what a message of a configured sensor means."""
    if mapping.pattern:
        return _searched(mapping, text)
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    if not mapping.path:
        return _say(mapping, value, "the payload")
    there, value = _follow(value, mapping.path)
    if not there:
        return ignored(f"{mapping.path} is not in it")
    return _say(mapping, value, mapping.path)


def _searched(mapping: Mapping, text: str) -> Meaning:
    if len(text) > MOST_SEARCHED:
        return ignored(f"longer than the {MOST_SEARCHED} characters that a pattern is tried on")
    found = re.search(mapping.pattern, text)
    if found is None:
        return ignored("the pattern is not found in it")
    return _say(mapping, found[1] if found.re.groups else found[0], "the text")


def guessed(topic: list[str], text: str) -> Meaning:
    """Return what a message means by the names in its topic and its JSON, without a mapping.

    Only for explaining: the agent listens to configured sensors alone.
    """
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    names = [snake(name).strip("_") for name in topic]
    if names[-1] in WILLS and word(value) in {"online", "offline"}:
        return status_of_sensor(value, "the sensor's will")
    if not isinstance(value, (dict, list)):
        return _guessed_by(names, value)
    plain = [value[key] for key in PLAIN if key in value] if isinstance(value, dict) else []
    return _guessed_in(value) or (
        _guessed_by(names, plain[0])
        if plain
        else ignored("nothing in it has a name of a mains sensor; a path would say where to look")
    )


def _guessed_by(names: list[str], value: Any) -> Meaning:
    if "volt" in names[-1]:
        return metered(names[-1], value)
    if names[-1] in FIGURES and number(value) is not None:
        return nothing(f"{names[-1]} is a figure, zero means idle")
    last, inverse = is_inverse(names[-1]), is_inverse("_".join(names))
    if last is None and inverse is None:
        return ignored("the topic is not mapped and has no name of a mains sensor")
    why = f"{names[-1]}, taken for 'mains present',"
    return mains(truth(value), why, value, inverse=bool(inverse if last is None else last))


def _guessed_in(document: object) -> Meaning | None:
    """Judge what has a name of a mains sensor; where two of them differ, one feed is lost."""
    named = [
        (".".join(path), value, inverse)
        for path, value in _leaves(document, ())
        if path[-1].lower() not in FIGURES
        and (inverse := is_inverse(snake("_".join(path)))) is not None
    ]
    told = [one for one in named if truth(one[1]) is not None]
    found = [mains(truth(value), name, value, inverse=inverse) for name, value, inverse in told]
    if len({one.what for one in found}) > 1:
        why = "; ".join(one.why for one in found[:4])
        return meaning(What.DEGRADED, why, reason="one of several is lost")
    if found:
        return found[0]
    empty = [name for name, value, _ in named if word(value) in NOTHING]
    return mains(None, empty[0], None) if empty else None


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, (dict, list)):
        inner = value.items() if isinstance(value, dict) else enumerate(value[:MAX_ENTRIES])
        for key, one in inner if len(path) < MAX_DEPTH else ():
            yield from _leaves(one, (*path, str(key)))
    elif path:
        yield path, value


def _say(mapping: Mapping, value: Any, why: str) -> Meaning:
    said = word(value) if not isinstance(value, (dict, list)) else None
    present = truth(value)
    if mapping.true or mapping.false:
        present = _listed(mapping, said)
    return mains(present, why, value, inverse=mapping.invert)


def _listed(mapping: Mapping, said: str | None) -> bool | None:
    """Return what the configured words say; a side without words takes the usual ones."""
    if said is None:
        return None
    if said in {word(true) for true in mapping.true}:
        return True
    if said in {word(false) for false in mapping.false}:
        return False
    usual = truth(said)
    if (usual is True and not mapping.true) or (usual is False and not mapping.false):
        return usual
    return None


def _follow(value: Any, path: str) -> tuple[bool, Any]:
    for step in path.split("."):
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return False, None
    return True, value
