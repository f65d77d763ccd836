"""What ranks do in the tests of the adapter for accelerate: a loop of one's own."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader

from client.trainer_scene import Net, Numbers, Scene, documented
from linkhold.client.accelerate import Trigger

if TYPE_CHECKING:
    from client.rank_here import Here


class Loop:
    """An accelerator with what it trains, and one step of training."""

    def __init__(self, here: Here, scene: Scene, pull: str, pull_s: float, every: int) -> None:
        accelerate: Any = importlib.import_module("accelerate")  # comes without types
        accelerate.utils.set_seed(3)
        self.scene, self.pull, self.pull_s = scene, pull if here.rank == 0 else "", pull_s
        self.accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=every)
        net = Net()
        self.model, self.optimizer, self.loader = self.accelerator.prepare(
            net,
            torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9),
            DataLoader(Numbers(), 4, shuffle=True),
        )
        torch.manual_seed(100 + here.rank)
        self.hold: Trigger | None = None
        self.batches = 0
        save = self.accelerator.save_state

        def save_state(*arguments: Any) -> Any:
            assert self.hold is not None
            self.maybe_pull("save")
            scene.saved.append(self.hold.steps)
            return save(*arguments)

        self.accelerator.save_state = save_state

    def maybe_pull(self, where: str) -> None:
        if self.pull == where and self.hold is not None and self.hold.steps >= 8:
            self.pull = ""
            self.scene.pull(self.pull_s, self.hold.hold)

    def train(self, batch: Any) -> None:
        """One batch; every sixth step evaluates, and gathers over the ranks."""
        assert self.hold is not None
        self.maybe_pull("step")
        with self.accelerator.accumulate(self.model):
            loss = self.model(**batch)["loss"]
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.batches += 1
        if self.hold.steps and self.hold.steps % 6 == 0 and self.accelerator.sync_gradients:
            self.maybe_pull("evaluation")
            self.accelerator.gather(loss.detach())
            self.scene.evaluated.append(self.hold.steps)
        self.last = float(loss.detach())


class Noted(Trigger):
    """Notes each step for the test, as it ends."""

    loop: Loop

    def step(self) -> None:
        before = self.steps
        try:
            super().step()
        finally:
            if self.steps != before:
                self.loop.scene.after(self.steps, self.loop.last, self.hold)


def train(
    here: Here,
    script: dict[str, Any] | None = None,
    pull: str = "",
    pull_s: float = 0.0,
    every: int = 1,
    adapter: dict[str, Any] | None = None,
) -> Any:
    """Train by the documented lines."""
    scene = Scene(here.rank, here.folder.parent, script if here.last else None)
    os.environ["LINKHOLD_RUN_DIR"] = str(scene.run_dir)
    work = here.folder.parent / "work"
    work.mkdir(exist_ok=True)
    os.chdir(work)
    loop = Loop(here, scene, pull, pull_s, every)

    def make(*given: Any) -> Noted:
        made = Noted(*given, **(adapter or {}))
        loop.hold = made
        made.loop = loop
        return made

    lines = documented("accelerate").replace("import Trigger", "import Trigger as _")
    names = {"accelerator": loop.accelerator, "loader": loop.loader, "train": loop.train}
    code = 0
    try:
        exec(lines, {"Trigger": make, **names})
    except SystemExit as error:
        code = int(error.code or 0)
    files = sorted(path.name for path in Path("checkpoints").glob("*"))
    return scene.told(exit=code, files=files, batches=loop.batches)


def by_hand(here: Here, script: dict[str, Any]) -> Any:
    """A loop that saves when accelerate's own trigger was pulled."""
    scene = Scene(here.rank, here.folder.parent, script if here.last else None)
    loop = Loop(here, scene, "", 0.0, 1)
    hold = loop.hold = Trigger(loop.accelerator, run_dir=scene.run_dir)
    for batch in loop.loader:
        loop.train(batch)
        hold.step()
        if loop.accelerator.check_trigger():
            scene.saved.append(hold.steps)
        scene.after(hold.steps, loop.last, hold.hold)
    hold.close()
    return scene.told()
