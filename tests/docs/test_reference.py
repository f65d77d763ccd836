"""The pages hang together: commands, options, links, files, who a page is for, the index."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs import pages, reference
from docs.calls import KNOWN, Command
from docs.pages import PAGES, ROOT, Line
from linkhold.config import readme_table
from linkhold.wire import CATALOGUE

if TYPE_CHECKING:
    from pathlib import Path

DOCS = [page for page in PAGES if page != ROOT / "README.md"]
README = (ROOT / "README.md").read_text(encoding="utf-8")
HAND_WRITTEN = [page for page in PAGES if page != reference.PAGE]
README_LINES = 170
FIRST = re.compile(
    r"For (?:those who|those on call|developers|everybody who)[^\n]*: \S[^\n]+\.(?: |$)"
)
UNTYPED = {
    ("agent",): "systemd or `make run` starts it",
    ("broker",): "the broker's unit runs it; people need neither of its steps",
}
"""Commands that no person types, and why."""
PLACES = (ROOT, ROOT / "docs", ROOT / "agent", ROOT / "agent/linkhold", ROOT / "tests")
"""Where a page may mean a file to be: it names the shortest path that is clear."""
FILE = re.compile(r"[\w.-]+(?:/[\w.*-]+)+/?|[\w-]+\.(?:py|md|sh)")
OURS = ("tests", "docs", "agent", "systemd", "ansible", "decide", "actuators", "sensors", "support",
        "linkhold", "daemon", "client", "cli", "wire", "config", "brokers", "survey")  # fmt: skip
"""How a path begins that is one of the checkout."""
TRIED_BY = {
    "shell": "test_commands.py",
    "python": "test_python_blocks.py",
    "text": "test_outputs.py",
    **dict.fromkeys(("yaml", "ini", "json"), "test_data_blocks.py"),
}
"""Which test tries a block, by its kind."""
DEVELOPING = (ROOT / "docs/developing.md").read_text(encoding="utf-8")
FOLDERS = sorted(
    {file.parent for file in (ROOT / "agent/linkhold").glob("*/__init__.py")}
    | {file.parent for file in (ROOT / "tests").glob("*/*.py")}
)
UNIT_FILES = ("systemd", "agent/linkhold/relay/files")
UNITS = [
    line
    for page in PAGES
    for line in (
        *pages.spans(page),
        *(line for b in pages.blocks(page) if b.kind == "shell" for line in pages.shell_lines(b)),
    )
    if re.match(r"(sudo )?(systemctl|journalctl -u) .*linkhold", line.text)
]
KEYS = {
    ".".join(parts[: n + 1])
    for path in re.findall(r"(?m)^\| `([^`]+)`", readme_table())
    for parts in [path.replace("[]", "").replace(".<name>", "").split(".")]
    for n in range(len(parts))
}
"""Every key of the agent's configuration by its path, and every section."""
BEGIN = {name.partition(".")[0] for name in (*CATALOGUE, *KEYS)} - {"hold", "node"}
DOTTED = [
    Line(span.page, span.line, name)
    for page in PAGES
    for span in pages.spans(page)
    for name in [span.text.partition(":")[0]]
    if re.fullmatch(r"[a-z_]+(\.[a-z_]+)+", name)
    and name.partition(".")[0] in BEGIN
    and not name.endswith((".json", ".yaml"))
]
LINKS = [link for page in PAGES for link in pages.links(page) if "://" not in link.text]
FILES = [
    Line(span.page, span.line, span.text.partition("::")[0])
    for page in PAGES
    for span in pages.spans(page)
    if FILE.fullmatch(span.text.partition("::")[0])
    and span.text.partition("/")[0] in OURS
    and not span.text.startswith("linkhold/v1")
]


def named(line: Line) -> str:
    """Return where it stands, as the name of a test."""
    return line.name


def test_the_page_of_commands_is_made_from_the_commands() -> None:
    """Every command, verb and option is on it as the commands themselves say; none is missing."""
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), (
        "PYTHONPATH=tests .venv/bin/python -m docs.reference"
    )
    for command in KNOWN.values():
        for option in command.options:
            assert f"`{option}" in reference.page()


@pytest.mark.parametrize("command", KNOWN.values(), ids=lambda one: one.name)
def test_every_command_is_explained_by_a_person(command: Command) -> None:
    """A page that was written by hand speaks of each command and verb, but of what nobody types."""
    told = any(
        re.search(rf"\b{re.escape(command.name.removeprefix('linkhold '))}\b", page.read_text())
        and command.words[0] in page.read_text()
        for page in HAND_WRITTEN
        if re.search(rf"linkhold {command.words[0]}\b", page.read_text())
    )
    assert told or command.words in UNTYPED


@pytest.mark.parametrize("link", LINKS, ids=named)
def test_links_lead_somewhere(link: Line) -> None:
    """Each relative link leads to a file, and to a heading of it."""
    file, _, anchor = link.text.partition("#")
    target = (link.page.parent / file).resolve() if file else link.page

    assert target.exists()
    if anchor:
        assert anchor in pages.anchors(target)


@pytest.mark.parametrize("span", FILES, ids=named)
def test_files_that_are_named_exist(span: Line) -> None:
    """Each file of the checkout that a page names is there."""
    assert any(list(place.glob(span.text.rstrip("/"))) for place in PLACES)


@pytest.mark.parametrize("page", DOCS, ids=pages.name_of)
def test_a_page_says_first_for_whom_it_is(page: Path) -> None:
    """A title, then one sentence: for whom, and what it answers. The README names the page."""
    title, empty, first, *_ = page.read_text(encoding="utf-8").splitlines()

    assert title.startswith("# ")
    assert empty == ""
    assert FIRST.match(first), "say: For those who ...: what it answers."
    assert f"](docs/{page.relative_to(ROOT / 'docs')})" in README


@pytest.mark.parametrize("span", DOTTED, ids=named)
def test_events_and_keys_that_the_text_names_exist(span: Line) -> None:
    """A dotted name is a type of event or a key of the configuration (or a member of a Hold)."""
    assert span.text in CATALOGUE or span.text in KEYS


@pytest.mark.parametrize("block", pages.ALL_BLOCKS, ids=lambda block: block.name)
def test_every_block_is_of_a_kind_that_is_tried(block: pages.Block) -> None:
    """No block is of a language for which there is no test."""
    assert block.kind in TRIED_BY
    assert (ROOT / "tests/docs" / TRIED_BY[block.kind]).exists()


@pytest.mark.parametrize("line", UNITS, ids=named)
def test_units_exist(line: Line) -> None:
    """Each unit of ours that a call of systemctl or journalctl names is one that is installed."""
    shipped = {file.name for place in UNIT_FILES for file in (ROOT / place).glob("*.service")}

    for unit in re.findall(r"(?<=[ ])linkhold[\w-]*", line.text):
        assert f"{unit}.service" in shipped


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_the_layout_has_every_folder(folder: Path) -> None:
    """The page for developers says of each package, and each folder of tests, what is in it."""
    assert f"`{folder.relative_to(ROOT)}`" in DEVELOPING


def test_the_readme_is_short() -> None:
    """It can be read in a few minutes."""
    assert len(README.splitlines()) <= README_LINES


def test_the_index_names_pages_that_are_read_by_somebody() -> None:
    """The table of pages has a row for each kind of reader."""
    table = README.partition("## The pages")[2].partition("\n## ")[0]

    for reader in ("train models", "run nodes", "run a fleet", "are on call", "write code"):
        assert re.search(rf"(?m)^\| {reader}[^|]* \| .*\[.*\]\(docs/", table)
