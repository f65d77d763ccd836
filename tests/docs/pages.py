"""The pages for people, cut into what can be tried: blocks, calls in the text, links, headings.

Both forms of CommonMark are read: fenced blocks with a language, and blocks that are indented by
four spaces after an empty line (in a list: four more than the text of the item). A block without a
language is told by what it says, so that a new page meets the rules of its kind without a table.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))

FENCE = re.compile(r"^( *)(`{3,}|~{3,})(\S*)")
ITEM = re.compile(r"^ *(?:\d+\.|[-*]) +")
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
SHELL = (
    "amtool",
    "ansible",
    "apt",
    "cp ",
    "dmesg",
    "echo ",
    "for ",
    "install ",
    "ip ",
    "journalctl",
    "linkhold ",
    "make ",
    "mosquitto",
    "openssl",
    "pip ",
    "python",
    "ssh ",
    "sudo ",
    "sysctl",
    "systemctl",
    ".venv/bin/",
)
"""How a line begins that is typed into a shell."""
LANGUAGES = {"sh": "shell", "bash": "shell", "console": "shell", "shell": "shell", "yml": "yaml"}


@dataclass(frozen=True)
class Block:
    """A block of a page: ``kind`` is a language, or ``text`` for all that nobody types."""

    page: Path
    line: int
    kind: str
    text: str

    @property
    def name(self) -> str:
        """Where it stands, for people and for the names of tests."""
        return f"{name_of(self.page)}:{self.line}"


@dataclass(frozen=True)
class Line:
    """One line that is typed into a shell, and what the page shows as its output."""

    page: Path
    line: int
    text: str
    output: str = ""

    @property
    def name(self) -> str:
        """Where it stands, and what it says."""
        return f"{name_of(self.page)}:{self.line} {self.text}"


def name_of(page: Path) -> str:
    """Return a page's path from the root of the checkout."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    found, at, item = [], 0, 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence:
            end = _end_of_fence(lines, at, fence[2])
            text = [line.removeprefix(fence[1]) for line in lines[at + 1 : end]]
            found.append(_block(page, at + 1, fence[3], text))
            at = end + 1
            continue
        item = _item(lines, at, item)
        if not _is_indented(lines, at, item):
            at += 1
            continue
        end = at
        while end < len(lines) and (lines[end].startswith(" " * (item + 4)) or not lines[end]):
            end += 1
        text = [line[item + 4 :] for line in lines[at:end]]
        found.append(_block(page, at + 1, "", text))
        at = end
    return found


def _end_of_fence(lines: list[str], at: int, mark: str) -> int:
    for end in range(at + 1, len(lines)):
        if lines[end].strip().startswith(mark):
            return end
    raise AssertionError(f"line {at + 1}: the fence is never closed")


def _item(lines: list[str], at: int, item: int) -> int:
    """Return how far the text of the list item goes in that line ``at`` is in, 0 outside of any."""
    found = ITEM.match(lines[at])
    if found and not lines[at].startswith("    "):
        return len(found[0])
    ends = bool(lines[at]) and not lines[at].startswith(" ")
    return 0 if ends and not lines[at - 1] else item


def _is_indented(lines: list[str], at: int, item: int) -> bool:
    return lines[at].startswith(" " * (item + 4)) and (at == 0 or not lines[at - 1].strip())


def _block(page: Path, line: int, language: str, lines: list[str]) -> Block:
    text = "\n".join(lines).strip("\n")
    return Block(page, line, LANGUAGES.get(language, language) or kind_of(text), text)


def kind_of(text: str) -> str:
    """Tell the kind of a block that names no language."""
    first = text.lstrip().splitlines()[0]
    if first.startswith("$ ") or any(
        line.startswith(SHELL) and "  " not in line.partition("#")[0].strip()
        for line in text.splitlines()
    ):
        return "shell"
    if re.match(r"\[\w+\]$", first):
        return "ini"
    if _is_json(text):
        return "json"
    return "yaml" if _is_yaml(text) else "text"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        lines = text.splitlines()
        return len(lines) > 1 and all(line.startswith("{") and _is_json(line) for line in lines)
    return text[0] in "[{"


def _is_yaml(text: str) -> bool:
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    keys = found if isinstance(found, dict) else {}
    return bool(keys) and all(re.fullmatch(r"[a-z][a-z0-9_]*", str(key)) for key in keys)


def shell_lines(block: Block) -> list[Line]:
    """Return what is typed in a block, each with the output below it (after ``$ `` only).

    A comment line is not typed. A backslash at the end goes on in the next line.
    """
    found: list[Line] = []
    prompted = block.text.lstrip().startswith("$ ")
    shown = block.text.replace("\\\n", "\0").splitlines()
    number = block.line + (0 if _indented(block) else 1)
    for line in shown:
        typed = line.replace("\0", "").removeprefix("$ ").strip()
        if prompted and not line.startswith("$ "):
            last = found[-1]
            found[-1] = Line(last.page, last.line, last.text, f"{last.output}{line}\n")
        elif typed and not typed.startswith("#"):
            found.append(Line(block.page, number, _without_comment(typed)))
        number += 1 + line.count("\0")
    return found


def _indented(block: Block) -> bool:
    return not FENCE.match(block.page.read_text(encoding="utf-8").splitlines()[block.line - 1])


def _without_comment(line: str) -> str:
    return re.sub(r"\s+#\s.*$", "", line)


def prose(page: Path) -> str:
    """Return a page without its blocks, with as many lines."""
    lines = page.read_text(encoding="utf-8").splitlines()
    for block in blocks(page):
        for number in range(block.line - 1, block.line + block.text.count("\n") + 2):
            if number < len(lines) and (lines[number].startswith(" ") or not _indented(block)):
                lines[number] = ""
    return "\n".join(lines)


def spans(page: Path) -> list[Line]:
    """Return what stands in backticks in the text of a page."""
    found = []
    for number, line in enumerate(prose(page).splitlines(), 1):
        found += [Line(page, number, span) for span in SPAN.findall(line)]
    return found


def links(page: Path) -> list[Line]:
    """Return the targets of a page's links."""
    found = []
    for number, line in enumerate(prose(page).splitlines(), 1):
        found += [Line(page, number, target) for target in LINK.findall(line)]
    return found


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"(?m)^#+ +(.+?) *$", prose(page))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]
"""Every block of every page."""
