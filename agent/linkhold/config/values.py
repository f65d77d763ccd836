"""One YAML scalar -> one checked value. Strict: nothing is converted from another type."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import yaml

from linkhold.config.forms import form_problem, normal
from linkhold.config.schema import Kind, Option, plain, shown
from linkhold.config.units import quantity

if TYPE_CHECKING:
    from collections.abc import Iterable
    from fractions import Fraction

_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?P<rest>\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_MAX_DIGITS = 40
_MAX_GUESSED = 40
_NUMBER_TAGS = ("int", "float")
_TAG_WORDS = {
    "bool": "a yes/no value",
    "int": "a number",
    "float": "a number",
    "null": "nothing",
    "timestamp": "a date",
}


class WrongError(Exception):
    """The value cannot be used; the text says what is wrong with it, not what is allowed."""


def convert(option: Option, node: yaml.Node) -> Any:
    """Return the value of a scalar option.

    Raises:
        WrongError: the node is of another type, or its value is impossible.
    """
    if not isinstance(node, yaml.ScalarNode):
        raise WrongError(f"is {describe(node)}")
    if _tag(node) == "null":
        raise WrongError("has no value")
    if option.kind is Kind.BOOL:
        return _boolean(node)
    if option.kind in (Kind.INT, Kind.FLOAT):
        return _number(option, node)
    if option.kind is Kind.CHOICE:
        return _choice(option, node)
    text = node.value if option.form == "port" else _text(node)
    problem = text_problem(option, text)
    if problem:
        raise WrongError(f"{shown(text)} {problem}")
    return normal(option.form, text) if text else text


def describe(node: yaml.Node) -> str:
    """Return what a node is, in words: ``a list``, ``a number``, ``text``."""
    if isinstance(node, yaml.MappingNode):
        return "a mapping"
    if isinstance(node, yaml.SequenceNode):
        return "a list"
    return _TAG_WORDS.get(_tag(node), "text")


def is_null(node: yaml.Node) -> bool:
    """Tell whether nothing stands there (``mqtt:`` and no more)."""
    return isinstance(node, yaml.ScalarNode) and _tag(node) == "null"


def is_text(node: yaml.Node) -> bool:
    """Tell whether the node is text, as a key must be."""
    return isinstance(node, yaml.ScalarNode) and _tag(node) == "str"


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """Return `` (did you mean ...?)`` with the word that was probably meant, or empty."""
    if len(word) > _MAX_GUESSED:
        return ""
    found = get_close_matches(word.lower().replace("-", "_"), list(words), n=1)
    return f" (did you mean {found[0]}?)" if found else ""


def text_problem(option: Option, text: str) -> str:
    """Return what is wrong with the text of an option, or empty."""
    if not text.isprintable():
        return "holds a line break or an invisible character"
    if option.required and not text.strip():
        return "is empty"
    if text == option.default:
        return ""
    return form_problem(option.form, text)


def _tag(node: yaml.Node) -> str:
    return node.tag.rpartition(":")[2]


def _boolean(node: yaml.ScalarNode) -> bool:
    if _tag(node) != "bool":
        quoted = node.style is not None
        raise WrongError(f"{_raw(node)} is {'text' if quoted else 'not true or false'}")
    return node.value.lower() in ("true", "yes", "on")


def _number(option: Option, node: yaml.ScalarNode) -> int | float:
    text = node.value
    if option.duration and _tag(node) == "str" and node.style is None:
        return _duration(option, node)
    whole = _WHOLE.fullmatch(text)
    if node.style is not None and _NUMBER.fullmatch(text):
        raise WrongError(f"{_raw(node)} is text; write the number without quotes")
    if not _NUMBER.fullmatch(text):
        _refuse_unit(option, node)
        raise WrongError(f"{_raw(node)} {_no_number(node)}")
    if len(text) > _MAX_DIGITS:
        raise WrongError(f"{_raw(node)} has too many digits")
    if option.kind is Kind.INT and not whole:
        raise WrongError(f"{text} is not a whole number")
    value = int(text) if option.kind is Kind.INT else float(text)
    problem = _bounds_problem(option, value)
    if problem:
        raise WrongError(f"{text} {problem}")
    return value


def _duration(option: Option, node: yaml.ScalarNode) -> float:
    """Return the seconds that a text such as ``20m`` or ``1.5 h`` means."""
    meant = quantity("duration_s", node.value)
    if meant is None:
        raise WrongError(f"{_raw(node)} is no time")
    seconds = float(meant.amount)  # 0.2s as 1/5 would be less than the bound 0.2
    problem = _bounds_problem(option, seconds)
    if problem:
        raise WrongError(f"{_raw(node)} {problem}")
    return seconds


def _bounds_problem(option: Option, value: float | Fraction) -> str:
    """Return that a number is out of bounds and what it would mean, or empty."""
    if value > option.metadata["most"]:
        problem, meaning = "is too large", option.metadata.get("too_large", "")
    elif value < option.metadata["least"]:
        problem, meaning = "is too small", option.metadata.get("too_small", "")
    else:
        return ""
    seconds = plain(float(value) / 1000)
    return problem + (": " + meaning.format(plain(value), seconds=seconds) if meaning else "")


def _refuse_unit(option: Option, node: yaml.ScalarNode) -> None:
    """Refuse a number with a unit (``100ms``) and say which number was meant."""
    meant = quantity(option.name, node.value)
    if meant is None:
        return
    text = f"{_raw(node)} has a unit; write the number of {meant.word}"
    if option.kind is Kind.INT and meant.amount.denominator != 1:
        raise WrongError(text)
    problem = _bounds_problem(option, meant.amount)
    value = plain(float(meant.amount))
    raise WrongError(f"{text}; {value} {problem}" if problem else f"{text}, {value}")


def _no_number(node: yaml.ScalarNode) -> str:
    if _tag(node) not in _NUMBER_TAGS:
        return "is not a number"
    if math.isnan(_as_float(node.value)) or math.isinf(_as_float(node.value)):
        return "is not a finite number"
    return "is not written in plain decimal digits"


def _as_float(text: str) -> float:
    try:
        return float(text.replace(".", "", 1))
    except ValueError:
        return 0.0


def _text(node: yaml.ScalarNode) -> str:
    if _tag(node) == "str":
        return str(node.value)
    meaning = _TAG_WORDS.get(_tag(node), "a special word")
    raise WrongError(f"{_raw(node)} means {meaning} in YAML; put it in quotes")


def _choice(option: Option, node: yaml.ScalarNode) -> Any:
    words = [plain(choice) for choice in option.item]
    if node.value in words:
        return option.item(node.value)
    raise WrongError(f"{_raw(node)} is unknown{did_you_mean(node.value, words)}")


def _raw(node: yaml.ScalarNode) -> str:
    """Return the value as it stands in the file: quotes only around text."""
    as_text = shown(node.value)
    return as_text[1:-1] if node.style is None and _tag(node) != "str" else as_text
