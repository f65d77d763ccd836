"""YAML text -> node tree, within limits, with a line for everything that is wrong.

The tree is built from the parser's events and not by ``yaml.compose()``, whose C version
recurses without a limit and whose result no longer shows tags and anchors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MAX_DEPTH = 16
MAX_NODES = 20_000
SPOILED = "!spoiled"
"""Tag of a node about which a mistake was reported already."""

# YAML also ends lines at NEL, LS and PS; no editor does, so that line numbers would be wrong.
_INVISIBLE = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
)


@dataclass(slots=True)
class Document:
    """What was read: ``root`` is None when the text is empty or cannot be understood.

    ``mistakes`` are pairs of line (from 1) and text.
    """

    root: yaml.Node | None = None
    mistakes: list[tuple[int, str]] = field(default_factory=list)


class _Stop(Exception):
    """The rest of the text is not worth reading."""


def compose(content: bytes) -> Document:
    """Return the node tree of one YAML document in UTF-8 and the mistakes of its form."""
    document = Document()
    text = _decode(content, document)
    if not document.mistakes:
        _parse(text, document)
    return document


def _decode(content: bytes, document: Document) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        byte = error.object[error.start]
        document.mistakes.append((line, f"byte 0x{byte:02x} is not UTF-8"))
        return ""
    if found := _INVISIBLE.search(text):
        line = text.count("\n", 0, found.start()) + 1
        document.mistakes.append((line, f"character U+{ord(found[0]):04X} is not allowed"))
    return text


def _parse(text: str, document: Document) -> None:
    loader = LOADER(text)
    tree = _Tree(loader.resolve, document)
    try:
        while loader.check_event():
            tree.feed(loader.get_event())
    except _Stop:
        document.root = None
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        # PyYAML itself raises the latter two for escapes and versions that are out of range.
        document.root = None
        document.mistakes.append(_syntax_mistake(error, text))
    finally:
        loader.dispose()


def _syntax_mistake(error: Exception, text: str) -> tuple[int, str]:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    lines = text.splitlines() or [""]
    row = min(mark.line, len(lines) - 1) if mark is not None else 0
    indent = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
    if "\t" in indent:
        return row + 1, "a tab in the indentation; allowed: spaces"
    problem = getattr(error, "problem", None) or "a value is out of range"
    context = getattr(error, "context", None)
    return row + 1, f"not valid YAML: {problem}" + (f" {context}" if context else "")


class _Tree:
    """Builds nodes from events; feed() raises _Stop at the first thing that has no end."""

    def __init__(self, resolve: Any, document: Document) -> None:
        self._resolve = resolve
        self._document = document
        self._open: list[tuple[yaml.CollectionNode, list[yaml.Node]]] = []
        self._nodes = 0
        self._documents = 0

    def feed(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                self._stop(event, "a second document begins; allowed: one")
        elif isinstance(event, yaml.CollectionEndEvent):
            self._close()
        elif isinstance(event, yaml.NodeEvent):
            self._count(event)
            self._add(event)

    def _add(self, event: Any) -> None:
        reason = _refused(event)
        if reason:
            self._document.mistakes.append((event.start_mark.line + 1, reason))
        tag = SPOILED if reason else ""
        marks = (event.start_mark, event.end_mark)
        if isinstance(event, yaml.MappingStartEvent):
            self._begin(yaml.MappingNode(tag or "tag:yaml.org,2002:map", [], *marks))
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin(yaml.SequenceNode(tag or "tag:yaml.org,2002:seq", [], *marks))
        elif isinstance(event, yaml.ScalarEvent):
            tag = tag or self._resolve(yaml.ScalarNode, event.value, event.implicit)
            self._attach(yaml.ScalarNode(tag, event.value, *marks, style=event.style or None))
        else:
            self._attach(yaml.ScalarNode(SPOILED, "", *marks))

    def _begin(self, node: yaml.CollectionNode) -> None:
        self._attach(node)
        self._open.append((node, []))
        if len(self._open) > MAX_DEPTH:
            self._stop(node, f"nested too deeply; allowed: {MAX_DEPTH} levels")

    def _attach(self, node: yaml.Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self._document.root = node

    def _close(self) -> None:
        node, children = self._open.pop()
        if isinstance(node, yaml.MappingNode):
            node.value = list(zip(children[::2], children[1::2], strict=True))
        else:
            node.value = children

    def _count(self, event: yaml.Event) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            self._stop(event, f"more than {MAX_NODES} keys and values")

    def _stop(self, where: yaml.Event | yaml.Node, text: str) -> None:
        mark = where.start_mark
        self._document.mistakes.append((mark.line + 1 if mark else 1, text))
        raise _Stop


def _refused(event: Any) -> str:
    if isinstance(event, yaml.AliasEvent):
        return f"alias *{event.anchor} is not allowed; write the value out"
    if event.anchor:
        return f"anchor &{event.anchor} is not allowed"
    if event.tag:
        return f"tag {event.tag.replace('tag:yaml.org,2002:', '!!')} is not allowed"
    return ""
