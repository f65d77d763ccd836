"""One YAML scalar -> one checked value. Strict: nothing is converted from another type."""

from __future__ import annotations

import ipaddress
import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import yaml

from linkhold.config.schema import Kind, Option, plain, shown
from linkhold.wire import is_topic_safe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NUMBER = re.compile(r"[-+]?(?:(?:0|[1-9][0-9]*)(?P<rest>\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_HOST_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
_DIGITS = re.compile(r"[0-9.]+")  # a mistyped address
_MAX_DIGITS = 40
_MAX_GUESSED = 40
_MAX_TEXT = 255
_MAX_HOST = 253
_MAX_PATH = 4095
_MAX_INTERFACE_BYTES = 15
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
    text = _text(node)
    problem = text_problem(option, text)
    if problem:
        raise WrongError(f"{shown(text)} {problem}")
    return text


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
    check, refusal = _CHECKS.get(option.form, (_is_short, _TOO_LONG))
    return "" if check(text) else refusal


def is_interface(name: str) -> bool:
    """Tell whether the kernel takes ``name`` for an interface (its dev_valid_name())."""
    return (
        0 < len(name.encode("utf-8", "surrogatepass")) <= _MAX_INTERFACE_BYTES
        and name not in (".", "..")
        and name.isprintable()
        and not re.search(r"[/:\s]", name)
    )


def _tag(node: yaml.Node) -> str:
    return node.tag.rpartition(":")[2]


def _boolean(node: yaml.ScalarNode) -> bool:
    if _tag(node) != "bool":
        quoted = node.style is not None
        raise WrongError(f"{_raw(node)} is {'text' if quoted else 'not true or false'}")
    return node.value.lower() in ("true", "yes", "on")


def _number(option: Option, node: yaml.ScalarNode) -> int | float:
    text = node.value
    whole = _WHOLE.fullmatch(text)
    if node.style is not None and _NUMBER.fullmatch(text):
        raise WrongError(f"{_raw(node)} is text; write the number without quotes")
    if not _NUMBER.fullmatch(text):
        raise WrongError(f"{_raw(node)} {_no_number(node)}")
    if len(text) > _MAX_DIGITS:
        raise WrongError(f"{_raw(node)} has too many digits")
    if option.kind is Kind.INT and not whole:
        raise WrongError(f"{text} is not a whole number")
    value = int(text) if option.kind is Kind.INT else float(text)
    if value > option.metadata["most"]:
        raise WrongError(f"{text} is too large")
    if value < option.metadata["least"]:
        raise WrongError(f"{text} is too small")
    return value


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


def _is_address(text: str) -> bool:
    """Tell whether ``text`` is the address of one other machine."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    nobody = address.is_unspecified or address.is_multicast or address.is_loopback
    return "%" not in text and not nobody and text != "255.255.255.255"


def _is_host(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        named = _HOST_NAME.fullmatch(text) and ".." not in text and not _DIGITS.fullmatch(text)
        return len(text) <= _MAX_HOST and bool(named)
    return True


def _is_path(text: str) -> bool:
    return text.startswith("/") and not text.endswith("/") and len(text.encode()) <= _MAX_PATH


def _is_short(text: str) -> bool:
    return len(text) <= _MAX_TEXT


_TOO_LONG = f"is longer than {_MAX_TEXT} characters"
_CHECKS: dict[str, tuple[Callable[[str], bool], str]] = {
    "ip": (_is_address, "is no address of another machine"),
    "host": (_is_host, "is no host name"),
    "interface": (is_interface, "is no interface name"),
    "path": (_is_path, "is no absolute path of a file"),
    "safe": (is_topic_safe, "cannot be one level of an MQTT topic"),
}
