"""Real ranks for tests: torch is loaded once, then each job is N forked processes with gloo.

``python ranks.py`` reads one JSON object a line, ``{"job": ..., "world": ..., "folder": ...}``,
runs that function of :mod:`client.rank_jobs` or :mod:`client.rank_ends`, and answers with one line:
what each rank returned, how it ended and when.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any

JOB_S = 60.0
PR_SET_PDEATHSIG, CLONE_NEWNET = 1, 0x40000000
TESTS = Path(__file__).resolve().parent.parent


class Ranks:
    """The process that forks ranks; used by a test."""

    def __init__(self, *script: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *(script or (__file__,))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"},
        )

    def run(self, job: str, world: int, folder: Path, **arguments: Any) -> list[dict[str, Any]]:
        """Run a job to its end; return for each rank ``code``, ``value`` and ``log``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"job": job, "world": world, "folder": str(folder), "arguments": arguments}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer: list[dict[str, Any]] = json.loads(self._process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


def main() -> None:
    """Serve jobs until the input ends."""
    import torch
    import torch._dynamo
    import torch.distributed.fsdp  # what DDP and FSDP would load in each rank

    from client import rank_ends, rank_jobs

    _die_with_parent()
    torch.set_num_threads(1)
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever a rank prints goes to the test's log
    for line in sys.stdin:
        order = json.loads(line)
        job = getattr(rank_jobs, order["job"], None) or getattr(rank_ends, order["job"])
        found = _run(job, order["world"], Path(order["folder"]), order["arguments"])
        os.write(answers, json.dumps(found).encode() + b"\n")


def _run(job: Any, world: int, folder: Path, arguments: dict[str, Any]) -> list[dict[str, Any]]:
    folder.mkdir(parents=True, exist_ok=True)
    pids = [_fork(job, rank, world, folder, arguments) for rank in range(world)]
    codes = _wait(pids)
    return [_read(folder / f"{rank}.json", code) for rank, code in enumerate(codes)]


def _fork(job: Any, rank: int, world: int, folder: Path, arguments: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        _die_with_parent()
        code = _be(job, rank, world, folder, arguments)
    finally:
        os._exit(code)


def _be(job: Any, rank: int, world: int, folder: Path, arguments: dict[str, Any]) -> int:
    import torch.distributed as dist
    from torch._C._distributed_c10d import set_debug_level_from_env

    from client.rank_here import Here

    timeout = timedelta(seconds=arguments.pop("timeout_s", 30.0))
    os.environ.update(arguments.pop("env", {}))
    places = arguments.pop("namespaces", None)
    if places is not None:
        _enter(places[rank])
    set_debug_level_from_env()  # else only read when torch was imported
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(world), LOCAL_RANK=str(rank))
    here, found = Here(rank, world, folder), {}
    try:
        dist.init_process_group(
            "gloo", f"file://{folder}/store", timeout, world_size=world, rank=rank
        )
        found["value"] = job(here, **arguments)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
        found["error"] = f"{type(error).__name__}: {error}"
    except BaseException as error:  # noqa: BLE001 - told to the test
        code = 1
        found["error"] = f"{type(error).__name__}: {error}"
        found["trace"] = traceback.format_exc()
    found |= {"log": here.log, "ended_s": time.monotonic(), "marks": here.marks}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    return code


def _enter(namespace: str) -> None:
    """Move this process, before it has threads, into a network namespace (setns(2))."""
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    assert ctypes.CDLL(None).setns(descriptor, CLONE_NEWNET) == 0
    os.close(descriptor)


def _wait(pids: list[int]) -> list[int]:
    """Wait for all; what is stopped, or still runs after a minute, is killed."""
    codes: dict[int, int] = {}
    end_s = time.monotonic() + JOB_S
    while len(codes) < len(pids):
        for pid in set(pids) - set(codes):
            done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if done and not os.WIFSTOPPED(status):
                codes[pid] = os.waitstatus_to_exitcode(status)
        stopped = len(codes) == len(pids) - 1 and (Path(f"/proc/{_last(pids, codes)}/stat"))
        if time.monotonic() > end_s or (stopped and " T " in stopped.read_text()):
            for pid in set(pids) - set(codes):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    return [codes[pid] for pid in pids]


def _last(pids: list[int], codes: dict[int, int]) -> int:
    (left,) = set(pids) - set(codes)
    return left


def _read(file: Path, code: int) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return {"value": None, "error": None, "log": [], "marks": {}, **content, "code": code}


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    sys.path[0] = str(TESTS)
    main()
