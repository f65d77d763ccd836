"""What ranks do in the tests of the adapter for Lightning: a real Trainer with DDP."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lightning.pytorch as pl
import torch
from torch.utils.data import DataLoader

from client.trainer_scene import Net, Numbers, Scene, documented
from linkhold.client.lightning import HoldCallback, ResumableLoader

if TYPE_CHECKING:
    from client.rank_here import Here

for name in ("lightning.pytorch", "lightning.fabric"):
    logging.getLogger(name).setLevel(logging.ERROR)


class Model(pl.LightningModule):
    """Trains :class:`Net`; ``pull`` says where rank 0 loses its link: step, save, evaluation."""

    def __init__(self, scene: Scene, pull: str = "", pull_s: float = 0.0) -> None:
        super().__init__()
        self.net = Net()
        self.scene = scene
        self.pull, self.pull_s = pull, pull_s

    def _maybe_pull(self, where: str) -> None:
        if self.pull == where and self.global_rank == 0 and self.global_step >= 8:
            self.pull = ""
            assert self.scene.hold is not None
            self.scene.pull(self.pull_s, self.scene.hold)

    def training_step(self, batch: Any, _index: int) -> Any:
        self._maybe_pull("step")
        loss = self.net(**batch)["loss"]
        self.last = float(loss.detach())
        return loss

    def validation_step(self, batch: Any, _index: int) -> None:
        if self.trainer.sanity_checking:
            return
        self._maybe_pull("evaluation")
        self.log("val", self.net(**batch)["loss"], sync_dist=True)

    def on_validation_epoch_end(self) -> None:
        if not self.trainer.sanity_checking:
            self.scene.evaluated.append(self.global_step)

    def on_save_checkpoint(self, checkpoint: Any) -> None:
        self._maybe_pull("save")
        self.scene.saved.append(self.global_step)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


class Watch(pl.Callback):
    """Notes each step for the test, after the adapter."""

    def __init__(self, scene: Scene, hold: HoldCallback) -> None:
        self.scene, self.hold = scene, hold

    def on_train_batch_end(self, trainer: Any, module: Any, *_: Any) -> None:
        self.scene.after(trainer.global_step, module.last, self.hold.hold)


def train(
    here: Here,
    script: dict[str, Any] | None = None,
    pull: str = "",
    pull_s: float = 0.0,
    epochs: int = 3,
    workers: int = 0,
    callback: dict[str, Any] | None = None,
    trainer: dict[str, Any] | None = None,
    own: int | None = None,
    dropout: float = 0.3,
    extra: list[Any] | None = None,
) -> Any:
    """Train by the documented lines. ``own``: steps between saves of a ModelCheckpoint."""
    speaks = here.rank == 0 if extra else here.last
    scene = Scene(here.rank, here.folder.parent, script if speaks else None)
    os.environ["LINKHOLD_RUN_DIR"] = str(scene.run_dir)
    work = here.folder.parent / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    pl.seed_everything(3, verbose=False)
    model = Model(scene, pull, pull_s)
    model.net.layers[2].p = dropout  # type: ignore[assignment]
    torch.manual_seed(100 + here.rank)
    made: list[HoldCallback] = []

    def adapter(*arguments: Any) -> HoldCallback:
        given = {**(callback or {})}
        where = given.pop("folder", None)
        made.append(HoldCallback(*([where] if where else arguments), **given))
        return made[-1]

    def make_trainer(*_: Any, callbacks: list[Any]) -> pl.Trainer:
        more: list[Any] = [Watch(scene, callbacks[0]), *(extra or [])]
        if own is not None:
            more.append(pl.callbacks.ModelCheckpoint("own", every_n_train_steps=own, save_top_k=1))
        return pl.Trainer(
            accelerator="cpu",
            devices=here.world,
            strategy="ddp" if here.world > 1 else "auto",
            max_epochs=epochs,
            logger=False,
            enable_checkpointing=own is not None or extra is not None,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[*callbacks, *more],
            **(trainer or {}),
        )

    lines = documented("lightning").replace("import HoldCallback", "import HoldCallback as _")
    names = {
        "HoldCallback": adapter,
        "Trainer": make_trainer,
        "model": model,
        "loader": [],
    }
    loader = ResumableLoader(Numbers(), 4, shuffle=True, num_workers=workers)
    names["loader"] = loader
    model.val_dataloader = lambda: DataLoader(Numbers(), 4)  # type: ignore[method-assign]
    code = 0
    try:
        exec(lines, names)
    except SystemExit as error:
        code = int(error.code or 0)
    files = sorted(path.name for path in work.glob("checkpoints/*"))
    return scene.told(exit=code, files=files, held_s=made[0].hold.held_s, stopped=made[0].stopped)


def remote(here: Here, away: str, local: str, script: dict[str, Any]) -> Any:
    """A ModelCheckpoint whose folder is away; what is where is looked at in the middle."""
    seen: dict[str, Any] = {}

    class Look(pl.Callback):
        def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
            seen[str(trainer.global_step)] = _names(away=away, local=local)

    connect = {"folder": away, "local": local, "upload_spread_s": 0.0}
    own = pl.callbacks.ModelCheckpoint(
        away, "own-{step}", auto_insert_metric_name=False, every_n_train_steps=9, save_top_k=-1
    )
    found = train(here, script, callback=connect, extra=[Look(), own] if here.rank == 0 else [own])
    seen["end"] = _names(away=away, local=local)
    return found | {"seen": seen}


def beside(here: Here, script: dict[str, Any] | None = None, epochs: int = 2) -> Any:
    """A ModelCheckpoint as Lightning makes it by itself, in the folder of linkhold's own."""
    own = pl.callbacks.ModelCheckpoint(here.folder.parent / "work/checkpoints")
    return train(here, script, epochs=epochs, extra=[own])


def mirror(here: Here, upload_to: str, script: dict[str, Any]) -> Any:
    """A ModelCheckpoint that keeps the newest of six, uploaded by linkhold."""
    own = pl.callbacks.ModelCheckpoint(
        here.folder.parent / "work/own",
        "own-{step}",
        auto_insert_metric_name=False,
        every_n_train_steps=3,
    )
    return train(here, script, callback={"upload_to": upload_to}, extra=[own])


def _names(**folders: str) -> dict[str, list[str]]:
    return {
        name: sorted(path.name for path in Path(folder).glob("*"))
        for name, folder in folders.items()
    }
