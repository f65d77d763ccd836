"""A user's script with the documented lines, started as users start it, and stopped by an agent."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

from client.conftest import until
from client.states import HandAgent
from client.trainer_scene import documented
from support.broker import TIED_TO_US

if TYPE_CHECKING:
    from pathlib import Path

START_S = 100.0
HEAD = """\
import os, pathlib, sys, time, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
from client.trainer_scene import Net, Numbers, quicken

quicken()
folder = pathlib.Path({folder!r})
def note(step):
    time.sleep(0.02)
    (folder / f"training{{torch.distributed.get_rank()}}").write_text(str(step))
"""


def stop_script(folder: Path, package: str, body: str, *command: str) -> dict[str, Any]:
    """Run a script until it trains on both ranks, stop it, and return how it ended.

    ``body`` goes before the documented lines of ``package`` and defines what they name.
    """
    (folder / "run").mkdir()
    agent = HandAgent(folder / "run")
    agent.say(by_broker=False)
    script, tests = folder / "train.py", os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120
    head = HEAD.format(tests=tests, folder=str(folder))
    script.write_text(head + body + documented(package))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "LINKHOLD_RUN_DIR": str(folder / "run")}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*TIED_TO_US, *command, str(script)], cwd=folder, stdout=log, stderr=log, env=env,
            start_new_session=True,
        )  # fmt: skip
    try:
        trains = until(lambda: all((folder / f"training{n}").exists() for n in (0, 1)), START_S)
        assert trains, (folder / "log").read_text()[-3000:]
        notice = {"id": "spot-1", "reason": "spot notice: terminate"}
        ends_ns = time.monotonic_ns() + 60 * 10**9
        agent.say(by_broker=False, checkpoint=notice, stop={**notice, "deadline_mono_ns": ends_ns})
        code = process.wait(50)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return {
        "code": code,
        "log": (folder / "log").read_text(),
        "marker": json.loads((folder / ".linkhold-stop").read_text()),
    }
