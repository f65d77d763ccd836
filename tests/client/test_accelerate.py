"""The adapter for accelerate: real loops over two processes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from client.ranks import Ranks
from support import netns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if importlib.util.find_spec("accelerate") is None or importlib.util.find_spec("torch") is None:
    pytest.skip("accelerate is not installed (pip install accelerate)", allow_module_level=True)

from client.trainer_scene import BATTERY, STOP, merged, two_nodes, values


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """The process that loads accelerate once and forks every rank."""
    script = __file__.replace("test_accelerate", "trainer_ranks")
    ranks = Ranks(script, "accelerate", "client.accelerate_jobs")
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def whole(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A run of two ranks that nothing disturbs."""
    return values(ranks.run("train", 2, tmp_path_factory.mktemp("whole") / "run"))


@pytest.mark.parametrize(("step", "every"), [(3, 1), (5, 1), (4, 2)])
def test_stopped_and_resumed_as_if_never_stopped(
    ranks: Ranks, tmp_path: Path, whole: list[dict[str, Any]], step: int, every: int
) -> None:
    """Exit code 75, one checkpoint, and each rank's losses are the same bits in the end.

    Step 5 stops at the end of an epoch; ``every`` is the number of batches in one step.
    """
    if every != 1:
        whole = values(ranks.run("train", 2, tmp_path / "a/whole", every=every))
    cut = {"script": {str(step): STOP}, "every": every}
    first = values(ranks.run("train", 2, tmp_path / "b/one", **cut))
    second = values(ranks.run("train", 2, tmp_path / "b/two", every=every))

    assert [rank["exit"] for rank in first] == [75, 75]
    assert first[0]["saved"] == first[1]["saved"] == [step + 1]
    assert first[0]["files"] == [f"step-{step + 1}"]
    assert [rank["exit"] for rank in second] == [0, 0]
    assert first[0]["batches"] + second[0]["batches"] == 18
    for number in range(2):
        assert merged(first[number], second[number]) == whole[number]["losses"]


def test_one_process_resumes_in_the_middle(ranks: Ranks, tmp_path: Path) -> None:
    """The order of a shuffling loader is found again, and dropout's numbers."""
    whole = values(ranks.run("train", 1, tmp_path / "a/whole"))
    first = values(ranks.run("train", 1, tmp_path / "b/one", script={"16": STOP}))
    second = values(ranks.run("train", 1, tmp_path / "b/two"))

    assert len(first[0]["losses"]) == 17
    assert merged(first[0], second[0]) == whole[0]["losses"]


@pytest.mark.parametrize("where", ["step", "save", "evaluation"])
def test_a_cable_is_pulled(
    ranks: Ranks, tmp_path: Path, whole: list[dict[str, Any]], where: str
) -> None:
    """The run stalls, holds at one step on all ranks while the agent says so, and loses nothing."""
    if netns.missing():
        pytest.skip(netns.missing())
    with two_nodes() as nodes:
        found = values(
            ranks.run(
                "train", 2, tmp_path / "run", pull=where, pull_s=1.5,
                adapter={"hold_on": ["network"], "checkpoint_every_steps": 9}, **nodes,
            )
        )  # fmt: skip

    assert [rank["losses"] for rank in found] == [rank["losses"] for rank in whole]
    assert found[0]["held_at"] == found[1]["held_at"] != []
    assert all(1.5 < rank["longest_s"] < 12.0 for rank in found), found
    assert found[0]["saved"] == found[1]["saved"] == [9, 18]


def test_the_newest_two_stay_and_are_uploaded(ranks: Ranks, tmp_path: Path) -> None:
    """Older checkpoints go; every one was uploaded whole, with the parts of all ranks."""
    there = tmp_path / "there"
    found = values(
        ranks.run(
            "train", 2, tmp_path / "run",
            adapter={"checkpoint_every_steps": 6, "upload_to": f"{there}/",
                     "spool": str(tmp_path / "spool")},
        )
    )  # fmt: skip

    assert found[0]["files"] == ["step-12", "step-18"]
    assert sorted(path.name for path in there.iterdir()) == ["step-12", "step-18", "step-6"]
    for folder in there.iterdir():
        arrived = {path.name for path in folder.iterdir()}
        assert {"random_states_0.pkl", "random_states_1.pkl", "model.safetensors"} <= arrived


def test_a_save_is_vetoed_while_it_has_nowhere_to_go(ranks: Ranks, tmp_path: Path) -> None:
    """With checkpoint_to="remote" one rank's uploads on hold veto the saves of all."""
    held = {"uploads": "hold", "network": "down", "cause": ["eth0 lost carrier"]}
    found = values(
        ranks.run(
            "train", 2, tmp_path / "run", script={"4": held, "12": {}},
            adapter={"checkpoint_every_steps": 3, "checkpoint_to": "remote"},
        )
    )  # fmt: skip

    saved = found[0]["saved"]
    assert saved == found[1]["saved"]
    assert saved == [3, 13, 15, 18]


def test_accelerates_own_trigger(ranks: Ranks, tmp_path: Path) -> None:
    """A loop that looks at check_trigger() saves once, on every rank, at the same step."""
    found = values(ranks.run("by_hand", 2, tmp_path / "run", script={"3": BATTERY}))

    assert [rank["saved"] for rank in found] == [[4], [4]]


def test_a_draft_is_no_checkpoint(ranks: Ranks, tmp_path: Path) -> None:
    """What a run left half written is neither resumed from nor in the way."""
    for name in ("step-99.part", "step-4.part"):
        (tmp_path / "work/checkpoints" / name).mkdir(parents=True)
    found = values(ranks.run("train", 2, tmp_path / "run", script={"3": STOP}))

    assert found[0]["files"] == ["step-4", "step-99.part"]
    assert min(map(int, found[0]["losses"])) == 1


def test_a_missing_package_is_named() -> None:
    """Without accelerate the import says what to install."""
    code = "import sys; sys.modules['accelerate'] = None; import linkhold.client.accelerate"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (
        "linkhold.client.accelerate needs the package accelerate: pip install accelerate"
        in (done.stderr.splitlines()[-1])
    )
