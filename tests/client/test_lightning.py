"""The adapter for Lightning: real Trainers over two processes."""

from __future__ import annotations

import importlib.util
import sys
from typing import TYPE_CHECKING, Any

import pytest

from client.ranks import Ranks
from support import netns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

if importlib.util.find_spec("lightning") is None or importlib.util.find_spec("torch") is None:
    pytest.skip("lightning is not installed (pip install lightning)", allow_module_level=True)

from client.trainer_scene import BATTERY, STOP, merged, two_nodes, values
from client.trainer_script import stop_script


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """The process that loads Lightning once and forks every rank."""
    script = __file__.replace("test_lightning", "trainer_ranks")
    ranks = Ranks(script, "client.lightning_jobs")
    yield ranks
    ranks.close()


@pytest.fixture(scope="module")
def whole(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A run of two ranks that nothing disturbs."""
    return values(ranks.run("train", 2, tmp_path_factory.mktemp("whole") / "run"))


@pytest.mark.parametrize("step", [3])
def test_stopped_and_resumed_as_if_never_stopped(
    ranks: Ranks, tmp_path: Path, whole: list[dict[str, Any]], step: int
) -> None:
    """Exit code 75, one checkpoint, and each rank's losses are the same bits in the end."""
    first = values(ranks.run("train", 2, tmp_path / "one", script={str(step): STOP}))
    second = values(ranks.run("train", 2, tmp_path / "two"))

    assert [rank["exit"] for rank in first] == [75, 75]
    assert first[0]["saved"] == first[1]["saved"] == [max(map(int, first[0]["losses"]))]
    assert [rank["exit"] for rank in second] == [0, 0]
    assert set(first[0]["losses"]).isdisjoint(second[0]["losses"])
    for number in range(2):
        assert merged(first[number], second[number]) == whole[number]["losses"]


def test_stopped_at_the_end_of_an_epoch(ranks: Ranks, tmp_path: Path) -> None:
    """Every batch is trained on once, in its order.

    Without dropout: on such a resume Lightning leaves the evaluation out, and what that draws.
    """
    plain = {"dropout": 0.0}
    whole = values(ranks.run("train", 2, tmp_path / "a/whole", **plain))
    first = values(ranks.run("train", 2, tmp_path / "b/one", script={"5": STOP}, **plain))
    second = values(ranks.run("train", 2, tmp_path / "b/two", **plain))

    assert max(map(int, first[0]["losses"])) == 6
    for number in range(2):
        assert merged(first[number], second[number]) == whole[number]["losses"]


@pytest.mark.parametrize("workers", [0, 2])
def test_one_process_resumes_in_the_middle(ranks: Ranks, tmp_path: Path, workers: int) -> None:
    """The order of a shuffling loader is found again, its seeds too, and dropout's numbers."""
    whole = values(ranks.run("train", 1, tmp_path / "a/whole", workers=workers))
    cut = {"script": {"16": STOP}, "workers": workers}
    first = values(ranks.run("train", 1, tmp_path / "b/one", **cut))
    second = values(ranks.run("train", 1, tmp_path / "b/two", workers=workers))

    assert len(first[0]["losses"]) < 24 < len(whole[0]["losses"])
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
                "train", 2, tmp_path / "run", pull=where, pull_s=1.5, own=9,
                callback={"hold_on": ["network"]}, **nodes,
            )
        )  # fmt: skip

    assert [rank["losses"] for rank in found] == [rank["losses"] for rank in whole]
    assert found[0]["held_at"] == found[1]["held_at"] != []
    assert all(1.5 < rank["longest_s"] < 12.0 for rank in found), found
    assert found[0]["saved"] == found[1]["saved"] == [9, 18]


def test_a_forced_checkpoint(ranks: Ranks, tmp_path: Path, whole: list[dict[str, Any]]) -> None:
    """Asked for once, saved once by all ranks; training is not changed by it, and goes on."""
    found = values(ranks.run("train", 2, tmp_path / "run", script={"9": BATTERY}))

    assert found[0]["saved"] == found[1]["saved"]
    assert len(found[0]["saved"]) == 1
    assert found[0]["files"] == [f"linkhold-step={found[0]['saved'][0]}.ckpt"]
    assert [rank["losses"] for rank in found] == [rank["losses"] for rank in whole]


def test_a_stop_goes_before_what_lightning_would_do(ranks: Ranks, tmp_path: Path) -> None:
    """No evaluation, no waiting for min_steps, and no checkpoint of half an epoch as a whole."""
    found = values(
        ranks.run(
            "train", 2, tmp_path / "run", script={"8": STOP}, own=3,
            trainer={"min_steps": 17, "min_epochs": 3},
        )
    )  # fmt: skip

    end = max(map(int, found[0]["losses"]))
    assert end < 12
    assert found[0]["evaluated"] == [6]
    assert [rank["exit"] for rank in found] == [75, 75]
    assert found[0]["files"] == [f"linkhold-step={end}.ckpt"]


def test_half_an_epoch_is_not_kept_as_a_whole_one(ranks: Ranks, tmp_path: Path) -> None:
    """A ModelCheckpoint that saves at the end of epochs, in the same folder, misleads no resume."""
    whole = values(ranks.run("beside", 1, tmp_path / "a/whole", epochs=2))
    first = values(ranks.run("beside", 1, tmp_path / "b/one", script={"15": STOP}, epochs=2))
    second = values(ranks.run("beside", 1, tmp_path / "b/two", epochs=2))

    assert first[0]["files"] == ["epoch=0-step=12.ckpt", "linkhold-step=16.ckpt"]
    assert set(first[0]["losses"]).isdisjoint(second[0]["losses"])
    assert merged(first[0], second[0]) == whole[0]["losses"]


def test_a_run_that_was_at_its_end_is_not_stopped(ranks: Ranks, tmp_path: Path) -> None:
    """A stop that comes with the last step of all ends nothing: the run is done, exit code 0."""
    found = values(ranks.run("train", 1, tmp_path / "run", script={"35": STOP}))

    assert found[0]["stopped"] is False
    assert found[0]["exit"] == 0
    assert found[0]["saved"] == [36]


def test_remote_saves_wait_on_the_local_disk(ranks: Ranks, tmp_path: Path) -> None:
    """While uploads are held nothing is written to its place, and all of it comes there later."""
    away, local = tmp_path / "away", tmp_path / "local"
    held = {"uploads": "hold", "network": "down", "cause": ["eth0 lost carrier"]}
    found = values(
        ranks.run(
            "remote", 2, tmp_path / "run", away=str(away), local=str(local),
            script={"2": held, "4": {**held, **BATTERY}, "14": {}},
        )
    )  # fmt: skip

    forced = f"linkhold-step={found[0]['saved'][0]}.ckpt"
    seen = found[0]["seen"]
    assert seen["2"] == {"away": [], "local": []}
    assert seen["10"] == {"away": [], "local": [forced, "own-9.ckpt"]}
    assert seen["end"]["away"] == [forced, "own-18.ckpt", "own-9.ckpt"]


def test_every_checkpoint_is_uploaded_and_removed_there(ranks: Ranks, tmp_path: Path) -> None:
    """upload_to mirrors what the Trainer keeps: with save_top_k=1 the last one is left."""
    there = tmp_path / "there"
    found = values(
        ranks.run("mirror", 2, tmp_path / "run", upload_to=f"{there}/", script={"7": BATTERY})
    )

    own = [path.name for path in (tmp_path / "work/own").iterdir()]
    assert sorted(path.name for path in there.iterdir()) == sorted([*found[0]["files"], *own])
    assert len(own) == len(found[0]["files"]) == 1


def test_a_missing_package_is_named() -> None:
    """Without Lightning the import says what to install."""
    import subprocess

    code = (
        "import sys; sys.modules['lightning'] = None; sys.modules['pytorch_lightning'] = None\n"
        "import linkhold.client.lightning"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )

    assert (
        "linkhold.client.lightning needs the package lightning: pip install lightning"
        in (done.stderr.splitlines()[-1])
    )


BODY = """
import atexit
import lightning.pytorch as pl

if "LOCAL_RANK" not in os.environ:  # longer than Lightning's look at its children, every 5 s
    atexit.register(time.sleep, 6)

class Model(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = Net()
    def training_step(self, batch, _):
        return self.net(**batch)["loss"]
    def on_train_batch_end(self, *_):
        note(self.global_step)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

def Trainer(*_, callbacks):
    return pl.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=10_000, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, callbacks=callbacks,
    )

model, loader = Model(), torch.utils.data.DataLoader(Numbers(), 4)
"""


def test_a_script_that_lightning_itself_spreads_ends_with_75(tmp_path: Path) -> None:
    """Lightning starts rank 1 and kills rank 0 when rank 1 ends with a code: here it does not."""
    ended = stop_script(tmp_path, "lightning", BODY, sys.executable)

    assert ended["code"] == 75, ended["log"][-3000:]
    assert ended["marker"]["code"] == 75
    saved = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert saved == [f"linkhold-step={ended['marker']['step']}.ckpt"]
    assert "Traceback" not in ended["log"]


def test_what_cannot_work_is_refused(tmp_path: Path) -> None:
    """A wrong argument, or a strategy whose processes cannot end the program: said at once."""
    import lightning.pytorch as pl
    import torch

    from linkhold.client.lightning import HoldCallback, ResumableLoader

    class Endless(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            yield 1

    with pytest.raises(ValueError, match=r'checkpoint_to="remote": .* write local=FOLDER'):
        HoldCallback(tmp_path, checkpoint_to="remote")
    with pytest.raises(ValueError, match="keep: 0 is less than 1"):
        HoldCallback(tmp_path, keep=0)
    with pytest.raises(TypeError, match="an iterable data set cannot be resumed"):
        ResumableLoader(Endless())
    spawned = pl.Trainer(accelerator="cpu", devices=2, strategy="ddp_spawn", logger=False)
    with pytest.raises(ValueError, match=r'write Trainer\(strategy="ddp"\)'):
        HoldCallback(tmp_path).setup(spawned, None, "fit")
