"""A rank of the bench ``interruptions``: a small DDP model over gloo, one line for each step done.

``interruptions_job.py FOLDER N`` trains as most scripts do; with ``--hold`` it has linkhold's
lines, as docs/training.md has them. Both save every N steps and resume from the newest save.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEP_S = 0.04
"""What a step computes is played by a sleep: two cores have to carry many jobs at once."""
PR_SET_PDEATHSIG = 1


def main(folder: Path, save_every: int, *, with_hold: bool) -> None:
    """Train until somebody ends this process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # never outlive torchrun
    dist.init_process_group("gloo")
    rank, log = dist.get_rank(), (folder / f"steps{dist.get_rank()}").open("ab", buffering=0)
    torch.manual_seed(7)
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    saved = folder / "checkpoint.pt"
    first = _load(saved, model)
    if with_hold:
        from linkhold.client import Hold  # the other arm has no linkhold

        hold = Hold.connect(agree="torch", checkpoint_every_steps=save_every)
    for step in itertools.count(first):
        time.sleep(STEP_S)
        optimizer.zero_grad()
        model(torch.randn(8, 64)).square().mean().backward()
        optimizer.step()
        log.write(f"{os.getpid()} {step} {time.monotonic_ns()}\n".encode())
        if not with_hold:
            if step % save_every == 0 and rank == 0:
                _save(saved, model, step)
            continue
        hold.step(step)
        if hold.checkpoint_due(step) and rank == 0:
            with hold.saving():
                _save(saved, model, step)
        if hold.stop_due:
            hold.exit()


def _load(saved: Path, model: torch.nn.Module) -> int:
    with suppress(FileNotFoundError):
        found = torch.load(saved)
        model.load_state_dict(found["model"])
        return int(found["step"]) + 1
    return 1


def _save(saved: Path, model: torch.nn.Module, step: int) -> None:
    part = saved.with_suffix(".part")
    torch.save({"model": model.state_dict(), "step": step}, part)
    part.replace(saved)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), with_hold="--hold" in sys.argv[3:])
