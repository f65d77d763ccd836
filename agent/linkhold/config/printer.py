"""The schema as a commented default file and as a table for docs/configuration.md."""

from __future__ import annotations

import re
import textwrap
from typing import TYPE_CHECKING, Any

from linkhold.config.schema import Kind, Option, duration, options, plain
from linkhold.config.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

_WIDTH = 99
_HEADER = """\
# The configuration of linkhold on one node: /etc/linkhold/linkhold.yaml
#
# Every key may be left out; it then has the value shown here. Lines that begin with # and two
# or more spaces are examples: remove the # to use them.
# After a change: linkhold check FILE
"""
_PLAIN_TEXT = re.compile(r"[A-Za-z/][A-Za-z0-9/._-]*")
_COLLECTIONS = (Kind.LIST, Kind.TABLE)


def default_file(section: Any = Settings, header: str = _HEADER) -> str:
    """Return a complete commented configuration; reading it gives all the defaults."""
    lines = [header.rstrip()]
    for option in options(section):
        lines += ["", *_active(option, "")]
    return "\n".join(lines) + "\n"


def readme_table(section: Any = Settings) -> str:
    """Return the Markdown table of every key, its default, its meaning and what is allowed."""
    rows = ["| key | default | meaning and what is allowed |", "| --- | --- | --- |"]
    for path, option in _flat(section, ""):
        default = "required" if option.required and not option.default else _default(option)
        cells = (f"`{path}`", default, _meaning(option))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _active(option: Option, indent: str) -> Iterator[str]:
    """Yield the lines of one key in force; what a list or mapping may hold, as an example."""
    yield from _comment(option, indent)
    if option.kind is Kind.SECTION:
        yield f"{indent}{option.name}:"
        for inner in options(option.item):
            yield from _active(inner, indent + "  ")
    elif option.kind in _COLLECTIONS:
        yield f"{indent}{option.name}:"
        for line in _example_entry(option, indent + "  "):
            yield f"#{line}"
    else:
        yield f"{indent}{option.name}: {_shown(option, option.default)}"


def _example_entry(option: Option, indent: str) -> Iterator[str]:
    if option.kind is Kind.TABLE:
        yield f"{indent}{option.example}:"
        for inner in options(option.item):
            yield from _example(inner, indent + "  ", indent + "  ")
        return
    first = indent + "- "
    for inner in options(option.item):
        yield from _example(inner, indent + "  ", first)
        first = indent + "  "
    yield from (f"{indent}- {entry}" for entry in option.metadata.get("more", ()))


def _example(option: Option, indent: str, first: str) -> Iterator[str]:
    """Yield one key of an example; ``first`` stands before the key (``- `` in a list)."""
    yield from _comment(option, indent)
    if option.kind is Kind.TABLE:
        yield f"{first}{option.name}:"
        yield from _example_entry(option, indent + "  ")
        return
    if option.kind is not Kind.OPTIONAL:
        yield f"{first}{option.name}: {_shown(option, option.example)}"
        return
    yield f"{first}{option.name}:"
    for inner in options(option.item):
        yield from _example(inner, indent + "  ", indent + "  ")


def _comment(option: Option, indent: str) -> list[str]:
    prefix = f"{indent}# "
    wrap = textwrap.TextWrapper(_WIDTH, prefix, prefix, break_on_hyphens=False)
    return wrap.wrap(_meaning(option))


def _meaning(option: Option) -> str:
    return f"{option.help}; allowed: {option.allowed}" if option.allowed else option.help


def _shown(option: Option, value: Any) -> str:
    return duration(value) if option.duration else _written(value)


def _written(value: Any) -> str:
    """Return a scalar or a list of text as YAML, on one line."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(_scalar, value))}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    text = plain(value)
    return f'"{text}"' if isinstance(value, str) and not _PLAIN_TEXT.fullmatch(text) else text


def _default(option: Option) -> str:
    if option.kind in (*_COLLECTIONS, Kind.OPTIONAL) or option.default == ():
        return "none"
    return f"`{_shown(option, option.default)}`"


def _flat(section: Any, prefix: str) -> Iterator[tuple[str, Option]]:
    """Yield every key that has a value of its own, with its path."""
    for option in options(section):
        path = f"{prefix}{option.name}"
        if option.kind is not Kind.SECTION:
            yield path, option
        if option.item is not None and option.kind is not Kind.CHOICE:
            inner = {Kind.LIST: "[].", Kind.TABLE: ".<name>."}.get(option.kind, ".")
            yield from _flat(option.item, path + inner)
