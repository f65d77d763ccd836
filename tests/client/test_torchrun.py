"""A run that is stopped under a real torchrun: two nodes, two ranks each, restarts allowed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from client.conftest import until
from client.states import HandAgent
from linkhold.client import torchrun
from support.broker import TIED_TO_US

if TYPE_CHECKING:
    from collections.abc import Iterator

TORCHRUN = Path(sys.executable).with_name("torchrun")
COMMANDS: dict[str, tuple[str, ...]] = {
    "torchrun": (str(TORCHRUN),),
    "shim": (sys.executable, "-m", "linkhold.client.torchrun"),
}
WAIT_S = 60.0
SCRIPT = """\
import datetime, pathlib, sys, time
import torch, torch.distributed as dist
from linkhold.client import Hold

folder = pathlib.Path(sys.argv[1])
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=30))
rank = dist.get_rank()
with (folder / "starts").open("a") as file:
    file.write(f"{rank}\\n")
with Hold.connect(run_dir=folder / "run", agree="torch", max_hold_s=2) as hold:
    for step in range(3000):
        dist.all_reduce(torch.ones(4))
        time.sleep(0.01)
        (folder / f"training{rank}").touch()
        hold.step(step)
        if hold.checkpoint_due(step) and rank == 0:
            with hold.saving():
                time.sleep(1.0)
                (folder / "saved").write_text(str(step))
        if hold.stop_due:
            hold.exit()
"""

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or not TORCHRUN.exists(),
    reason="torch is not installed (pip install torch --index-url .../whl/cpu)",
)


def port() -> int:
    """Return a free port of loopback."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextlib.contextmanager
def nodes(folder: Path, ranks: int, *command: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run two launchers with some ranks each until the end of the block."""
    script = folder / "train.py"
    script.write_text(SCRIPT)
    endpoint = f"127.0.0.1:{port()}"
    started = []
    for node in range(2):
        here = folder / f"node{node}"
        here.mkdir()
        with (here / "log").open("wb") as log:
            arguments = (
                "--nnodes=2", f"--nproc_per_node={ranks}", "--max_restarts=3", "--rdzv_id=test",
                "--rdzv_backend=c10d", f"--rdzv_endpoint={endpoint}",
                f"--rdzv_conf=is_host={int(node == 0)}", str(script), str(folder),
            )  # fmt: skip
            started.append(
                subprocess.Popen(
                    [*TIED_TO_US, *command, *arguments], cwd=here, stdout=log, stderr=log,
                    start_new_session=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
                )
            )  # fmt: skip
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def end_it(
    folder: Path, ranks: int, command: tuple[str, ...], **advice: Any
) -> tuple[list[int], list[dict[str, Any]]]:
    """Train, let an agent advise; return exit codes of the launchers and the markers."""
    (folder / "run").mkdir()
    agent = HandAgent(folder / "run")
    agent.say(by_broker=False)
    with nodes(folder, ranks, *command) as launchers:
        trains = until(
            lambda: all((folder / f"training{n}").exists() for n in range(2 * ranks)), WAIT_S
        )
        assert trains, "".join((folder / f"node{n}/log").read_text() for n in range(2))
        agent.say(by_broker=False, **advice)
        codes = [launcher.wait(40) for launcher in launchers]
    return codes, [
        json.loads((folder / f"node{node}/.linkhold-stop").read_text()) for node in range(2)
    ]


def left(folder: Path) -> list[str]:
    """Return the processes that still run the script."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


@pytest.mark.parametrize(("launcher", "ranks"), [("torchrun", 2), ("shim", 1)])
def test_a_stop_ends_torchrun_without_a_restart(tmp_path: Path, launcher: str, ranks: int) -> None:
    """No rank is started again, the save is whole, nobody stays; our launcher also says 75."""
    ends_ns = time.monotonic_ns() + 120 * 10**9
    notice = {"id": "spot-terminate-1", "reason": "spot notice: terminate"}
    stop = {**notice, "deadline_mono_ns": ends_ns}
    codes, markers = end_it(tmp_path, ranks, COMMANDS[launcher], checkpoint=notice, stop=stop)

    logs = "".join((tmp_path / f"node{node}/log").read_text() for node in range(2))
    assert sorted((tmp_path / "starts").read_text().split()) == list("0123")[: 2 * ranks], logs
    assert int((tmp_path / "saved").read_text()) == markers[0]["step"], logs
    assert [marker["code"] for marker in markers] == [75, 75]
    assert markers[1]["reason"] == "spot notice: terminate"
    assert codes == ([1, 1] if launcher == "torchrun" else [75, 75]), logs
    assert until(lambda: not left(tmp_path), 10), left(tmp_path)


@pytest.mark.parametrize("launcher", ["torchrun", "shim"])
def test_giving_up_ends_torchrun_too(tmp_path: Path, launcher: str) -> None:
    """A loop in ``with Hold.connect()`` that knows nothing of GiveUp: no rank is started again."""
    codes, markers = end_it(tmp_path, 1, COMMANDS[launcher], training="hold")

    logs = "".join((tmp_path / f"node{node}/log").read_text() for node in range(2))
    assert sorted((tmp_path / "starts").read_text().split()) == ["0", "1"], logs
    assert [marker["code"] for marker in markers] == [75, 75]
    assert markers[0]["reason"].startswith("on hold for 2 s, the limit: ")
    assert codes == ([1, 1] if launcher == "torchrun" else [75, 75]), logs
    assert until(lambda: not left(tmp_path), 10), left(tmp_path)


def test_without_torch_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback for who has no torch in this environment."""
    monkeypatch.setitem(sys.modules, "torch.distributed.run", None)

    with pytest.raises(SystemExit, match=r"torch is needed here: import of torch.distributed.run"):
        torchrun.main(["train.py"])


@pytest.mark.parametrize(
    ("arguments", "conf"),
    [
        (["--rdzv_backend=c10d"], "read_timeout=900"),
        (["--rdzv_backend=c10d", "--rdzv_conf=is_host=1"], "is_host=1,read_timeout=900"),
        (["--rdzv_backend=c10d", "--rdzv_conf=read_timeout=70"], "read_timeout=70"),
        (["--standalone"], "read_timeout=900"),
        ([], ""),
    ],
)
def test_the_store_waits_longer(arguments: list[str], conf: str) -> None:
    """Our launcher raises read_timeout where a store is asked and nobody set it."""
    from torch.distributed.run import get_args_parser

    parsed = get_args_parser().parse_args([*arguments, "train.py"])
    torchrun.wait_longer(parsed)

    assert parsed.rdzv_conf == conf
