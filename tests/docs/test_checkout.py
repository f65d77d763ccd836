"""What is typed in a checkout: targets of the Makefile, scripts of the tests, pip's extras."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata

import pytest

from docs import pages
from docs.calls import calls_in, mistake
from docs.pages import ALL_BLOCKS, PAGES, ROOT, Line
from docs.rules import Where, rule_for

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"(?m)^([a-z-]+):", MAKEFILE))
EXTRA = re.compile(r"pip install '?(?:\.|linkhold|\S+\.whl)\[([\w,]+)\]'?")
MAKE = re.compile(r"^make ([a-z-]+)(?: ARGS=\"?([\w./-]+))?")
NAMED_PARTS = {
    "bench": "tests/bench/run.py",
    "soak": "tests/soak/run.py",
    "fuzz": "tests/fuzz/run.py",
}
"""Targets whose first argument is the name of a part, and the script that lists them."""
ALONE = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
"""`make test` tells its children that they are below a make."""
EXTRAS = metadata.metadata("linkhold").get_all("Provides-Extra") or []


TYPED = [line for block in ALL_BLOCKS if block.kind == "shell" for line in pages.shell_lines(block)]
SAID = [*TYPED, *(span for page in PAGES for span in pages.spans(page))]
"""What is typed in blocks, and what stands in backticks in the text."""
MADE = [line for line in SAID if MAKE.match(line.text)]
SCRIPTS = [line for line in SAID if (r := rule_for(line.text)) and r.where is Where.CHECKOUT]


@pytest.mark.parametrize("line", MADE, ids=lambda line: line.name)
def test_make(line: Line) -> None:
    """Each target is there; what it would run is there; a bench or part that is named is one."""
    found = MAKE.match(line.text)
    assert found
    target, given = found.groups()
    assert target in TARGETS

    plan = subprocess.run(
        ["make", "-n", "--no-print-directory", target],
        cwd=ROOT, env=ALONE, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for script in re.findall(r"\btests/\S+\.(?:py|sh)\b", plan):
        assert (ROOT / script).exists(), plan
    for call in calls_in(plan):
        assert mistake(call) == "", plan
    if given:
        script = ROOT / NAMED_PARTS[target]
        listed = subprocess.run(
            [sys.executable, script, "--help"], capture_output=True, text=True, check=True
        ).stdout
        assert re.search(rf"\b{given}\b", listed), listed


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_every_target_is_on_a_page(name: str) -> None:
    """No target is known only to those who read the Makefile."""
    assert any(line.text.startswith(f"make {name}") for line in MADE)


@pytest.mark.parametrize("line", SCRIPTS, ids=lambda line: line.name)
def test_scripts(line: Line) -> None:
    """A script that is typed works; one that is given a file of yours takes its form.

    Of scripts that the text mentions, files and options exist: they write pages.
    """
    words = line.text.split()
    assert words[0] in {"python", ".venv/bin/python"}
    named = [word for word in words if word.startswith("tests/")]
    assert all((ROOT / word.partition("::")[0]).exists() for word in named)
    if line not in TYPED:
        options = [word for word in words if word.startswith("--")]
        assert all(option in (ROOT / named[0]).read_text() for option in options)
    elif words[-1].startswith("tests/"):
        done = subprocess.run(
            [sys.executable, *words[1:]], cwd=ROOT, capture_output=True, text=True, check=False,
            timeout=100,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert re.fullmatch(r"my_\w+\.py::my_\w+( \w+=('[^']+'|\d+))*", " ".join(words[2:]))


@pytest.mark.parametrize(
    ("line", "extras"),
    [(line, found[1]) for line in SAID if (found := EXTRA.search(line.text))],
    ids=lambda one: getattr(one, "name", ""),
)
def test_extras(line: Line, extras: str) -> None:
    """Each extra that pip is asked for is one of the package's."""
    assert set(extras.split(",")) <= set(EXTRAS), line.name
