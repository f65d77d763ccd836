"""What benches run on: a namespace with one NIC, a real agent in it, a fleet's broker, observers.

Everything started here ends with the rig, by its process id.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.inotify import Replaced
from bench.processes import children, name_of
from bench.rtnetlink import Carrier, Flipper
from support.answering import Server
from support.broker import Broker
from support.netns import Namespace, missing
from support.places import Mounts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

TESTS = Path(__file__).resolve().parent.parent
SHARED_MEMORY = Path("/dev/shm")  # the run folder is a tmpfs on real hosts
START_S = 15.0
STOP_S = 5.0
LOG_LINES = 10
NIC, PEER = "eth0", "peer0"
GATEWAY = "10.9.0.1"
"""Where the NIC's cable ends: it answers ARP, and questions to its resolver."""


def refusal(asked: bytes) -> bytes:
    """Return what a resolver answers that is there and tells nothing (REFUSED)."""
    return asked[:2] + b"\x81\x85" + asked[4:]


class Impossible(Exception):
    """This machine cannot run the bench; the text says why."""


class Agent:
    """A running ``linkhold agent``; ``exec_s`` is when it was started, of time.monotonic()."""

    def __init__(
        self, process: subprocess.Popen[bytes], run_dir: Path, log: Path, exec_s: float
    ) -> None:
        self.process = process
        self.pid = process.pid
        self.run_dir = run_dir
        self.log = log
        self.exec_s = exec_s
        self.state_file = run_dir / "state.json"

    @property
    def broker_pid(self) -> int:
        """Process id of the agent's own broker."""
        return next(pid for pid in children(self.pid) if name_of(pid) == "mosquitto")

    def state(self) -> dict[str, Any]:
        """Return the state document; empty before the first."""
        with suppress(FileNotFoundError):
            document = json.loads(self.state_file.read_bytes())
            assert isinstance(document, dict)
            return document
        return {}

    def carrier(self) -> Carrier | None:
        """Return what the state file says of the NIC."""
        link = self.state()["detail"]["links"].get(NIC)
        return link and Carrier(link["carrier"], link["carrier_ups"], link["carrier_downs"])

    def wait_for(self, check: Callable[[dict[str, Any]], bool], what: str) -> float:
        """Wait until the state passes ``check``; return seconds since the start of the agent."""
        deadline_s = time.monotonic() + START_S
        watch = Replaced(self.state_file)
        try:
            while not ((document := self.state()) and check(document)):
                assert self.process.poll() is None, f"the agent ended: {self._log()}"
                if not watch.wait_until(deadline_s):
                    raise AssertionError(f"not within {START_S:g} s: {what}; {self._log()}")
            return time.monotonic() - self.exec_s
        finally:
            watch.close()

    def _log(self) -> str:
        return "; ".join(self.log.read_text().splitlines()[-LOG_LINES:])

    def wait_ready(self, *, fleet: bool) -> None:
        """Wait until both legs are as they should be."""
        self.wait_for(lambda d: d["detail"]["agent"]["leg_a"] == "up", "leg A up")
        if fleet:
            self.wait_for(lambda d: d["detail"]["agent"]["leg_b"].startswith("up"), "leg B up")

    def stop(self) -> None:
        """End it in order, or by force."""
        end(self.process)


class Observer:
    """A process of :mod:`bench.observers`."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n", "the observer did not start"

    def results(self) -> list[Any]:
        """Stop it and return what it noted."""
        self.process.send_signal(signal.SIGTERM)
        output, _ = self.process.communicate(timeout=START_S)
        found = json.loads(output)
        assert isinstance(found, list)
        return found


class Rig:
    """A node's namespace: ``eth0`` with address and default route, its cable's end in another.

    There are a gateway and a resolver that answer.
    As with a real cable, the node hears of its own NIC only, not of the switch's port.
    """

    def __init__(self) -> None:
        reason = missing()
        if reason:
            raise Impossible(reason)
        self._stack = ExitStack()
        self.namespace = Namespace()
        self.switch = Namespace()
        self.fleet: Broker | None = None

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.namespace)
            stack.enter_context(self.switch)
            # Another index than the NIC's: equal ones look like one plain device to the kernel,
            # which then tells of carrier at most once a second (linkwatch_urgent_event()).
            self.switch.veth("spare0", "spare1", up=False)
            self.nic = self.namespace.veth(NIC, PEER, other=self.switch)
            self.namespace.ip(f"addr add 10.9.0.2/24 dev {NIC}")
            self.namespace.ip(f"route add default via {GATEWAY} dev {NIC}")
            self.switch.ip(f"addr add {GATEWAY}/24 dev {PEER}")
            self._mounts = Mounts(nameserver=GATEWAY)
            stack.callback(self._mounts.close)
            with self.switch.enter():
                dns = Server(socket.SOCK_DGRAM, GATEWAY, 53, refusal, poll_s=1.0)
            stack.enter_context(dns)
            self.flipper = Flipper(self.switch, self.switch.index(PEER))
            stack.callback(self.flipper.close)
            self._kernel = Flipper(self.namespace, self.nic)
            stack.callback(self._kernel.close)
            self.run_dir = self._folder(stack, SHARED_MEMORY if SHARED_MEMORY.is_dir() else None)
            self.disk = self._folder(stack, None)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @staticmethod
    def _folder(stack: ExitStack, where: Path | None) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="linkhold-bench-", dir=where))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)  # the agent's broker has a user of its own
        return folder

    def start_fleet(self) -> Broker:
        """Start the fleet's broker on the namespace's loopback."""
        broker = Broker(self.disk / "fleet")
        self._stack.callback(broker.stop)
        with self.namespace.enter():
            broker.start()
        self.fleet = broker
        return broker

    def start_agent(
        self,
        *,
        ready: bool = True,
        more: str = "",
        module: str = "linkhold",
        environment: Mapping[str, str] | None = None,
    ) -> Agent:
        """Start an agent with the smallest configuration that names the broker, if there is one.

        ``more`` are further lines of its configuration; ``module`` runs it.
        """
        configuration = self.disk / "linkhold.yaml"
        configuration.write_text(f"{self._configuration()}\n{more}")
        run_dir = self.run_dir / "run"
        run_dir.mkdir(exist_ok=True)
        command = [sys.executable, "-m", module, "agent", "--config", str(configuration)]
        command += ["--run-dir", str(run_dir), "--state-dir", str(self.disk / "state")]
        log_file = self.disk / "agent.log"
        with log_file.open("ab") as log:
            exec_s = time.monotonic()
            process = subprocess.Popen(
                self.namespace.command(*self._mounts.wrap, *command),
                stderr=log,
                env=with_tests(environment or {}),
            )
        agent = Agent(process, run_dir, log_file, exec_s)
        self._stack.callback(agent.stop)
        if ready:
            agent.wait_ready(fleet=self.fleet is not None)
        return agent

    def _configuration(self) -> str:
        if self.fleet is None:
            return ""
        return (
            f"mqtt: {{connect_jitter_s: 0, fleet: [{{host: 127.0.0.1, port: {self.fleet.port}}}]}}"
        )

    def observe(self, kind: str, *arguments: object) -> Observer:
        """Start an observer inside."""
        command = [sys.executable, "-m", "bench.observers", kind, *map(str, arguments)]
        process = subprocess.Popen(
            self.namespace.command(*command), stdout=subprocess.PIPE, env=with_tests({})
        )
        self._stack.callback(end, process)
        return Observer(process)

    def kernel_carrier(self) -> Carrier:
        """Return what the kernel says of the NIC now."""
        return self._kernel.carrier(self.nic)


def with_tests(more: Mapping[str, str]) -> dict[str, str]:
    """Return our environment, with which a process finds the modules of the tests."""
    paths = [str(TESTS), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process in order, or by force."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
