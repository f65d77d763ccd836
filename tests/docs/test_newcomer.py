"""The way of a newcomer on docs/training.md: installed alone, three lines, held and let go."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.pages import ALL_BLOCKS, ROOT, shell_lines
from support.broker import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docs.place import Host

PAGE = [block for block in ALL_BLOCKS if block.page == ROOT / "docs/training.md"]
NEEDED = ("paho", "tenacity")
"""What pip would bring along."""
STEP_S = 0.05
AROUND = f"""\
import itertools, pathlib, time
def train(batch): time.sleep({STEP_S})
loader = iter(itertools.count())
"""
ALONE = "import sys; sys.path[:] = ['{}'] + [p for p in sys.path if 'site-' not in p]\n"
"""Keeps out what the interpreter of the tests has installed."""


@pytest.fixture(scope="module")
def environment(wheel: Path) -> Iterator[Path]:
    """A folder with the wheel's content and the two packages it needs, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="lh-newcomer-", dir="/tmp") as name:
        folder = Path(name)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
        target = folder / "alone"
        subprocess.run([*pip, "--target", str(target), str(wheel)], check=True, timeout=100)
        for package in NEEDED:
            spec = importlib.util.find_spec(package)
            assert spec is not None
            assert spec.origin is not None
            (target / package).symlink_to(Path(spec.origin).parent)
        folder.chmod(0o755)
        yield target


def test_the_page_installs_what_is_there() -> None:
    """The first thing on the page is how to install; what is typed names the client alone."""
    first = next(block for block in PAGE if block.kind == "shell")

    assert [line.text.split()[:2] for line in shell_lines(first)] == [["pip", "install"]] * 2
    assert all("[" not in line.text for line in shell_lines(first))


def test_three_lines_hold_and_go_on(host: Host, environment: Path) -> None:
    """The first program of the page holds as the page says, with nothing installed but the client.

    It says why it waits, and for how long it was held.
    """
    lines = next(block.text for block in PAGE if block.kind == "python")
    assert len(re.findall(r"(?m)^.*\b(?:hold|Hold)\b.*$", lines)) == 3
    typed = [line.text for b in PAGE if b.kind == "shell" for line in shell_lines(b)]
    hold = next(line for line in typed if line.startswith("linkhold hold"))
    resume = next(line for line in typed if line.startswith("linkhold resume"))
    counted = "\n    pathlib.Path('steps').write_text(str(step))\n"
    host.write({f"{host.home}/three.py": f"{ALONE.format(environment)}{AROUND}{lines}{counted}"})
    log = host.home.parent / "newcomer.log"
    host.run(resume)  # what other pages have held
    host.start(f"{sys.executable} -I three.py", log)
    steps = host.path(f"{host.home}/steps")

    def count() -> int:
        return int(steps.read_text() or 0) if steps.exists() else 0

    wait_until(lambda: count() > 5, 20, "it trains")
    assert host.run(hold).returncode == 0
    wait_until(
        lambda: "training on hold: held by root until" in log.read_text(),
        10,
        "it says that it is on hold",
    )
    held_at = count()
    time.sleep(10 * STEP_S)
    assert count() == held_at
    assert host.run(resume).returncode == 0
    wait_until(lambda: count() > held_at + 3, 10, "it goes on")
    said = log.read_text()
    assert "to see it" in said
    assert "Traceback" not in said
