"""One run of the bench ``interruptions``: two nodes train while faults come and go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from bench.interruptions_place import ADDRESSES, GATEWAYS, Network
from bench.rig import Agent, end, with_tests
from support.places import Place, private_mounts, resolver

if TYPE_CHECKING:
    from bench.interruptions_place import Kind
    from support.netns import Namespace

JOB = Path(__file__).with_name("interruptions_job.py")
TORCHRUN = Path(sys.executable).with_name("torchrun")
OURS = (sys.executable, "-m", "linkhold.client.torchrun")
PORT = 29400
SAVE_EVERY = 200
CONFIGURATION = "mode: enforce\nkeepalive: {busy: {tcp_rto_max_ms: 2500, tcp_retries2: 255}}\n"
"""What docs/survive.md recommends for training nodes."""
START_S = 120.0
BETWEEN_S = 5.0
"""Seconds of training before each fault and after the last."""
RTO_MIN_S, RTO_MAX_S = 0.2, 120.0
"""Of include/net/tcp.h."""
RESUME_MOST_S = RTO_MAX_S + 30
LATE_S = 10.0
"""torchrun's agent may die so long after its connection to the store has recovered."""
LOOK_S = 0.25
_starting = threading.Semaphore(3)
"""Importing torch is all that costs: three jobs at once do."""


@dataclass(frozen=True)
class Fault:
    """A fault to come."""

    kind: Kind
    length_s: float


@dataclass
class Outcome:
    """What became of a run; ``lags_s`` are the seconds from each link-up to the next whole step.

    ``died`` is why it ended, empty for one that did not.
    """

    number: int
    with_linkhold: bool
    faults: tuple[Fault, ...]
    lags_s: list[float] = field(default_factory=list)
    died: str = ""
    steps: int = 0
    steps_lost: int = 0

    @property
    def longest_s(self) -> float:
        """The longest fault of the schedule."""
        return max(fault.length_s for fault in self.faults)


def recovered_s(outage_s: float) -> float:
    """Return how long after a cut the last connection recovers, by the kernel's own settings.

    Each doubles its pause from 200 ms on, so it may be silent for as long again as the outage was;
    a tenth is for round trips. torchrun's agents learn only then that their store was out of reach.
    """
    sent_s = pause_s = RTO_MIN_S
    while sent_s < outage_s:
        pause_s = min(2 * pause_s, RTO_MAX_S)
        sent_s += pause_s
    return 1.1 * sent_s


class Died(Exception):
    """A launcher ended, a rank was started again, or no step came; the text says which."""


class _Steps:
    """What a rank has written: of each step the process, the number and when it was done."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self.lines: list[tuple[int, int, float]] = []

    def read(self) -> list[tuple[int, int, float]]:
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            file.seek(self._offset)
            content = file.read()
            whole = content[: content.rfind(b"\n") + 1]
            self._offset += len(whole)
            for line in whole.splitlines():
                pid, step, at_ns = map(int, line.split())
                self.lines.append((pid, step, at_ns / 1e9))
        return self.lines


class Run:
    """A job on two nodes; :meth:`play` lets the faults come."""

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._stack = ExitStack()
        self._launchers: list[subprocess.Popen[bytes]] = []

    @property
    def length_s(self) -> float:
        """Roughly how long it takes, to begin the longest first."""
        return sum(fault.length_s for fault in self._outcome.faults)

    def play(self) -> Outcome:
        """Play the schedule and return what became of the run."""
        with self._stack:
            self._network = self._stack.enter_context(Network())
            self._folder = self._stack.enter_context(Place())
            self._steps = [_Steps(self._folder / f"steps{rank}") for rank in range(2)]
            with _starting:
                self._begin()
            self._survive()
            self._count()
        return self._outcome

    def _begin(self) -> None:
        for number, node in enumerate(self._network.nodes):
            self._start(number, node)
        try:
            self._wait_steps(time.monotonic(), START_S)
        except Died as reason:
            raise AssertionError(f"run {self._outcome.number} did not begin: {reason}") from reason

    def _survive(self) -> None:
        try:
            for fault in self._outcome.faults:
                cut_s = self._suffer(fault)
            self._watch(cut_s + recovered_s(fault.length_s) + LATE_S)
        except Died as reason:
            self._outcome.died = str(reason)

    def _suffer(self, fault: Fault) -> float:
        """Let one fault come and go; return when it began."""
        self._watch(time.monotonic() + BETWEEN_S)
        cut_s = time.monotonic()
        self._network.cut(fault.kind)
        with suppress(Died):  # who dies during a fault is found dead after it
            self._watch(cut_s + fault.length_s)
        self._network.mend(fault.kind)
        up_s = time.monotonic()
        self._outcome.lags_s.append(self._wait_steps(up_s, RESUME_MOST_S) - up_s)
        self._watch(time.monotonic() + BETWEEN_S)
        return cut_s

    def _wait_steps(self, since_s: float, most_s: float) -> float:
        """Return when all ranks had done a step that began after ``since_s``."""
        while True:
            later = [[at for _, _, at in one.read() if at > since_s] for one in self._steps]
            if all(len(times) > 1 for times in later):
                return max(times[1] for times in later)
            self._check()
            if time.monotonic() > since_s + most_s:
                raise Died(f"no step within {most_s:g} s")
            time.sleep(LOOK_S)

    def _watch(self, until_s: float) -> None:
        while time.monotonic() < until_s:
            self._check()
            time.sleep(max(0.0, min(LOOK_S, until_s - time.monotonic())))

    def _check(self) -> None:
        for number, launcher in enumerate(self._launchers):
            if launcher.poll() is not None:
                raise Died(f"launcher ended with {launcher.returncode}: {self._why(number)}")
        if any(len({pid for pid, _, _ in one.read()}) > 1 for one in self._steps):
            raise Died("ranks were started again")

    def _why(self, number: int) -> str:
        lines = (self._folder / f"launcher{number}").read_text(errors="replace").splitlines()
        named = [line.strip() for line in lines if "Error" in line and "Root Cause" not in line]
        return named[-1][-200:] if named else "no reason given"

    def _count(self) -> None:
        """Note how far the run came, and what it has to do again."""
        firsts = [one.read()[0][0] for one in self._steps]
        done = [
            max(step for pid, step, _ in one.lines if pid == first)
            for one, first in zip(self._steps, firsts, strict=True)
        ]
        self._outcome.steps = min(done)
        if self._outcome.died:
            self._outcome.steps_lost = min(done) % SAVE_EVERY

    # Processes.

    def _start(self, number: int, node: Namespace) -> None:
        environment = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
        words = (*OURS,) if self._outcome.with_linkhold else (str(TORCHRUN),)
        script = [str(JOB), str(self._folder), str(SAVE_EVERY)]
        if self._outcome.with_linkhold:
            run_dir = self._start_agent(number, node)
            environment["LINKHOLD_RUN_DIR"] = str(run_dir)
            script.append("--hold")
        arguments = (
            "--nnodes=2", "--nproc_per_node=1", "--max_restarts=3", "--rdzv_backend=c10d",
            f"--rdzv_id=run{self._outcome.number}", f"--rdzv_endpoint={ADDRESSES[0]}:{PORT}",
            f"--rdzv_conf=is_host={int(number == 0)}", f"--local_addr={ADDRESSES[number]}",
        )  # fmt: skip
        with (self._folder / f"launcher{number}").open("wb") as log:
            process = subprocess.Popen(
                node.command("nice", *words, *arguments, *script),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env=with_tests(environment),
            )
        self._stack.callback(_end_launcher, process)
        self._launchers.append(process)

    def _start_agent(self, number: int, node: Namespace) -> Path:
        """Start the node's agent and wait until its sysctls are there, which sockets inherit."""
        folder = self._folder / f"node{number}"
        (folder / "run").mkdir(parents=True)
        (folder / "linkhold.yaml").write_text(CONFIGURATION)
        command = [sys.executable, "-m", "linkhold", "agent", "--config", f"{folder}/linkhold.yaml"]
        command += ["--run-dir", str(folder / "run"), "--state-dir", str(folder / "state")]
        wrap = private_mounts(resolver(GATEWAYS[number]))
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                node.command(*wrap, *command), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        self._stack.callback(end, process)
        agent = Agent(process, folder / "run", folder / "log", time.monotonic())
        agent.wait_for(lambda state: state["detail"]["agent"]["leg_a"] == "up", "leg A up")
        deadline_s = time.monotonic() + 30
        while node.run("sysctl", "-n", "net.ipv4.tcp_retries2").strip() != "255":
            assert time.monotonic() < deadline_s, (folder / "log").read_text()
            time.sleep(LOOK_S)
        return agent.run_dir


def _end_launcher(process: subprocess.Popen[bytes]) -> None:
    """End a launcher with its ranks, which end when it is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
    if process.poll() is None:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
