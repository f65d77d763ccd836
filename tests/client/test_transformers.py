"""The adapter for transformers: what it decides, and real Trainers over two processes."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.ranks import Ranks
from support import netns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if importlib.util.find_spec("transformers") is None or importlib.util.find_spec("torch") is None:
    pytest.skip("transformers is not installed (pip install transformers)", allow_module_level=True)

from client.trainer_scene import BATTERY, STOP, merged, two_nodes, values
from client.trainer_script import stop_script
from linkhold.client.transformers import HoldCallback, newest_checkpoint, plan

HELD = {"uploads": "hold", "network": "down", "cause": ["eth0 lost carrier"]}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """The process that loads transformers once and forks every rank."""
    script = __file__.replace("test_transformers", "trainer_ranks")
    ranks = Ranks(script, "client.transformers_jobs")
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def whole(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A run of two ranks that nothing disturbs."""
    return values(ranks.run("train", 2, tmp_path_factory.mktemp("whole") / "run"))


@given(
    save=st.booleans(),
    evaluate=st.booleans(),
    due=st.booleans(),
    may_save=st.booleans(),
    stopping=st.booleans(),
    last=st.booleans(),
)
def test_nothing_that_is_wished_for_is_forgotten(**wish: bool) -> None:
    """A save or an evaluation happens or is owed, but for an evaluation of a run that stops."""
    done = plan(**wish)

    assert done.save or done.save_owed or not wish["save"]
    assert not (done.save and done.save_owed)
    assert done.evaluate or done.evaluate_owed or not wish["evaluate"] or wish["stopping"]
    assert done.save or not wish["due"]
    assert not done.save or wish["due"] or wish["may_save"]
    assert not (wish["stopping"] and done.evaluate)
    assert not wish["last"] or not done.evaluate_owed


@pytest.mark.parametrize("step", [8, 11])
def test_stopped_and_resumed_as_if_never_stopped(
    ranks: Ranks, tmp_path: Path, whole: list[dict[str, Any]], step: int
) -> None:
    """Exit code 75, one checkpoint, and each rank's losses are the same bits in the end."""
    first = values(ranks.run("train", 2, tmp_path / "one", script={str(step): STOP}))
    second = values(ranks.run("train", 2, tmp_path / "two"))

    end = max(map(int, first[0]["losses"]))
    assert [rank["exit"] for rank in first] == [75, 75]
    assert first[0]["saved"] == first[1]["saved"] == [end]
    assert not any(saved["args"]["should_training_stop"] for saved in first[0]["saves"].values())
    assert [rank["exit"] for rank in second] == [0, 0]
    assert set(first[0]["losses"]).isdisjoint(second[0]["losses"])
    for number in range(2):
        assert merged(first[number], second[number]) == whole[number]["losses"]


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
                "train", 2, tmp_path / "run", pull=where, pull_s=1.5, save_strategy="steps",
                save_steps=9, callback={"hold_on": ["network"]}, **nodes,
            )
        )  # fmt: skip

    assert [rank["losses"] for rank in found] == [rank["losses"] for rank in whole]
    assert found[0]["held_at"] == found[1]["held_at"] != []
    assert all(1.5 < rank["longest_s"] < 12.0 for rank in found), found
    assert found[0]["saved"] == found[1]["saved"] == [9, 18]


def test_a_forced_save(ranks: Ranks, tmp_path: Path, whole: list[dict[str, Any]]) -> None:
    """Asked for once, saved once by all ranks and measured; training goes on as it would have."""
    found = values(ranks.run("train", 2, tmp_path / "run", script={"6": BATTERY}))

    assert found[0]["saved"] == found[1]["saved"] == [7]
    assert all(rank["save_s"] > 0 for rank in found)
    assert [rank["losses"] for rank in found] == [rank["losses"] for rank in whole]


@pytest.mark.parametrize("strategy", ["no", "best", "steps"])
def test_a_forced_save_goes_before_an_evaluation(
    ranks: Ranks, tmp_path: Path, strategy: str
) -> None:
    """At a step that evaluates the save comes first, and no result can take it back."""
    best: dict[str, Any] = {"metric_for_best_model": "loss", "greater_is_better": True}
    found = values(
        ranks.run(
            "train", 2, tmp_path / "run", script={"9": BATTERY}, save_strategy=strategy,
            save_steps=1000, **(best if strategy == "best" else {}),
        )
    )  # fmt: skip

    for rank in found:
        assert 10 in rank["saved"]
        assert rank["evaluated"] == [5, 11, 15, 18]


def test_saves_are_put_off_while_there_is_nowhere_to_save_to(ranks: Ranks, tmp_path: Path) -> None:
    """With checkpoint_to="remote", one rank's uploads on hold put off the saves of all."""
    found = values(
        ranks.run(
            "train", 2, tmp_path / "run", save_strategy="steps", save_steps=3,
            script={"4": HELD, "12": {}}, callback={"checkpoint_to": "remote"},
        )
    )  # fmt: skip

    saved = found[0]["saved"]
    assert saved == found[1]["saved"]
    assert saved == [3, 13, 15, 18]


def test_a_stop_ends_without_an_evaluation(ranks: Ranks, tmp_path: Path) -> None:
    """Neither the step nor the end of its epoch evaluates or saves once more."""
    found = values(
        ranks.run(
            "train", 2, tmp_path / "run", script={"9": STOP}, eval_strategy="epoch",
            save_strategy="epoch",
        )
    )  # fmt: skip

    assert found[0]["evaluated"] == [6]
    assert found[0]["saved"] == found[1]["saved"] == [6, 10]
    assert [rank["exit"] for rank in found] == [75, 75]


def test_a_run_that_was_at_its_end_is_not_stopped(ranks: Ranks, tmp_path: Path) -> None:
    """A stop that comes with the last step of all ends nothing: the run is done, exit code 0."""
    found = values(ranks.run("train", 2, tmp_path / "run", script={"17": STOP}))

    assert [rank["stopped"] for rank in found] == [False, False]
    assert [rank["exit"] for rank in found] == [0, 0]


def test_checkpoints_are_uploaded_whole(ranks: Ranks, tmp_path: Path) -> None:
    """What arrives has the parts of all ranks, the last one's too."""
    there = tmp_path / "there"
    values(
        ranks.run(
            "train", 2, tmp_path / "run", save_strategy="steps", save_steps=9,
            callback={"upload_to": f"{there}/"},
        )
    )  # fmt: skip

    for name in ("checkpoint-9", "checkpoint-18"):
        arrived = {path.name for path in (there / name).iterdir()}
        assert {"rng_state_0.pth", "rng_state_1.pth", "trainer_state.json"} <= arrived


def test_newest_checkpoint_passes_over_a_broken_one(tmp_path: Path) -> None:
    """One that was being written when the run died is not resumed from."""
    for step, content in [
        (9, json.dumps({"global_step": 9})),
        (10, json.dumps({"global_step": 10})),
        (11, '{"global_step": 1'),
        (12, None),
        (13, "[]"),
    ]:
        (tmp_path / f"checkpoint-{step}").mkdir()
        if content is not None:
            (tmp_path / f"checkpoint-{step}/trainer_state.json").write_text(content)
    (tmp_path / "checkpoint-best").mkdir()

    assert newest_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert newest_checkpoint(tmp_path / "nothing") is None


def test_wrong_arguments_are_named() -> None:
    """What Hold.connect() does not take is said when the callback is made."""
    with pytest.raises(TypeError, match=r"HoldCallback: .*'hold_when' \(see Hold.connect\)"):
        HoldCallback(hold_when=("network",))


def test_a_missing_package_is_named() -> None:
    """Without transformers the import says what to install."""
    code = "import sys; sys.modules['transformers'] = None; import linkhold.client.transformers"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (
        "linkhold.client.transformers needs the package transformers: pip install"
        in (done.stderr.splitlines()[-1])
    )


BODY = """
import transformers

class Told(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        note(state.global_step)

def Trainer(*_, callbacks):
    settings = transformers.TrainingArguments(
        "out", num_train_epochs=10_000, per_device_train_batch_size=4, use_cpu=True,
        save_strategy="no", report_to=[], disable_tqdm=True,
    )
    return transformers.Trainer(
        Net(), settings, train_dataset=Numbers(), callbacks=[*callbacks, Told()]
    )
"""


def test_a_script_under_torchrun_ends_with_75(tmp_path: Path) -> None:
    """Nothing is started again though restarts are left, and the launcher tells the code."""
    torchrun = (sys.executable, "-m", "linkhold.client.torchrun", "--standalone")
    ended = stop_script(
        tmp_path, "transformers", BODY, *torchrun, "--nproc_per_node=2", "--max_restarts=3"
    )

    assert ended["code"] == 75, ended["log"][-3000:]
    assert (tmp_path / f"out/checkpoint-{ended['marker']['step']}/trainer_state.json").exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == [
        f"checkpoint-{ended['marker']['step']}"
    ]
