"""The Trainer of transformers holds, saves and stops with the node's agent.

::

    from linkhold.client.transformers import HoldCallback, newest_checkpoint

    hold = HoldCallback()
    trainer = Trainer(..., callbacks=[hold])
    trainer.train(resume_from_checkpoint=newest_checkpoint("out"))
    hold.exit_if_stopped()                 # exit code 75

Hooks are those of transformers/trainer.py (``_run_epoch``, ``_maybe_log_save_evaluate``): at a
step it logs, evaluates, then saves. Saving contains barriers, so every rank decides the same: by
what was agreed at ``step()`` and by the Trainer's own state, by nothing else.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from linkhold.client.adapter import Adapter, imported
from linkhold.client.agreement.torch_group import world_size
from linkhold.kept import read_kept

if TYPE_CHECKING:
    import os

    from linkhold.client.hold import Hold

_TrainerCallback: Any = imported(
    ("transformers.trainer_callback",), "transformers", "linkhold.client.transformers"
).TrainerCallback
MOST_STATE_BYTES = 1 << 28
"""A million steps that were logged are about 200 MB."""
STATE_FILE = "trainer_state.json"
"""Written last of all files of a checkpoint (``Trainer._save_checkpoint``)."""
BEST = "best"


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens at a boundary, and what is put off (``owed``) to a later one."""

    save: bool
    evaluate: bool
    save_owed: bool = False
    evaluate_owed: bool = False


def plan(
    *,
    save: bool,
    evaluate: bool,
    due: bool,
    may_save: bool,
    stopping: bool,
    last: bool = False,
) -> Plan:
    """Return what to do. Pure.

    ``save`` and ``evaluate`` are the Trainer's wish or put off from before, ``due`` is linkhold's,
    ``last`` is the last step of all. What is asked for goes before an evaluation, which may take
    long, and with ``save_strategy="best"`` would decide about the save. While there is nowhere to
    save to, a save is put off.
    """
    saves = due or (save and may_save)
    put_off = evaluate and (stopping or (due and not last))
    return Plan(
        save=saves,
        evaluate=evaluate and not put_off,
        save_owed=save and not saves,
        evaluate_owed=put_off and not stopping,
    )


class HoldCallback(Adapter, _TrainerCallback):  # type: ignore[misc]
    """Holds training, forces and puts off saves, stops. All ranks do so at the same step.

    ``upload_to`` is a folder of any storage of fsspec (``"s3://bucket/run/"``) where each
    checkpoint goes beside training, by rank 0. Other arguments: see
    :class:`linkhold.client.adapter.Adapter`.
    """

    def __init__(
        self,
        *,
        hold: Hold | None = None,
        upload_to: str | os.PathLike[str] | None = None,
        storage_options: dict[str, Any] | None = None,
        **connect: Any,
    ) -> None:
        super().__init__(hold, connect, upload_to=upload_to, storage_options=storage_options)
        self._plan = Plan(save=False, evaluate=False)
        self._written: Path | None = None
        self._saved_step = -1
        self._measuring: contextlib.AbstractContextManager[None] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Connect; torch.distributed is initialised since the Trainer was made."""
        del args, state, control, kwargs
        self._plan, self._written = Plan(save=False, evaluate=False), None
        self._begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Hold here if need be, and decide about saving and stopping."""
        del kwargs
        self._measuring = None
        hold = self._step(state.global_step)
        self._upload_written(state)  # a step lies in between: every rank has written its part
        due = hold.checkpoint_due(state.global_step)
        last = state.global_step >= state.max_steps
        self.stopped = self.stopped or (hold.stop_due and not last)
        self._carry_out(args, control, due=due, last=last)
        return control

    def on_substep_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Feed watchdogs between the steps of a long accumulation."""
        del args, state, control, kwargs
        self.hold.feed()

    def on_prediction_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Feed watchdogs during an evaluation, which may also be one outside of training."""
        del args, state, control, kwargs
        if self._hold is not None:
            self._hold.feed()

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Put off what an epoch's end would save or evaluate, if need be."""
        del kwargs
        if self.stopped and self._saved_step == state.global_step:
            control.should_save = False  # the end of a broken-off epoch is no other place
        self._carry_out(args, control, due=False, last=True)
        return control

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Take note of a checkpoint; called on every rank."""
        del kwargs
        measuring, self._measuring = self._measuring, None
        if measuring is not None:
            measuring.__exit__(None, None, None)
        self._saved_step = state.global_step
        self._written = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        # Not before: the checkpoint keeps the control, and would stop whoever resumes from it.
        control.should_training_stop = control.should_training_stop or self.stopped
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Send the last checkpoint on its way, and close."""
        del args, control, kwargs
        if self._written is not None and self._upload_to is not None and world_size() > 1:
            import torch.distributed as dist  # noqa: PLC0415 - there are ranks, so it is loaded

            dist.barrier()  # the last save may be under way on other ranks
        self._upload_written(state)
        self._end()

    def _carry_out(self, args: Any, control: Any, *, due: bool, last: bool) -> None:
        before = self._plan
        self._plan = now = plan(
            save=control.should_save or before.save_owed,
            evaluate=control.should_evaluate or before.evaluate_owed,
            due=due,
            may_save=self.hold.may_save,
            stopping=self.stopped,
            last=last,
        )
        control.should_save, control.should_evaluate = now.save, now.evaluate
        by_result = now.evaluate and args.save_strategy == BEST
        if now.save and not by_result:
            self._measuring = self.hold.saving()
            self._measuring.__enter__()
        elif self.stopped:
            control.should_training_stop = True

    def _upload_written(self, state: Any) -> None:
        written, self._written = self._written, None
        if written is not None and state.is_world_process_zero:
            self._upload(written)


def newest_checkpoint(output_dir: str | os.PathLike[str]) -> str | None:
    """Return the newest whole checkpoint of a Trainer's ``output_dir``, None without one.

    transformers' own ``get_last_checkpoint()`` also returns one that was being written when the
    run died. Raises nothing for a folder that is not there.
    """
    found = {}
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in Path(output_dir).iterdir():
            name = re.fullmatch(r"checkpoint-(\d+)", path.name)
            if name is not None:
                found[int(name[1])] = path
    for step in sorted(found, reverse=True):
        if _step_of(found[step]) == step:
            return str(found[step])
    return None


def _step_of(checkpoint: Path) -> int | None:
    """Return the step that a checkpoint's state file tells, None for one that is not whole."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        content = json.loads(read_kept(checkpoint / STATE_FILE, MOST_STATE_BYTES))
        return content.get("global_step") if isinstance(content, dict) else None
    return None
