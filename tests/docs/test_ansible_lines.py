"""What the pages have people type of Ansible, with a collection that is built as they say.

Plays are read, not run: tests/ansible runs the role against hosts.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.pages import ALL_BLOCKS, PAGES, ROOT, Line, shell_lines, spans
from docs.rules import Where, rule_for

if TYPE_CHECKING:
    from collections.abc import Mapping

BIN = Path(sys.executable).parent
LINES = [
    line
    for block in ALL_BLOCKS
    if block.kind == "shell"
    for line in shell_lines(block)
    if (rule := rule_for(line.text)) and rule.where is Where.ANSIBLE
]
PLAYS = [line for line in LINES if "ansible-playbook" in line.text]
GALAXY = [line for line in LINES if "ansible-galaxy" in line.text]
VARIABLES = [
    Line(span.page, span.line, name)
    for page in PAGES
    for span in [*spans(page), *LINES]
    for name in re.findall(r"\blinkhold_[a-z_]+(?==| ?:|$)", span.text)
    if span.page.name == "rollout.md"
]
INVENTORY = "[linkhold]\nn1\nn2\n[linkhold_canary]\nn1\n"


def typed(text: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Type a line in a folder that has a link to the collection, as the checkout has it."""
    return subprocess.run(
        ["bash", "-ec", text],
        cwd=folder,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "HOME": str(folder), "LANG": "C.UTF-8", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


@dataclass(frozen=True)
class Controller:
    """A folder like that of a person who rolls out, and what galaxy said to each line."""

    folder: Path
    said: Mapping[str, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory) -> Controller:
    """Build and install the collection as the pages say."""
    if not (BIN / "ansible-playbook").exists():
        pytest.skip("ansible-core is not installed; make setup")
    folder = tmp_path_factory.mktemp("controller")
    (folder / "ansible").symlink_to(ROOT / "ansible")
    (folder / "inventory").write_text(INVENTORY)
    said = {line.text: typed(f"{line.text} --force", folder) for line in GALAXY}
    return Controller(folder, said)


@pytest.mark.parametrize("line", GALAXY, ids=lambda line: line.name)
def test_galaxy(controller: Controller, line: Line) -> None:
    """The collection is built and installed by the very lines, one after the other."""
    done = controller.said[line.text]

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("line", PLAYS, ids=lambda line: line.name)
def test_plays(controller: Controller, line: Line) -> None:
    """Each play is found in the installed collection and can be read with these options."""
    done = typed(f"{line.text} --syntax-check", controller.folder)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "playbook: " in done.stdout


@pytest.mark.parametrize("line", VARIABLES, ids=lambda line: line.name)
def test_variables(line: Line) -> None:
    """Each variable that the page names is one of the role's, or of the plays'."""
    files = [*(ROOT / "ansible").rglob("*.yml"), *(ROOT / "ansible").rglob("*.md")]

    assert any(re.search(rf"\b{line.text}\b", file.read_text()) for file in files)


def test_a_wrong_option_is_found(controller: Controller) -> None:
    """What is wrong in a line does not pass."""
    wrong = shlex.join(["ansible-playbook", "-i", "inventory", "linkhold.linkhold.nothing"])

    assert typed(f"{wrong} --syntax-check", controller.folder).returncode != 0
    assert typed(f"{wrong} --chekc", controller.folder).returncode != 0
