"""A training process to wear out: holds, saves, uploads, spools and retries, again and again.

Arguments: the agent's run folder, and a folder of its own. What it has done stands in
``progress``, how many blocks of memory its interpreter uses in ``blocks``. It never ends by itself.
"""

from __future__ import annotations

import gc
import itertools
import logging
import random
import sys
import time
from collections import Counter
from pathlib import Path

from linkhold.client import Hold
from linkhold.client.retry import BudgetSpent, NoAttempt, dependency, retry

STEP_S = 0.005
STEPS_A_LIFE = 1500
CHECKPOINT_BYTES = 200_000
ADDRESSES = 4
"""The spool remembers each address, 4,096 of them: more would be its warm-up."""
NAMES = ("s3", "tracker", "hub")


def main(run_dir: Path, folder: Path) -> None:
    """Train for ever; each life of the Hold ends in order and the next one begins."""
    logging.basicConfig(level=logging.CRITICAL)
    dice = random.Random(1)
    done: Counter[str] = Counter()
    (folder / "store").mkdir(exist_ok=True)
    for name in NAMES:
        dependency(name).limit(calls_at_once=2, budget=None)
    for life in itertools.count():
        live(run_dir, folder, dice, done)
        done["lives"] = life + 1


def live(run_dir: Path, folder: Path, dice: random.Random, done: Counter[str]) -> None:
    """Connect, train, close."""
    store = folder / "store"

    def push(path: object) -> None:
        if dice.random() < 0.3:
            raise ConnectionResetError("the store hung up")
        (store / "pushed").write_bytes(Path(str(path)).read_bytes())
        done["pushed"] += 1

    with Hold.connect(
        run_dir=run_dir,
        hold_on=["network"],
        checkpoint_every_steps=100,
        upload_spread_s=0.1,
        spool=folder / "spool",
        spool_max_count=6,
        spool_free_floor_bytes=0,
    ) as hold:
        for step in range(STEPS_A_LIFE):
            time.sleep(STEP_S)
            hold.step(step)
            done["steps"] += 1
            if step % 20 == 0:
                call(dice, done)
            if hold.checkpoint_due(step):
                path = folder / "ckpt.bin"
                with hold.saving():
                    path.unlink(missing_ok=True)  # in place it would be another file's middle
                    path.write_bytes(dice.randbytes(CHECKPOINT_BYTES))
                hold.upload(path, push)
                hold.upload_to(str(store / f"{done['saved'] % ADDRESSES}.bin"), path)
                done["saved"] += 1
                words = ", ".join(f"{value} {name}" for name, value in sorted(done.items()))
                (folder / "progress").write_text(f"{words}\n")
                gc.collect()
                sys._clear_type_cache()  # fills for an hour with names that paho makes anew
                (folder / "blocks").write_text(f"{sys.getallocatedblocks()}\n")


def call(dice: random.Random, done: Counter[str]) -> None:
    """Call something that fails now and then."""
    try:
        for attempt in retry(dice.choice(NAMES), attempts=3, time_limit_s=1, first_pause_s=0.01):
            with attempt:
                flaky(dice)
                done["called"] += 1
    except (TimeoutError, BudgetSpent, NoAttempt):
        done["given up"] += 1


def flaky(dice: random.Random) -> None:
    """Work, or not."""
    if dice.random() < 0.4:
        raise TimeoutError("too slow")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
