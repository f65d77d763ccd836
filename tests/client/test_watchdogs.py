"""Who takes a process on hold for a hung one, and what keeps them quiet."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from linkhold.client import Hold, watchdogs
from support.broker import TIED_TO_US

TESTS = Path(__file__).resolve().parent.parent
RANK = """\
import os, sys, time
from nvidia_resiliency_ext.fault_tolerance import RankMonitorClient
from client.states import HOLD, view
from client.rank_here import Told
from linkhold.client import Hold
from linkhold.client.settings import Settings
from linkhold.client.watchdogs import heartbeat_of

client = RankMonitorClient()
client.init_workload_monitoring()
client.send_heartbeat()
agent = Told()
hold = Hold(Settings(), agent)
beats = [0]
feed = heartbeat_of(client)

def beat():
    beats[0] += 1
    if sys.argv[1] == "fed":
        feed()
    if hold.held_s > 2.5:
        agent.say()

hold.on_wait = beat
agent.say(**HOLD)
hold.step(1)
client.send_heartbeat()
client.shutdown_workload_monitoring()  # the end of an interpreter may take longer than the timeout
print(f"{hold.held_s:.1f} {beats[0]}", flush=True)
"""
SERVER = """\
import logging, subprocess, sys, warnings
warnings.simplefilter("ignore")
from nvidia_resiliency_ext.fault_tolerance import FaultToleranceConfig
from nvidia_resiliency_ext.fault_tolerance.rank_monitor_server import RankMonitorServer
import torch.multiprocessing as mp

if __name__ == "__main__":
    cfg = FaultToleranceConfig(workload_check_interval=0.2, rank_heartbeat_timeout=1.2)
    server = RankMonitorServer.run_in_subprocess(cfg, sys.argv[2], False, mp.get_context("fork"))
    code = subprocess.run([sys.executable, sys.argv[1], sys.argv[3]]).returncode
    server.terminate()
    print(f"code {code}", flush=True)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("nvidia_resiliency_ext") is None,
    reason="nvidia-resiliency-ext is not installed (pip install nvidia-resiliency-ext)",
)
def test_a_hold_under_nvidia_resiliency_ext(tmp_path: Path) -> None:
    """A hold of twice the heartbeat timeout: a rank that is not fed is killed by its monitor."""
    (tmp_path / "rank.py").write_text(RANK)
    (tmp_path / "server.py").write_text(SERVER)
    started = {}
    for mode in ("fed", "starved"):
        socket = str(tmp_path / f"{mode}.sock")
        command = [sys.executable, f"{tmp_path}/server.py", f"{tmp_path}/rank.py", socket, mode]
        started[mode] = subprocess.Popen(
            [*TIED_TO_US, *command],
            env={
                **os.environ,
                "PYTHONPATH": str(TESTS),
                "FT_RANK_MONITOR_IPC_SOCKET": socket,
                **dict.fromkeys(("RANK", "LOCAL_RANK"), "0"),
                "WORLD_SIZE": "1",
            },
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    said = {mode: process.communicate(timeout=90) for mode, process in started.items()}

    assert said["fed"][0].endswith("code 0\n"), said["fed"][1]
    assert float(said["fed"][0].split()[0]) > 2.4
    assert said["starved"][0] == "code -9\n", said["starved"][1]


def test_a_client_is_fed_once_it_is_connected() -> None:
    """A Hold may be made before init_workload_monitoring(): no heartbeat is tried until then."""
    sent = []
    client = SimpleNamespace(is_initialized=False, send_heartbeat=lambda: sent.append(1))
    feed = watchdogs.heartbeat_of(client)
    assert feed is not None
    feed()
    client.is_initialized = True
    feed()

    assert sent == [1]


def test_what_is_no_heartbeat() -> None:
    """What cannot be called is refused when the Hold is made."""
    with pytest.raises(TypeError, match=r"heartbeat: 5 is neither a function nor has it send_hea"):
        Hold.connect(heartbeat=5)


def test_under_torchft_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that pauses is dropped by torchft: training goes on, whatever is asked."""
    monkeypatch.setenv("TORCHFT_LIGHTHOUSE", "http://lighthouse:29510")
    hold = Hold.fake(training="hold")
    hold.step(1)
    hold._begin()

    assert hold.held_s == 0.0
    assert hold.log == ["torchft drops ranks that wait and goes on: nothing is held here"]


@pytest.mark.parametrize("used", [True, False])
def test_streams_are_drained_before_a_hold(
    monkeypatch: pytest.MonkeyPatch,
    used: bool,  # noqa: FBT001
) -> None:
    """Nothing is in flight on a GPU while training waits; a process without one is left alone."""
    done: list[str] = []
    cuda = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: used,
        synchronize=lambda: done.append("synchronized"),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    hold = Hold.fake(training="hold")

    def end() -> None:
        done.append("slice")
        hold.set(training="go")

    hold.on_wait = end
    hold.step(1)

    assert done == (["synchronized", "slice"] if used else ["slice"])


def test_a_broken_heartbeat_ends_no_hold() -> None:
    """What a watchdog's client raises is told once, and the hold goes on."""

    def beat() -> Any:
        if hold.held_s > 1:
            hold.set(training="go")
        raise ConnectionResetError("monitor gone")

    hold = Hold.fake(training="hold")
    hold.on_wait = beat
    hold.step(1)

    assert sum("monitor gone" in line for line in hold.log) == 1
