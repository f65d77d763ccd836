"""Runs one scenario inside the guest, in namespaces of its own, with a time limit.

Three processes: the warden (owns the namespaces, keeps the time, tidies up), the first process of
a new PID namespace (its end is the end of every process in there), and the scenario itself.
"""

from __future__ import annotations

import faulthandler
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import kernel
from support.lab.box import Box

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.lab.scenarios import Scenario

Answer = dict[str, Any]

OUTPUT_LIMIT = 256 * 1024
JOURNAL_LINES = "60"
STACKS_S, TIDY_S = 1.0, 8.0
COVERED = ("/tmp", "/var/lib", "/var/log")
SIOCSIFFLAGS, IFF_UP = 0x8914, 1


def run(scene: Scenario, params: dict[str, Any], timeout_s: float) -> Answer:
    """Run the scenario in a cell and return what the host gets to know about it."""
    answer = _Sink("answer")
    warden = _fork(lambda: answer.write(json.dumps(_guard(scene, params, timeout_s))))
    if not _ended_within(warden, timeout_s + TIDY_S):
        os.kill(warden, signal.SIGKILL)
    os.waitpid(warden, 0)
    text = answer.read(limit=None)
    told: Answer = json.loads(text or '{"status": "error", "error": "its cell broke"}')
    return told


def run_here(scene: Scenario, params: dict[str, Any], timeout_s: float) -> Answer:
    """Run the scenario in the guest's own namespaces; what it leaves stays."""
    log, tell = kernel.Log(), _Sinks()
    began = time.monotonic()
    child = _fork(lambda: _perform(scene, params, timeout_s, tell))
    answer = _conclude(child, began, timeout_s, log, tell)
    if answer["status"] != "ok":
        answer["stderr"] += f"--- journal ---\n{_journal()}"
    return answer


def _journal() -> str:
    command = ["journalctl", "--no-pager", "--lines", JOURNAL_LINES, "--output", "short-monotonic"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _guard(scene: Scenario, params: dict[str, Any], timeout_s: float) -> Answer:
    log, tell = kernel.Log(), _Sinks()
    _enter_namespaces()
    began = time.monotonic()
    first = _fork(lambda: _be_init(lambda: _perform(scene, params, timeout_s, tell)))
    answer = _conclude(first, began, timeout_s, log, tell)
    _delete_all_links()
    return answer


def _conclude(child: int, began: float, timeout_s: float, log: kernel.Log, tell: _Sinks) -> Answer:
    if not _ended_within(child, timeout_s + STACKS_S):
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    took = time.monotonic() - began
    answer = {"duration_s": took, "kernel_log": log.all()}
    answer |= {"stdout": tell.out.read(), "stderr": tell.err.read()}
    if result := tell.result.read(limit=None):
        return {**answer, **json.loads(result)}
    if took >= timeout_s:
        return answer | {"status": "timeout", "error": f"ended at its limit of {timeout_s:g} s"}
    silent = f"its process ended without a result (exit code {code})"
    return answer | {"status": "error", "error": silent}


def _enter_namespaces() -> None:
    kernel.unshare(
        kernel.CLONE_NEWNET | kernel.CLONE_NEWNS | kernel.CLONE_NEWUTS | kernel.CLONE_NEWPID
    )
    for folder in COVERED:
        _cover(folder)
    kernel.mount("tmpfs", "/run")
    _forget_resolvers()
    kernel.mount("sysfs", "/sys")  # /sys/class/net shows the namespace it was mounted from
    Path(os.environ["TMPDIR"]).mkdir()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))


def _forget_resolvers() -> None:
    """Take the machine's resolvers away: they are not reached from a lab."""
    here = Path("/etc/resolv.conf")
    if here.exists():
        none = Path("/run/resolv.conf")
        none.write_text("# no resolver in the lab\n")
        kernel.bind(str(none), str(here.resolve()))


def _cover(folder: str) -> None:
    """Put a fresh tmpfs over ``folder``; a checkout or a Python that lies below stays there."""
    needed = (Path(__file__), Path(sys.prefix), Path(sys.base_prefix))
    below = {p.relative_to(folder).parts[0] for p in needed if p.is_relative_to(folder)}
    kept = {name: os.open(f"{folder}/{name}", os.O_PATH) for name in below}
    kernel.mount("tmpfs", folder)
    for name, fd in kept.items():
        Path(folder, name).mkdir()
        kernel.bind(f"/proc/self/fd/{fd}", f"{folder}/{name}")
        os.close(fd)


def _be_init(scenario_process: Callable[[], object]) -> None:
    """Be PID 1: start the scenario, bury orphans, end with the scenario's exit code."""
    kernel.mount("proc", "/proc")
    child = _fork(scenario_process)
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)


def _perform(scene: Scenario, params: dict[str, Any], timeout_s: float, tell: _Sinks) -> None:
    tell.out.become(1)
    tell.err.become(2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    # A scenario that hangs leaves the stacks of its threads in its standard error.
    faulthandler.dump_traceback_later(timeout_s, exit=True, file=2)
    try:
        answer = {"status": "ok", "value": scene(Box(), **params)}
        text = json.dumps(answer)
    except BaseException as error:  # noqa: BLE001 - SystemExit of a scenario is a result as well
        text = json.dumps({"status": "error", "error": describe(error)})
    faulthandler.cancel_dump_traceback_later()
    tell.result.write(text)


def describe(error: BaseException) -> str:
    """Return the traceback without the harness's own frames on top."""
    told = traceback.TracebackException.from_exception(error)
    own = (__file__, str(Path(__file__).with_name("scenarios.py")))
    told.stack = traceback.StackSummary.from_list([f for f in told.stack if f.filename not in own])
    return "".join(told.format())


def _delete_all_links() -> None:
    """Empty the scenario's namespaces now: the kernel would do it later, beside the next one."""
    kernel.delete_links()
    for namespace in Path("/run/netns").glob("*"):
        try:
            with kernel.inside(namespace):
                kernel.delete_links()
        except OSError:
            continue  # a leftover file, no namespace


def _fork(body: Callable[[], object]) -> int:
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        body()
        code = 0
    except BaseException:  # noqa: BLE001 - nothing may return into the parent's stack
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended_within(pid: int, seconds: float) -> bool:
    handle = os.pidfd_open(pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


class _Sink:
    """A file in memory that outlives the process that writes it."""

    def __init__(self, name: str) -> None:
        self._fd = os.memfd_create(name)

    def become(self, number: int) -> None:
        os.dup2(self._fd, number)

    def write(self, text: str) -> None:
        with open(self._fd, "w", encoding="utf-8", closefd=False) as file:
            file.write(text)

    def read(self, limit: int | None = OUTPUT_LIMIT) -> str:
        size = os.fstat(self._fd).st_size
        kept = size if limit is None else min(size, limit)
        text = os.pread(self._fd, kept, size - kept).decode("utf-8", "replace")
        os.close(self._fd)
        return text if kept == size else f"({size - kept} bytes before this left out)\n{text}"


class _Sinks:
    """Where a scenario's result and output go."""

    def __init__(self) -> None:
        self.result, self.out, self.err = _Sink("result"), _Sink("stdout"), _Sink("stderr")
