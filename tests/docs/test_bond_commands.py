"""What the pages say about bonds works as it is typed, in a kernel of its own with two NICs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from docs.bond_scene import types
from docs.pages import ALL_BLOCKS, ROOT, shell_lines
from docs.rules import Where, rule_for

if TYPE_CHECKING:
    from support.lab.host import Lab

ORDER = ("plan", "apply", "confirm", "status", "test", "repair", "rollback", "remove")
"""In which lines of all pages make sense one after the other."""
QUICK = "confirm_after_s: 2"
"""What is said beside the configuration of the page, so that nobody waits."""


def typed() -> list[str]:
    """Return the lines of all pages that are tried here, each once, as root types them."""
    lines = {
        line.text.removeprefix("sudo ")
        for block in ALL_BLOCKS
        if block.kind == "shell"
        for line in shell_lines(block)
        if (rule := rule_for(line.text)) and rule.where is Where.LAB
    }
    return sorted(lines, key=lambda line: ORDER.index(_verb(line)))


def _verb(line: str) -> str:
    return next(word for word in line.split() if word in ORDER)


def configuration() -> str:
    """Return the configuration that the page about bonds begins with."""
    page = [block for block in ALL_BLOCKS if block.page == ROOT / "docs/bonds.md"]
    text = next(block.text for block in page if block.kind == "yaml")
    assert text.count("]}}") == 1
    return text.replace("]}}", f"], {QUICK}}}}}")


@pytest.fixture(scope="module")
def outcome(lab: Lab) -> dict[str, Any]:
    """What became of each line."""
    found = lab.run(types, lines=typed(), config=configuration()).value
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("line", typed())
def test_it_works(outcome: dict[str, Any], line: str) -> None:
    """Each line ends with 0; plan, apply, status, test and remove follow one another."""
    code, said = outcome[line]

    assert code == 0, said
    assert said.strip()
    assert "Traceback" not in said


def test_what_a_newcomer_needs_is_there() -> None:
    """The pages show at least how to plan, apply, look at, try and remove a bond."""
    assert {"plan", "apply", "status", "test", "remove"} <= {_verb(line) for line in typed()}
