"""What the adapters for trainers share, without a trainer."""

from __future__ import annotations

import importlib.util
import random
import re
from pathlib import Path

import pytest

from linkhold.client import Hold, adapter
from linkhold.client.adapter import Adapter, imported
from linkhold.model import LinkholdError

ROOT = Path(__file__).resolve().parents[2]


def test_a_hold_or_its_arguments() -> None:
    """Both at once would leave one of them without effect."""
    with pytest.raises(TypeError, match="give a Hold, or max_hold_s for one to be made; not both"):
        Adapter(Hold.fake(), {"max_hold_s": 3.0})


def test_no_hold_before_training() -> None:
    """What is asked for too early says when it will be there."""
    with pytest.raises(LinkholdError, match="it is made when training begins"):
        _ = Adapter(None, {}).hold


def test_ranks_that_agree_with_nobody_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Hold of the user's without agree= would save at other steps on each rank, and hang."""
    monkeypatch.setattr(adapter, "world_size", lambda: 4)
    made = Adapter(Hold.fake(), {})
    made._begin()

    with pytest.raises(LinkholdError, match=r'none of the 4 ranks.*Hold.connect\(agree="torch"\)'):
        made._step(1)


def test_only_a_stopped_run_exits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The line after the trainer does nothing for a run that came to its own end."""
    monkeypatch.chdir(tmp_path)
    made = Adapter(Hold.fake(), {})
    made.exit_if_stopped()

    made.stopped = True
    with pytest.raises(SystemExit) as ended:
        made.exit_if_stopped()
    assert ended.value.code == 75


def test_a_given_hold_stays_open() -> None:
    """Whoever made it closes it."""
    hold = Hold.fake()
    made = Adapter(hold, {})
    made._begin()
    made._end()
    upload = hold.upload("a", lambda _: None)

    assert upload.error is None


def test_an_import_that_fails_inside_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that is there, and lacks one of its own, says which."""
    (tmp_path / "halfpackage.py").write_text("import package_that_is_nowhere\n")
    monkeypatch.syspath_prepend(tmp_path)

    with pytest.raises(ModuleNotFoundError, match="package_that_is_nowhere"):
        imported(("halfpackage",), "halfpackage", "linkhold.client.x")
    with pytest.raises(
        ImportError, match=r"linkhold\.client\.x needs the package p: pip install p"
    ):
        imported(("package_that_is_nowhere",), "p", "linkhold.client.x")


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_generators_go_through_a_checkpoint(tmp_path: Path) -> None:
    """All three generators go on where they were; loading runs no code of the file."""
    import numpy as np
    import torch

    from linkhold.client import generators

    rng = np.random
    before = random.getstate(), rng.get_state(), torch.get_rng_state()
    torch.save(generators.keep(), tmp_path / "kept")
    drawn = (random.random(), rng.rand(), torch.rand(1).item())
    generators.set_back(torch.load(tmp_path / "kept", weights_only=True))

    assert (random.random(), rng.rand(), torch.rand(1).item()) == drawn
    random.setstate(before[0])
    rng.set_state(before[1])
    torch.set_rng_state(before[2])


def test_the_readme_shows_the_documented_lines() -> None:
    """The lines for Lightning in the README are those of docs/trainers.md, which a test runs."""
    blocks = []
    for name in ("README.md", "docs/trainers.md"):
        found = re.search(
            r"```python\n(from linkhold\.client\.lightning.*?)```",
            (ROOT / name).read_text(),
            re.DOTALL,
        )
        assert found, name
        blocks.append([line.split("#")[0].rstrip() for line in found[1].splitlines()])

    assert blocks[0] == blocks[1]
