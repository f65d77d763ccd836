"""What ranks do in the tests of the adapter for transformers: a real Trainer with DDP."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers
from transformers import Trainer, TrainerCallback, TrainingArguments

from client.trainer_scene import Net, Numbers, Scene, documented
from linkhold.client.transformers import HoldCallback

if TYPE_CHECKING:
    from client.rank_here import Here

logging.getLogger("transformers").setLevel(logging.ERROR)


class Watch(TrainerCallback):
    """Notes each step for the test and pulls the cable: step, save, evaluation."""

    def __init__(self, scene: Scene, hold: HoldCallback, pull: str, pull_s: float) -> None:
        self.scene, self.hold = scene, hold
        self.pull, self.pull_s = pull, pull_s
        self.losses: list[float] = []

    def maybe_pull(self, where: str, step: int) -> None:
        if self.pull == where and step >= 8:
            self.pull = ""
            self.scene.pull(self.pull_s, self.hold.hold)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.maybe_pull("step", state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        loss, self.losses = sum(self.losses), []
        self.scene.after(state.global_step, loss, self.hold.hold)

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.maybe_pull("evaluation", state.global_step)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.scene.evaluated.append(state.global_step)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.scene.saved.append(state.global_step)


class Pulled(Trainer):
    """Tells the watch of losses, and of the middle of a save."""

    watch: Watch

    def compute_loss(self, *arguments: Any, **more: Any) -> Any:
        model: Any = self.model
        found = super().compute_loss(*arguments, **more)
        if model.training:
            loss = found[0] if isinstance(found, tuple) else found
            self.watch.losses.append(float(loss.detach()))
        return found

    def _save_rng_state(self, output_dir: str) -> None:
        self.watch.maybe_pull("save", self.state.global_step)
        super()._save_rng_state(output_dir)


def train(
    here: Here,
    script: dict[str, Any] | None = None,
    pull: str = "",
    pull_s: float = 0.0,
    callback: dict[str, Any] | None = None,
    speaker: int = 1,
    **arguments: Any,
) -> Any:
    """Train by the documented lines."""
    scene = Scene(here.rank, here.folder.parent, script if here.rank == speaker else None)
    os.environ["LINKHOLD_RUN_DIR"] = str(scene.run_dir)
    work = here.folder.parent / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    transformers.set_seed(3)
    model = Net()
    torch.manual_seed(100 + here.rank)
    made: list[HoldCallback] = []

    def adapter(*given: Any) -> HoldCallback:
        made.append(HoldCallback(*given, **(callback or {})))
        return made[-1]

    def make_trainer(*_: Any, callbacks: list[Any]) -> Trainer:
        settings: dict[str, Any] = {
            "num_train_epochs": 3,
            "per_device_train_batch_size": 4,
            "learning_rate": 0.05,
            "save_strategy": "no",
            "eval_strategy": "steps",
            "eval_steps": 5,
            "report_to": [],
            "disable_tqdm": True,
            "use_cpu": True,
            "seed": 3,
        }
        watch = Watch(scene, callbacks[0], pull if here.rank == 0 else "", pull_s)
        trainer = Pulled(
            model,
            TrainingArguments("out", **(settings | arguments)),
            train_dataset=Numbers(),
            eval_dataset=Numbers(),
            callbacks=[*callbacks, watch],
        )
        trainer.watch = watch
        return trainer

    lines = documented("transformers").replace("import HoldCallback", "import HoldCallback as _")
    code = 0
    try:
        exec(lines, {"HoldCallback": adapter, "Trainer": make_trainer})
    except SystemExit as error:
        code = int(error.code or 0)
    hold = made[0].hold
    files = sorted(path.name for path in Path("out").glob("checkpoint-*"))
    return scene.told(
        exit=code, files=files, stopped=made[0].stopped, save_s=hold.save_s, saves=_saves(work)
    )


def _saves(work: Path) -> dict[str, Any]:
    """Return the control that each checkpoint keeps."""
    return {
        path.parent.name: json.loads(path.read_text())["stateful_callbacks"]["TrainerControl"]
        for path in work.glob("out/checkpoint-*/trainer_state.json")
    }
