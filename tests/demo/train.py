"""The training loop of the demo: an ordinary loop with linkhold's few lines in it."""

from __future__ import annotations

import logging
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from linkhold.client import Hold

if TYPE_CHECKING:
    from collections.abc import Callable

STEP_S = 0.05
STEPS_A_CHECKPOINT = 60


def main(folder: Path, seconds: float) -> None:
    """Fit a line for a while; checkpoints go to ``folder``/store as to an object store."""
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stdout)
    rng, end_s = np.random.default_rng(0), time.monotonic() + seconds
    weights, truth = np.zeros(16), np.arange(16.0)
    store = folder / "store"
    store.mkdir()
    step = 0
    with Hold.connect(
        hold_on=["network"], checkpoint_every_steps=STEPS_A_CHECKPOINT, upload_spread_s=0.5
    ) as hold:
        while time.monotonic() < end_s:
            batch = rng.normal(size=(32, 16))
            weights -= 0.01 * batch.T @ (batch @ (weights - truth)) / 32
            time.sleep(STEP_S)
            hold.step(step)
            if hold.checkpoint_due(step):
                path = folder / f"step-{step}.npy"
                with hold.saving():
                    np.save(path, weights)
                print(f"step {step}: saved, loss {np.square(weights - truth).mean():.3f}")
                hold.upload(path, _push_to(store))
            step += 1
        print(f"ends after {step} steps, held {hold.held_s:.1f} s in all")


def _push_to(store: Path) -> Callable[[object], None]:
    def push(path: object) -> None:
        shutil.copy(str(path), store)
        print(f"uploaded {Path(str(path)).name}")

    return push


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
