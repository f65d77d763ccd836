"""The Trainer of Lightning holds, saves and stops with the node's agent.

::

    from linkhold.client.lightning import HoldCallback

    hold = HoldCallback("checkpoints")
    trainer = Trainer(..., callbacks=[hold])
    trainer.fit(model, loader, ckpt_path=hold.newest)
    hold.exit_if_stopped()                 # exit code 75

``on_train_batch_end`` is the step boundary: Lightning calls it before that of any ModelCheckpoint
(``_CallbackConnector._reorder_callbacks``). Saving contains a barrier, so every rank decides the
same, by what was agreed at ``step()``.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client import generators
from linkhold.client.adapter import Adapter
from linkhold.client.agreement.torch_group import world_size
from linkhold.client.lightning_io import GatedCheckpointIO, pl, remove_stale
from linkhold.client.lightning_loader import ResumableLoader

if TYPE_CHECKING:
    from linkhold.client.hold import Hold

__all__ = ["HoldCallback", "ResumableLoader"]

MAIN_VARIABLE = "LINKHOLD_LIGHTNING_MAIN"
"""Names the process whose Lightning starts the other ranks of this node; they inherit it."""
LIMITS = ("min_epochs", "min_steps")


class HoldCallback(Adapter, pl.Callback):  # type: ignore[misc]
    """Holds training, forces checkpoints, stops. All ranks do so at the same step.

    ``folder`` is for the checkpoints that linkhold forces, and one that all nodes see; the ``keep``
    newest of them stay. ``upload_to`` is a folder of any storage of fsspec (``"s3://bucket/run/"``)
    where every checkpoint of this Trainer goes beside training, and is removed when the Trainer
    removes it. ``local`` is for Trainers that save straight to NFS or a storage: a folder on a
    local disk, where checkpoints are written whose own place is a storage, and all of them while
    uploads are on hold; they are brought to their place later. Other arguments: see
    :class:`linkhold.client.adapter.Adapter`.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] = "checkpoints",
        *,
        keep: int = 2,
        hold: Hold | None = None,
        upload_to: str | os.PathLike[str] | None = None,
        storage_options: dict[str, Any] | None = None,
        local: str | os.PathLike[str] | None = None,
        **connect: Any,
    ) -> None:
        super().__init__(hold, connect, upload_to=upload_to, storage_options=storage_options)
        if keep < 1:
            raise ValueError(f"keep: {keep} is less than 1")
        if connect.get("checkpoint_to") == "remote":
            raise ValueError(
                'checkpoint_to="remote": Lightning cannot leave a checkpoint out; write '
                "local=FOLDER, a folder on a local disk, where checkpoints are written while "
                "uploads are on hold, and brought to their place later"
            )
        self._folder = Path(folder).absolute()
        self._keep = keep
        self._local = None if local is None else Path(local).absolute()
        self._io: GatedCheckpointIO | None = None
        self._step_seen = -1
        self._gathered: list[dict[str, Any]] | None = None
        self._kept: list[dict[str, Any]] = []
        self._limits: dict[str, Any] = {}
        self._started_by_lightning = _started_by_lightning()

    @property
    def newest(self) -> str | None:
        """The newest checkpoint in the folder, whoever made it; None without one.

        For ``trainer.fit(..., ckpt_path=hold.newest)``: every rank must find the same one, so
        what waits on a local disk does not count.
        """
        found = list(self._folder.glob("*.ckpt"))
        return str(max(found, key=lambda path: path.stat().st_mtime_ns)) if found else None

    def exit_if_stopped(self) -> None:
        """End the program resumably if linkhold ended this training; else do nothing.

        A rank that Lightning's main process started ends with 0: any other code makes Lightning
        kill the main process, whose exit code 75 is the one that counts.
        """
        try:
            super().exit_if_stopped()
        except SystemExit:
            if self._started_by_lightning:
                raise SystemExit(0) from None
            raise

    # Lightning's hooks.

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Connect; torch.distributed is initialised by now, on every rank.

        Raises :class:`ValueError` for a strategy or a plugin that this cannot work with.
        """
        del pl_module
        if stage != "fit":
            return
        launcher = trainer.strategy.launcher
        if launcher is not None and hasattr(launcher, "_start_method"):
            raise ValueError(
                "HoldCallback: processes of strategy ddp_spawn, ddp_fork or ddp_notebook cannot "
                'end this program; write Trainer(strategy="ddp")'
            )
        hold = self._begin()
        self._io = GatedCheckpointIO(
            trainer.strategy.checkpoint_io,
            hold,
            self._upload_to,
            self._storage_options,
            self._local,
        )
        trainer.strategy.checkpoint_io = self._io

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Go on with the random numbers of the run that made the checkpoint."""
        del pl_module
        self._step_seen = trainer.global_step
        kept, self._kept = self._kept, []
        if kept and len(kept) == trainer.world_size:
            generators.set_back(kept[trainer.global_rank])

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Hold here if need be, then save and stop; only where the optimizer has stepped."""
        del pl_module, outputs, batch, batch_idx
        step = trainer.global_step
        if step == self._step_seen:
            self.hold.feed()
            return
        self._step_seen = step
        hold = self._step(step)
        if hold.checkpoint_due(step) and not trainer.fast_dev_run:
            self._save(trainer, self._folder / f"linkhold-step={step}.ckpt")
        if hold.stop_due and not self.stopped and not _at_its_end(trainer):
            self._stop(trainer)

    def on_validation_batch_end(self, *arguments: Any, **more: Any) -> None:
        """Feed watchdogs during an evaluation, which may also be one outside of training."""
        del arguments, more
        if self._hold is not None:
            self._hold.feed()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Let other ranks know at once that this one failed."""
        del pl_module
        self._let_go(trainer)
        self._end_after(exception)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Close, unless :meth:`exit_if_stopped` is to do so."""
        del pl_module
        if stage == "fit":
            self._let_go(trainer)
            self._end()

    def state_dict(self) -> dict[str, Any]:
        """Return what goes into each checkpoint: random generators, of all ranks if we know them.

        Nothing is gathered here: Lightning may save on one rank alone, after an exception.
        """
        if self._gathered is None and world_size() > 1:
            return {}
        return {"random": self._gathered or [generators.keep()]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take what :meth:`state_dict` returned, to be used when training begins."""
        self._kept = state_dict.get("random", [])

    # What they do.

    def _save(self, trainer: Any, path: Path) -> None:
        self._gathered = _gather()
        with self.hold.saving(), self.io.measured_elsewhere():
            trainer.save_checkpoint(str(path))
        self._gathered = None
        if trainer.is_global_zero:
            remove_stale(self._folder, self._keep, self.io)

    @property
    def io(self) -> GatedCheckpointIO:
        """What stands between this Trainer and its checkpoints, while it fits."""
        if self._io is None:
            raise ValueError("HoldCallback: there is nothing to save outside of trainer.fit()")
        return self._io

    def _stop(self, trainer: Any) -> None:
        """End ``fit()`` at this step.

        Lightning would first reach min_steps and min_epochs, then evaluate
        (``_should_check_val_fx``), then let ModelCheckpoint save the broken-off epoch as a whole
        one: a resume from that would leave the rest of it out.
        """
        self.stopped = trainer.should_stop = True
        self.io.closed = True
        loop = trainer.fit_loop
        self._limits = {
            "limit_val_batches": trainer.limit_val_batches,
            "min_epochs": loop.min_epochs,
            "min_steps": loop.epoch_loop.min_steps,
        }
        trainer.limit_val_batches = 0
        loop.min_epochs, loop.epoch_loop.min_steps = 0, None

    def _let_go(self, trainer: Any) -> None:
        """Leave the Trainer as it was found."""
        if self._io is not None:
            trainer.strategy.checkpoint_io = self._io.checkpoint_io
            self._io = None
        limits, self._limits = self._limits, {}
        if limits:
            trainer.limit_val_batches = limits["limit_val_batches"]
            trainer.fit_loop.min_epochs = limits["min_epochs"]
            trainer.fit_loop.epoch_loop.min_steps = limits["min_steps"]


def _at_its_end(trainer: Any) -> bool:
    """Tell whether this was the last step of all: there is nothing left to stop."""
    if 0 < trainer.max_steps <= trainer.global_step:
        return True
    epochs = trainer.max_epochs
    last_epoch = epochs is not None and 0 <= epochs <= trainer.current_epoch + 1
    return bool(last_epoch and trainer.is_last_batch)


def _gather() -> list[dict[str, Any]]:
    """Return the random generators of every rank; a collective."""
    ranks, mine = world_size(), generators.keep()
    if ranks == 1:
        return [mine]
    import torch.distributed as dist  # noqa: PLC0415 - there are ranks, so it is loaded

    found: list[Any] = [None] * ranks
    dist.all_gather_object(found, mine)
    return found


def _started_by_lightning() -> bool:
    """Tell whether Lightning started this rank by running the script again.

    (lightning/fabric/strategies/launchers/subprocess_script.py; a main process has no LOCAL_RANK
    when the script makes its callback.)
    """
    if "LOCAL_RANK" not in os.environ:
        os.environ[MAIN_VARIABLE] = str(os.getpid())
        return False
    return os.environ.get(MAIN_VARIABLE) == str(os.getppid())
