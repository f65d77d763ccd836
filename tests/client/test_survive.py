"""``linkhold survive`` beside a real torchrun with two Gloo ranks on loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.broker import TIED_TO_US
from support.running import run_cli

if TYPE_CHECKING:
    from collections.abc import Iterator

TORCHRUN = Path(sys.executable).with_name("torchrun")
WAIT_S = 60.0
STORE = "torchrun's rendezvous store"
SCRIPT = """\
import sys, time, pathlib, torch, torch.distributed as dist
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(1))
pathlib.Path(sys.argv[1], f"ready{dist.get_rank()}").touch()
time.sleep(600)
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or not TORCHRUN.exists(),
    reason="torch is not installed (pip install torch --index-url .../whl/cpu)",
)


@contextlib.contextmanager
def torchrun(folder: Path, *arguments: str) -> Iterator[int]:
    """Run two ranks until the end of the block; give the pid of torchrun, in its own session."""
    folder.mkdir()
    script = folder / "train.py"
    script.write_text(SCRIPT)
    rendezvous = ("--rdzv_backend", "c10d", "--rdzv_endpoint", "127.0.0.1:0")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*TIED_TO_US, str(TORCHRUN), "--nproc_per_node", "2", *rendezvous, *arguments,
             str(script), str(folder)],
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        yield process.pid
    finally:
        # The ranks are in sessions of their own: torchrun ends them when it is asked to.
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_for(folder: Path) -> None:
    """Wait until both ranks have met."""
    end_s = time.monotonic() + WAIT_S
    while not all((folder / f"ready{rank}").exists() for rank in (0, 1)):
        assert time.monotonic() < end_s, (folder / "log").read_text()
        time.sleep(0.1)


def survive(pid: int, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the budget of the job of a process."""
    done = run_cli("survive", "--pid", str(pid), "--json", *arguments)
    assert done.stderr == ""
    (job,) = json.loads(done.stdout)["jobs"]
    return done.returncode, job


def test_the_store_ends_a_stock_job_and_an_argument_helps(tmp_path: Path) -> None:
    """read_timeout is 60 s by default and the weakest; with --rdzv_conf it is 900 s, and enough."""
    stock, tuned = tmp_path / "stock", tmp_path / "tuned"
    with (
        torchrun(stock, "--max_restarts", "3") as first,
        torchrun(tuned, "--rdzv_conf", "read_timeout=900") as second,
    ):
        wait_for(stock)
        wait_for(tuned)
        code, job = survive(first, "--need", "5m")
        enough, better = survive(second, "--need", "5m")
        longer, _ = survive(second, "--need", "1h")
        shown = run_cli("survive", "--job", job["job"])
        wrong = run_cli("survive", "--need", "soon")
        nobody = run_cli("survive", "--pid", str(os.getppid()))

    layers = {layer["layer"]: layer for layer in job["layers"]}
    assert (code, job["survives_s"], job["weakest"]) == (1, 60, STORE)
    assert layers[STORE]["where"] == "default"
    assert layers[STORE]["raise"] == "--rdzv_conf read_timeout=900"
    assert layers["TCP with data in flight"]["outage_s"] is not None
    assert layers["process group (gloo)"]["outage_s"] == 1800
    assert job["job"] == f"train.py@{first}"
    assert "up to 3 times" in job["warnings"][0]

    store = next(layer for layer in better["layers"] if layer["layer"] == STORE)
    assert (enough, store["outage_s"]) == (0, 900)
    assert store["where"].startswith("argument --rdzv_conf")
    assert longer == 1

    assert shown.stdout.startswith(f"Job train.py@{first} ")
    assert (shown.returncode, wrong.returncode, nobody.returncode) == (0, 64, 3)
