"""The Python on the pages runs: with real torch and trainers, and a Hold that plays an agent."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from docs.pages import ALL_BLOCKS, PAGES, ROOT, Block, Line, shell_lines, spans
from docs.programs import program
from linkhold.wire import CATALOGUE
from support.lab.systemd import Machine

if TYPE_CHECKING:
    from support.lab.host import Lab

BLOCKS = [block for block in ALL_BLOCKS if block.kind == "python"]
IN_THE_LAB = [block for block in BLOCKS if "@scenario" in block.text]
PROGRAMS = [block for block in BLOCKS if block not in IN_THE_LAB]
RUNNER = Path(__file__).with_name("run_programs.py")
MODULE = "linkhold.client.torchrun"
PARSED = """\
import shlex
from torch.distributed.run import get_args_parser
get_args_parser().parse_args([w for w in shlex.split({!r}) if w != "..."])
"""
LAUNCHED = [
    line
    for block in ALL_BLOCKS
    if block.kind == "shell"
    for line in shell_lines(block)
    if MODULE in line.text
]
MEMBER = re.compile(r"(?:with )?(?:hold|Hold)\.(\w+)")
MEMBERS = [
    span
    for page in PAGES
    for span in spans(page)
    if MEMBER.match(span.text) and span.text not in CATALOGUE
]
CLIENT = "\n".join(file.read_text() for file in (ROOT / "agent/linkhold/client").rglob("*.py"))
NEEDED = ("torch", "lightning", "transformers", "accelerate")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """How each program ended, and what it said."""
    programs = {block.name: made.text for block in PROGRAMS if (made := program(block.text))}
    programs |= {line.name: PARSED.format(line.text.partition(MODULE)[2]) for line in LAUNCHED}
    done = subprocess.run(
        [sys.executable, RUNNER, tmp_path_factory.mktemp("programs")],
        input=json.dumps(programs), capture_output=True, text=True, check=False, timeout=250,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.name)
def test_it_runs(ended: dict[str, list[Any]], block: Block) -> None:
    """The block, in a program of the reader's, ends well and does what it is there for."""
    made = program(block.text)
    assert made is not None, f"{block.name}: say in tests/docs/programs.py what it stands in"
    lacking = [name for name in NEEDED if name in made.text and not importlib.util.find_spec(name)]
    if lacking:
        pytest.skip(f"not installed: {', '.join(lacking)}")

    code, said = ended[block.name]
    assert code == made.code, said[-3000:]


@pytest.mark.parametrize("line", LAUNCHED, ids=lambda line: line.name)
def test_torchrun_takes_the_arguments(ended: dict[str, list[Any]], line: Line) -> None:
    """The launcher has the arguments of torchrun: torch's own parser takes those on the pages."""
    if not importlib.util.find_spec("torch"):
        pytest.skip("torch is not installed")

    code, said = ended[line.name]
    assert code == 0, said
    assert importlib.util.find_spec(MODULE)


@pytest.mark.parametrize("span", MEMBERS, ids=lambda span: f"{span.name}")
def test_members_that_the_text_names_exist(span: Line) -> None:
    """What the text calls of a Hold, an adapter's or a fake one, is defined in the client."""
    found = MEMBER.match(span.text)
    assert found
    assert re.search(rf"\bdef {found[1]}\b|\b{found[1]}\b(?:: .+)? = ", CLIENT), found[1]


def test_the_lab_runs_the_example(lab: Lab) -> None:
    """The first scenario on the page about the lab passes, as it stands."""
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        file = Path(folder) / "page_example.py"
        file.write_text(IN_THE_LAB[0].text)
        spec = importlib.util.spec_from_file_location("page_example", file)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["page_example"] = module
        spec.loader.exec_module(module)
        module.test_pulled_cable_fails_over(lab)


def test_the_examples_of_machines_name_what_is_there() -> None:
    """What the other scenarios call of a machine exists; tests/lab boots such machines."""
    for block in IN_THE_LAB[1:]:
        compile(block.text, block.name, "exec")
        for name in re.findall(r"\bmachine\.(\w+)\(", block.text):
            assert callable(getattr(Machine, name))
