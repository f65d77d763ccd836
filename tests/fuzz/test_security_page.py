"""docs/security.md: each claim names a test, and each of these tests exists."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
CLAIMS = sorted(set(NAMED.findall(PAGE)))
ADVICE = ("Two live sensors that agree",)
"""Lines that tell what to do beside what is proved by the lines around them."""
LISTS = ("### The fleet's brokers", "### Who may stop", "### The node itself", "### Other machines",
         "## What comes from outside", "## Secrets")  # fmt: skip


@cache
def names_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@pytest.mark.parametrize(("file", "test"), CLAIMS, ids=[name for _, name in CLAIMS])
def test_every_named_test_exists(file: str, test: str) -> None:
    """A test that is renamed or removed leaves no claim behind."""
    assert test in names_in(file)


def test_every_claim_names_its_test() -> None:
    """Each line of the lists of claims ends with the test that proves it."""
    sections = [PAGE.partition(head)[2].partition("\n#")[0] for head in LISTS]
    claims = [line for part in sections for line in part.splitlines() if line.startswith("- ")]
    bare = [line for line in claims if not NAMED.search(line)]

    assert len(claims) > 30
    assert [line for line in bare if not line.startswith(tuple(f"- {a}" for a in ADVICE))] == []


def test_every_name_in_ticks_below_tests_is_a_file() -> None:
    """What the page names of the tests is there."""
    for name in re.findall(r"`(tests/[\w/]+\.py)`", PAGE):
        assert (ROOT / name).is_file(), name
