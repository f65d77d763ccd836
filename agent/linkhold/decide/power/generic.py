"""Any other sensor: a topic, where its value is, and which values mean that mains are there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from linkhold.decide.power.words import (
    INVERSE_NAMES,
    MAINS_NAMES,
    ignored,
    is_broken,
    mains,
    nothing,
    number,
    parsed,
    snake,
    status_of_sensor,
    truth,
    word,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from linkhold.decide.power.meaning import Meaning

FIGURES = frozenset({"power", "watt", "watts", "w", "load", "current", "energy", "consumption"})
"""Names of figures of which 0 means that nothing is drawn."""
WILLS = frozenset({"lwt", "online", "status", "availability", "available", "connected"})
MAX_DEPTH = 6


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
        found = re.search(mapping.pattern, text)
        if found is None:
            return ignored("the pattern is not found in it")
        return _say(mapping, found[1] if found.re.groups else found[0], "the text")
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    if not mapping.path:
        return _say(mapping, value, "the payload")
    there, value = _follow(value, mapping.path)
    if not there:
        return ignored(f"{mapping.path} is not in it")
    return _say(mapping, value, mapping.path)


def guessed(topic: list[str], text: str) -> Meaning:
    """Return what a message means by the names in its topic and its JSON, without a mapping.

    Only for explaining: the agent listens to configured sensors alone.
    """
    value = parsed(text)
    if is_broken(text, value):
        return ignored("the JSON is cut off or broken")
    names = [snake(name) for name in topic]
    if names[-1] in WILLS and word(value) in {"online", "offline"}:
        return status_of_sensor(value, "the sensor's will")
    if isinstance(value, dict):
        return _guessed_in(value)
    return _guessed_by(names, value)


def _guessed_by(names: list[str], value: Any) -> Meaning:
    if isinstance(value, list):
        return ignored("a list tells nothing without a path")
    if names[-1] in FIGURES and number(value) is not None:
        return nothing(f"{names[-1]} is a figure, zero means idle")
    if not any(MAINS_NAMES.search(name) or INVERSE_NAMES.search(name) for name in names):
        return ignored("the topic is not mapped and has no name of a mains sensor")
    inverse = any(INVERSE_NAMES.search(name) for name in names)
    return mains(truth(value), f"{names[-1]}, taken for 'mains present',", value, inverse=inverse)


def _guessed_in(document: dict[str, Any]) -> Meaning:
    for path, value in _leaves(document, ()):
        name = snake("_".join(path))
        if path[-1] in FIGURES or truth(value) is None:
            continue
        if MAINS_NAMES.search(name) or INVERSE_NAMES.search(name):
            inverse = bool(INVERSE_NAMES.search(name))
            return mains(truth(value), ".".join(path), value, inverse=inverse)
    return ignored("nothing in it has a name of a mains sensor; a path would say where to look")


def _leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict) and len(path) < MAX_DEPTH:
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    elif path and not isinstance(value, (dict, list)):
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
        elif isinstance(value, list) and step.isdigit() and int(step) < len(value):
            value = value[int(step)]
        else:
            return False, None
    return True, value
