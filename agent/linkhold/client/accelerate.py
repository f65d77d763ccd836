"""Loops on accelerate hold, save, stop and resume with the node's agent.

::

    from linkhold.client.accelerate import Trigger

    hold = Trigger(accelerator, "checkpoints")
    for batch in hold.batches(loader, epochs=3):    # goes on where the last checkpoint was made
        with accelerator.accumulate(model):
            train(batch)
        hold.step()                                 # holds, saves, ends with exit code 75

A loop that saves by itself leaves the folder out: then what is due pulls accelerate's own trigger,
and ``accelerator.check_trigger()`` answers yes on every rank.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client import generators
from linkhold.client.adapter import Adapter, imported

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from linkhold.client.hold import Hold

_accelerate: Any = imported(("accelerate.utils",), "accelerate", "linkhold.client.accelerate")
DRAFT = ".part"


class Trigger(Adapter):
    """Saves and resumes an ``accelerate.Accelerator``, at the same step on all its processes.

    Made after ``accelerator.prepare()``, at the same place on each. ``folder`` is one that all
    nodes see (unless the Accelerator has ``save_on_each_node``); the ``keep`` newest checkpoints
    stay in it, and go to ``upload_to`` as well, a folder of any storage of fsspec. Other arguments:
    see :class:`linkhold.client.adapter.Adapter`. Raises :class:`ValueError` for a folder where
    accelerate chooses the names itself.
    """

    def __init__(
        self,
        accelerator: Any,
        folder: str | os.PathLike[str] | None = None,
        *,
        keep: int = 2,
        hold: Hold | None = None,
        upload_to: str | os.PathLike[str] | None = None,
        storage_options: dict[str, Any] | None = None,
        **connect: Any,
    ) -> None:
        super().__init__(hold, connect, upload_to=upload_to, storage_options=storage_options)
        if keep < 1:
            raise ValueError(f"keep: {keep} is less than 1")
        self._accelerator = accelerator
        self._folder = None if folder is None else Path(folder).absolute()
        self._keep = keep
        self._place = _Place()
        if folder is not None:
            if accelerator.project_configuration.automatic_checkpoint_naming:
                raise ValueError(
                    "folder: accelerate chooses its own with automatic_checkpoint_naming=True: "
                    "turn that off, or leave folder out and save when check_trigger() says so"
                )
            accelerator.register_for_checkpointing(self._place)
        self._begin()

    @property
    def steps(self) -> int:
        """Optimizer steps so far, those before a resume included."""
        return self._place.steps

    @property
    def stop_due(self) -> bool:
        """Whether to end now, for a loop that saves by itself: call :meth:`exit`."""
        return self.hold.stop_due

    def step(self) -> None:
        """Mark the end of a batch: holds, saves and stops where an optimizer step ended.

        Raises what :meth:`linkhold.client.Hold.step` raises, and with a folder
        :class:`SystemExit` with code 75 when the run is to end.
        """
        if not self._accelerator.sync_gradients:
            self.hold.feed()
            return
        self._place.steps += 1
        hold = self._step(self.steps)
        due = hold.checkpoint_due(self.steps)
        if self._folder is None:
            if due:
                self._accelerator.set_trigger()
            return
        if due:
            self._save(self._folder)
        if hold.stop_due:
            self.exit()

    def exit(self) -> None:
        """End the program resumably, see :meth:`linkhold.client.Hold.exit`."""
        self.stopped = True
        self.exit_if_stopped()

    def close(self) -> None:
        """Finish uploads and stop listening; :meth:`batches` does it at its end."""
        self._end()

    def batches(self, loader: Any, epochs: int) -> Iterator[Any]:
        """Yield the batches of a prepared loader, from where the newest checkpoint was made.

        Order and random numbers are those of a run that was never stopped. What workers draw is
        not: they start anew.
        """
        self.resume()
        for epoch in range(self._place.epoch, epochs):
            if hasattr(loader, "set_epoch"):
                loader.set_epoch(epoch)
            yield from self._pass(loader)
            self._place.epoch, self._place.batch = epoch + 1, 0
        self.close()

    def resume(self) -> int:
        """Load the newest checkpoint of the folder, where there is one; return :attr:`steps`."""
        if self._folder is None:
            return self.steps
        name: list[str | None] = [None]
        if self._accelerator.is_main_process:
            found = _found(self._folder)
            name = [found[-1].name if found else None]
        _accelerate.broadcast_object_list(name)
        if name[0] is not None:
            self._accelerator.load_state(str(self._folder / name[0]))
        return self.steps

    def _pass(self, loader: Any) -> Iterator[Any]:
        place, at_save = self._place, None
        generator = getattr(loader, "synchronized_generator", None)
        if place.began is None:
            place.began = generators.keep()
            place.order = None if generator is None else generator.get_state()
        else:
            at_save = generators.keep()
            generators.set_back(place.began)
            if generator is not None and place.order is not None:
                generator.set_state(place.order)
            loader = self._accelerator.skip_first_batches(loader, place.batch)
        batches = iter(loader)
        while True:
            batch = next(batches, self)
            if at_save is not None:  # the order is drawn anew by now
                generators.set_back(at_save)
                at_save = None
            if batch is self:
                break
            place.batch += 1
            yield batch
        place.began = None

    def _save(self, folder: Path) -> None:
        accelerator, final = self._accelerator, folder / f"step-{self.steps}"
        draft = final.with_name(final.name + DRAFT)
        with self.hold.saving():
            if self._writes:
                shutil.rmtree(draft, ignore_errors=True)  # of a run that died meanwhile
            accelerator.wait_for_everyone()
            accelerator.save_state(str(draft))
            accelerator.wait_for_everyone()
            if self._writes:
                shutil.rmtree(final, ignore_errors=True)
                draft.rename(final)
            accelerator.wait_for_everyone()
        if self._writes:
            for old in _found(folder)[: -self._keep]:
                shutil.rmtree(old, ignore_errors=True)
        if accelerator.is_main_process:
            self._upload(final)

    @property
    def _writes(self) -> bool:
        """Whether this process is the one of those that share the folder to rename in it."""
        accelerator = self._accelerator
        if accelerator.project_configuration.save_on_each_node:
            return bool(accelerator.is_local_main_process)
        return bool(accelerator.is_main_process)


class _Place:
    """Where a loop is; accelerate keeps it in each checkpoint."""

    def __init__(self) -> None:
        self.steps = self.epoch = self.batch = 0
        self.began: dict[str, Any] | None = None
        """The random generators as this pass over the data began; None between passes."""
        self.order: Any = None
        """The same of the generator that accelerate gave to the sampler."""

    def state_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _found(folder: Path) -> list[Path]:
    """Return the whole checkpoints of a folder, the newest last."""
    found = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in folder.iterdir():
            name = re.fullmatch(r"step-(\d+)", path.name)
            if name is not None:
                found[int(name[1])] = path
    return [found[step] for step in sorted(found)]
