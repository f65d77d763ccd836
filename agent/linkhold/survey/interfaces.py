"""The text of /etc/network/interfaces (interfaces(5) of ifupdown 0.8 and of ifupdown2). Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Options by which one stanza uses other interfaces as its ports.
PORT_OPTIONS = frozenset(
    {"bond-slaves", "bond-primary", "slaves", "bridge-ports", "vlan-raw-device"}
)
KEYWORDS = frozenset({"iface", "mapping", "source", "source-directory", "auto", "no-auto-down"})


@dataclass
class Interfaces:
    """What the files say; ``stanzas`` are (name, method), method empty where none is given.

    ``autos`` and ``mappings`` are names or patterns, ``ports`` interfaces that another stanza
    uses, ``sources`` what is to be read besides: (keyword, pattern). ``templates`` says that
    ifupdown2's templates are used, which only ifupdown2 can expand.
    """

    stanzas: list[tuple[str, str]] = field(default_factory=list)
    autos: list[str] = field(default_factory=list)
    mappings: list[str] = field(default_factory=list)
    ports: list[tuple[str, str]] = field(default_factory=list)
    sources: list[tuple[str, str]] = field(default_factory=list)
    templates: bool = False

    def add(self, text: str) -> None:
        """Add what one file says; lines that make no sense are passed over."""
        stanza = ""
        for words in _lines(text):
            keyword, rest = words[0], words[1:]
            if keyword in KEYWORDS or keyword.startswith("allow-"):
                stanza = rest[0] if keyword == "iface" and rest else ""
                self._keyword(keyword, rest)
            elif keyword.startswith("%") or "${" in keyword:
                self.templates = True
            elif keyword.replace("_", "-") in PORT_OPTIONS:
                self.ports += [(stanza, port) for port in rest]

    def _keyword(self, keyword: str, rest: list[str]) -> None:
        if keyword == "iface" and rest:
            method = rest[2] if len(rest) > 2 and rest[1] in {"inet", "inet6"} else ""  # noqa: PLR2004 - iface NAME FAMILY METHOD
            self.stanzas.append((rest[0], method))
        elif keyword == "mapping":
            self.mappings += rest
        elif keyword in {"source", "source-directory"}:
            self.sources += [(keyword, pattern) for pattern in rest]
        elif keyword == "auto" or keyword.startswith("allow-"):
            self.autos += rest

    def methods(self, name: str) -> tuple[str, ...]:
        """Return the methods of the stanzas for ``name``; also through a pattern (``/eth*``)."""
        return tuple(method for stanza, method in self.stanzas if matches(stanza, name))

    def automatic(self, name: str) -> bool:
        """Whether it is brought up at boot or when plugged in."""
        return any(pattern == "all" or matches(pattern, name) for pattern in self.autos)

    def mapped(self, name: str) -> bool:
        """Whether a mapping chooses the stanza."""
        return any(fnmatchcase(name, pattern) for pattern in self.mappings)

    def users(self, name: str) -> tuple[str, ...]:
        """Return the stanzas that use ``name`` as a port, or sit on it as a VLAN."""
        by_option = [stanza for stanza, port in self.ports if port == name and stanza]
        by_name = [
            stanza for stanza, _ in self.stanzas if stanza.startswith((f"{name}.", f"{name}:"))
        ]
        return tuple(dict.fromkeys((*by_option, *by_name)))


def matches(pattern: str, name: str) -> bool:
    """Whether a name in ``auto`` or ``iface`` stands for ``name``.

    ``/eth*`` and ``/PATTERN/VARIABLE`` match the kernel's names (interfaces(5), since 0.8.36);
    ``NAME=LOGICAL`` brings NAME up by another stanza.
    """
    if pattern.startswith("/"):
        return fnmatchcase(name, re.split("[/=]", pattern[1:], maxsplit=1)[0])
    return pattern.partition("=")[0] == name


def _lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each line; a backslash at its end joins it with the next."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        words = line.split()
        if words and not words[0].startswith("#"):
            yield words
