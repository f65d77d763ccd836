"""Node tree -> :class:`Settings`: one walk along the schema that collects every mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from linkhold.config.document import SPOILED
from linkhold.config.foreign import advice
from linkhold.config.forms import form_problem
from linkhold.config.schema import FORMS, Kind, Option, dotted, options, shown
from linkhold.config.settings import Settings
from linkhold.config.values import (
    WrongError,
    convert,
    describe,
    did_you_mean,
    is_null,
    is_text,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from linkhold.config.finding import Finding
    from linkhold.config.schema import Key

T = TypeVar("T")


class Reader:
    """Walks a node tree along the schema and collects mistakes, as pairs of line and text.

    A value with a mistake is replaced by its default, so that the walk can go on.
    """

    def __init__(self) -> None:
        self.mistakes: list[tuple[int, str]] = []
        self._lines: dict[Key, int] = {}
        self._wrong: set[Key] = set()

    def read(self, root: yaml.Node | None, section: type[T]) -> T:
        """Return the settings under ``root``, those of the agent or of another ``section``."""
        self._lines[()] = 1
        if root is None:
            return section()
        settings: T = self._section(section, root, ())
        return settings

    def sorted_mistakes(self) -> Iterator[str]:
        """Yield ``line: text`` in the order of the file."""
        return (f"{line}: {text}" for line, text in sorted(self.mistakes, key=lambda one: one[0]))

    def report_line(self, line: int, text: str) -> None:
        """Note a mistake of the file's form."""
        self.mistakes.append((line, text))

    def report_all(self, findings: Iterable[Finding]) -> None:
        """Note findings, except those about values that are mistakes already."""
        for finding in findings:
            places = [finding.at, finding.other]
            if any(key[:depth] in self._wrong for key in places for depth in range(len(key) + 1)):
                continue
            if self._is_spoiled_item(finding.at):
                continue
            see = f"; see {self._place(finding.other)}" if finding.other else ""
            given = finding.at if finding.at in self._lines else finding.other or finding.at
            text = f"{dotted(finding.at)}: {finding.text}{see}"
            self.mistakes.append((self._line(given), text))

    def _is_spoiled_item(self, key: Key) -> bool:
        """Tell whether ``key`` is an item of a list with a mistake inside, so it is not whole."""
        item = bool(key) and isinstance(key[-1], int)
        return item and any(wrong[: len(key)] == key for wrong in self._wrong)

    def _report(self, key: Key, text: str) -> None:
        where = dotted(key) or "the top level"
        self.mistakes.append((self._line(key), f"{where}: {text}"))

    def _refuse(self, key: Key, text: str) -> None:
        self._wrong.add(key)
        self._report(key, text)

    def _line(self, key: Key) -> int:
        while key not in self._lines:
            key = key[:-1]
        return self._lines[key]

    def _place(self, key: Key) -> str:
        given = self._lines.get(key)
        return dotted(key) + (f" (line {given})" if given else " (default)")

    def _section(self, section: Any, node: yaml.Node, key: Key) -> Any:
        known = {option.name: option for option in options(section)}
        if node.tag == SPOILED:
            self._wrong.add(key)
            return section()
        if not isinstance(node, yaml.MappingNode) and not is_null(node):
            self._refuse(key, f"is {describe(node)}; allowed: a mapping with {', '.join(known)}")
            return section()
        values = {}
        for name, value in self._entries(node, key):
            option = known.get(name)
            if option is None:
                self._report((*key, name), _unknown(section, name, tuple(known)))
            else:
                values[name] = self._value(option, value, (*key, name))
        for option in known.values():
            if option.required and option.name not in values:
                self._refuse((*key, option.name), f"is missing; allowed: {option.allowed}")
        return section(**values)

    def _entries(self, node: yaml.Node, key: Key) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the entries of a mapping (none for null), and refuse unusable keys."""
        seen: dict[str, int] = {}
        for name, value in node.value if isinstance(node, yaml.MappingNode) else ():
            line = _line_of(name)
            if name.tag == SPOILED:
                continue
            if not is_text(name):
                self._refuse_key(name, key, line)
                continue
            at = (*key, name.value)
            self._lines[at] = line
            if name.value in seen:
                self._report(at, f"given twice; allowed: once; see line {seen[name.value]}")
            seen.setdefault(name.value, line)
            yield name.value, value

    def _refuse_key(self, name: yaml.Node, key: Key, line: int) -> None:
        where = dotted(key) or "the top level"
        if not isinstance(name, yaml.ScalarNode):
            text = f"{describe(name)} is used as a key"
        elif name.value == "<<":
            text = "a merge key (<<) is not allowed; write the keys out"
        else:
            text = f"the key {shown(name.value)} means {describe(name)} in YAML; put it in quotes"
        self.report_line(line, f"{where}: {text}")

    def _value(self, option: Option, node: yaml.Node, key: Key) -> Any:
        if node.tag == SPOILED:
            self._wrong.add(key)
            return option.default
        if option.kind is Kind.SECTION:
            return self._section(option.item, node, key)
        if option.kind is Kind.OPTIONAL:
            return self._optional(option, node, key)
        if option.kind in (Kind.LIST, Kind.TEXTS, Kind.TABLE):
            return self._collection(option, node, key)
        try:
            return convert(option, node)
        except WrongError as error:
            self._refuse(key, f"{error}; allowed: {option.allowed}")
        return option.default

    def _optional(self, option: Option, node: yaml.Node, key: Key) -> Any:
        if is_null(node):
            # Nothing could mean "off" or "with defaults"; for TLS that is no place for a guess.
            self._refuse(key, "has no value; allowed: {} for the defaults, or no such key")
            return option.default
        return self._section(option.item, node, key)

    def _collection(self, option: Option, node: yaml.Node, key: Key) -> Any:
        wanted = yaml.MappingNode if option.kind is Kind.TABLE else yaml.SequenceNode
        if is_null(node) and not option.least:
            return option.default
        if not isinstance(node, wanted):
            is_what = "has no value" if is_null(node) else f"is {describe(node)}"
            self._refuse(key, f"{is_what}; allowed: {option.allowed}")
            return option.default
        self._count(option, len(node.value), key)
        walks = {Kind.LIST: self._list, Kind.TEXTS: self._texts, Kind.TABLE: self._table}
        return walks[option.kind](option, node, key)

    def _count(self, option: Option, entries: int, key: Key) -> None:
        if entries > option.metadata["most"]:
            self._refuse(key, f"{entries} entries are too many; allowed: {option.allowed}")
        elif entries < option.least:
            self._refuse(key, f"{entries or 'no'} entries are too few; allowed: {option.allowed}")

    def _list(self, option: Option, node: yaml.Node, key: Key) -> tuple[Any, ...]:
        items = []
        for number, item in enumerate(node.value):
            at = (*key, number)
            self._lines[at] = _line_of(item)
            items.append(self._section(option.item, item, at))
        return tuple(items)

    def _texts(self, option: Option, node: yaml.Node, key: Key) -> tuple[str, ...]:
        """Return the items that are right; one that is not makes the whole list wrong."""
        seen: dict[str, int] = {}
        for number, item in enumerate(node.value):
            at = (*key, number)
            self._lines[at] = _line_of(item)
            text = self._text(option.each, item, at)
            if not text:
                self._wrong.add(key)
            elif text in seen:
                first = self._place((*key, seen[text]))
                self._refuse(at, f"{shown(text)} is given twice; allowed: once; see {first}")
                self._wrong.add(key)
            else:
                seen[text] = number
        return tuple(seen)

    def _text(self, option: Option, node: yaml.Node, key: Key) -> str:
        text = self._value(option, node, key)
        return text if isinstance(text, str) else ""

    def _table(self, option: Option, node: yaml.Node, key: Key) -> dict[str, Any]:
        entries = {}
        for name, value in self._entries(node, key):
            at = (*key, name)
            problem = form_problem(option.key_form, name)
            if problem:
                self._refuse(at, f"{problem}; allowed: {FORMS[option.key_form]}")
            entries[name] = self._section(option.item, value, at)
        return entries


def _line_of(node: yaml.Node) -> int:
    return node.start_mark.line + 1 if node.start_mark is not None else 1


def _unknown(section: Any, name: str, known: tuple[str, ...]) -> str:
    """Return the text about an unknown key: what to do instead, or what was probably meant."""
    elsewhere = _home(name) if section is Settings else ""
    if elsewhere:
        hint = f" (did you mean {elsewhere}?)"
    else:
        known_elsewhere = advice(section, name)
        hint = f": {known_elsewhere}" if known_elsewhere else did_you_mean(name, known)
    return f"unknown key{hint}; allowed: {', '.join(known)}"


def _home(name: str) -> str:
    """Return where a key belongs that was written at the top level, or empty."""
    for section in options(Settings):
        if section.kind is Kind.SECTION and any(name == one.name for one in options(section.item)):
            return f"{section.name}.{name}"
    return ""
