"""Real ``linkhold agent`` processes for tests, and what hears them.

Every process dies with the test process (PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.broker import MOSQUITTO, START_TIMEOUT_S, Broker, wait_until
from support.places import TIED, private_mounts, resolver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

LINKHOLD = Path(__file__).resolve().parents[2] / ".venv/bin/linkhold"
READY_S = 15.0
# GNU readline writes COLUMNS and LINES where it is loaded, and pytest-xdist's workers inherit them.
NOT_INHERITED = ("LINKHOLD_", "XDG_", "COLUMNS", "LINES")
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(NOT_INHERITED)
}


class TiedBroker(Broker):
    """A :class:`Broker` that ends with the test process."""

    def start(self) -> TiedBroker:
        """Start the process in the namespace of the calling thread."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*TIED, MOSQUITTO, "-c", str(self.folder / "mosquitto.conf")],
                stderr=log,
                stdout=log,
            )
        wait_until(self._accepts, START_TIMEOUT_S, "mosquitto accepts connections")
        return self


class Running:
    """A ``linkhold agent`` with folders below ``place``, in the calling thread's namespace.

    ``config`` is the text of its configuration file; ``wrap`` a command that ends by executing
    its arguments (``unshare``, ``setpriv``); without one the agent's resolver is the gateway of
    :mod:`support.beyond`, by a mount of its own. The log is ``place/log``. ``seen_run_dir`` is how
    this process reaches the run folder where the agent's mounts are its own.
    """

    def __init__(
        self,
        place: Path,
        config: str = "",
        *,
        wrap: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        run_dir: Path | None = None,
        state_dir: Path | None = None,
        arguments: Sequence[str] | None = None,
        seen_run_dir: Path | None = None,
    ) -> None:
        self.place = place
        named = run_dir or place / "run"
        self.run_dir = seen_run_dir or named
        self.state_dir = state_dir or place / "state"
        self.config_file = place / "linkhold.yaml"
        self.config_file.write_text(config)
        self.process: subprocess.Popen[bytes] | None = None
        self._wrap = wrap or private_mounts(resolver())
        self._env = {**ENVIRONMENT, **(env or {})}
        folders = ("--run-dir", str(named), "--state-dir", str(self.state_dir))
        self._arguments = folders if arguments is None else arguments
        self._session = ""

    # The process.

    @property
    def pid(self) -> int:
        """The process id of the running agent."""
        assert self.process is not None
        return self.process.pid

    def command(self) -> list[str]:
        """Return the command line of the agent."""
        config = ("--config", str(self.config_file))
        return [*TIED, *self._wrap, str(LINKHOLD), "agent", *config, *self._arguments]

    def start(self, stderr: int | None = None) -> Self:
        """Start the process; see :meth:`wait_ready`."""
        with suppress(OSError, ValueError, KeyError):
            self._session = self.state()["session"]
        with (self.place / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log if stderr is None else stderr,
                env=self._env,
            )
        return self

    def wait_ready(self, leg_a: str = "up") -> Self:
        """Wait for the first state of this start and, unless ``leg_a`` is "", for leg A."""
        wait_until(self._is_new, READY_S, f"a state; the log says: {self.log()[-2000:]}")
        if leg_a:
            self.wait_for(lambda state: agent_of(state)["leg_a"].startswith(leg_a), READY_S)
        return self

    def _is_new(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"the agent ended: {self.log()[-2000:]}"
        with suppress(OSError):
            return bool(self.state()["session"] != self._session)
        return False

    def send(self, number: int) -> None:
        """Send a signal."""
        os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as a power cut would; nothing happens when it has ended already."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, float]:
        """Ask it to end; return the exit code and how many seconds it took."""
        assert self.process is not None
        began_s = time.monotonic()
        self.send(number)
        try:
            code = self.process.wait(20)
        finally:
            took_s = time.monotonic() - began_s
            self.kill()
        return code, took_s

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def brokers(self) -> list[int]:
        """Return the pids of the mosquitto processes that use this agent's configuration."""
        return brokers_of(self.run_dir)

    def broker(self) -> int:
        """Return the pid of the one broker of this agent."""
        found = self.brokers()
        assert len(found) == 1, found
        return found[0]

    # What it says.

    @property
    def trainer_socket(self) -> Path:
        """Socket of the training processes."""
        return self.run_dir / "mqtt/broker.sock"

    @property
    def agent_socket(self) -> Path:
        """Socket of the agent itself."""
        return self.run_dir / "mqtt/agent.sock"

    def state(self) -> dict[str, Any]:
        """Return the state file."""
        document = json.loads((self.run_dir / "state.json").read_bytes())
        assert isinstance(document, dict)
        return document

    def wait_for(
        self, check: Callable[[dict[str, Any]], object], timeout_s: float = 10.0
    ) -> dict[str, Any]:
        """Wait until the state file satisfies ``check`` and return it."""
        last: dict[str, Any] = {}

        def holds() -> object:
            nonlocal last
            with suppress(OSError):
                last = self.state()
            return last and check(last)

        try:
            wait_until(holds, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; state: {last}; log: {self.log()[-3000:]}") from None
        return last

    def log(self) -> str:
        """Return what the process has logged."""
        with suppress(OSError):
            return (self.place / "log").read_text()
        return ""

    def cli(self, *arguments: str, timeout_s: float = 20.0) -> subprocess.CompletedProcess[str]:
        """Run another ``linkhold`` command against this agent's folders."""
        folders = {
            "LINKHOLD_RUN_DIR": str(self.run_dir),
            "LINKHOLD_STATE_DIR": str(self.state_dir),
        }
        return run_cli(*arguments, env={**self._env, **folders}, timeout_s=timeout_s)

    def events(self, since: str = "1h") -> list[dict[str, Any]]:
        """Return the recorded events, from the agent or from its outbox."""
        lines = self.cli("events", "--since", since, "--json").stdout.splitlines()
        return [json.loads(line) for line in lines]

    def types(self) -> list[str]:
        """Return the types of the recorded events, in order."""
        return [event["type"] for event in self.events()]


def run_cli(
    *arguments: str, env: Mapping[str, str] | None = None, timeout_s: float = 20.0
) -> subprocess.CompletedProcess[str]:
    """Run the command ``linkhold``; a traceback is an error whatever the test looks at."""
    done = subprocess.run(
        [str(LINKHOLD), *arguments],
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**(env or ENVIRONMENT)},
        timeout=timeout_s,
    )
    assert "Traceback" not in done.stderr + done.stdout, done.stderr
    return done


def agent_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a state document that is about the agent itself."""
    found = state["detail"]["agent"]
    assert isinstance(found, dict)
    return found


def brokers_of(run_dir: Path) -> list[int]:
    """Return the pids of the mosquitto processes that use the configuration in ``run_dir``."""
    configuration = f"\0{run_dir / 'broker/mosquitto.conf'}\0".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # zombies have no command line
            command = (folder / "cmdline").read_bytes()
            if configuration in command and command.split(b"\0")[0].endswith(b"mosquitto"):
                found.append(int(folder.name))
    return found


def fleet_config(*ports: int, more: str = "") -> str:
    """Return a configuration whose fleet is on ports of the loopback, without jitter."""
    where = ", ".join(f"{{host: 127.0.0.1, port: {port}}}" for port in ports)
    return f"site: lab\nnode: n1\nmqtt: {{fleet: [{where}], connect_jitter_s: 0}}\n{more}"


def missing() -> str:
    """Return why agents cannot be tested here, empty when they can."""
    needed = [name for name in ("mosquitto", "setpriv", "unshare") if not shutil.which(name)]
    return f"not installed: {', '.join(needed)}" if needed else ""
