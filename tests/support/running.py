"""Real ``linkhold agent`` processes for tests, and what hears them.

Every process dies with the test process (PR_SET_PDEATHSIG), and a folder is removed when its
:class:`Place` ends, also when pytest is killed: a shell waits on a pipe that only we hold.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from support.broker import MOSQUITTO, START_TIMEOUT_S, Broker, Message, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

LINKHOLD = Path(__file__).resolve().parents[2] / ".venv/bin/linkhold"
TIED = ("setpriv", "--pdeathsig", "KILL", "--")
NOBODY = 65534
READY_S = 15.0
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("LINKHOLD_", "XDG_"))
}


class Place:
    """A short folder that every user can reach; use it in a ``with`` statement.

    Paths of Unix sockets are limited to 107 bytes, and the broker is another user than root:
    pytest's own folders are too long for the one and closed to the other.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="lh-agent-", dir="/tmp"))
        self.path.chmod(0o755)
        self._janitor = subprocess.Popen(
            ["sh", "-c", 'cat >/dev/null; exec rm -rf --one-file-system "$0"', str(self.path)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        assert self._janitor.stdin is not None
        self._janitor.stdin.close()
        self._janitor.wait(10)


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


class Trainer:
    """A subscriber of leg A, as a training process is one; reconnects by itself.

    ``codes`` are the answers to :meth:`publish`, ``closed`` counts lost connections.
    """

    def __init__(
        self,
        path: Path,
        *topics: str,
        client_id: str = "",
        username: str = "",
        will: str = "",
        subscribe: bool = True,
        reconnect: bool = True,
    ) -> None:
        self.messages: list[Message] = []
        self.codes: list[int] = []
        self.granted: list[int] = []
        self.refused = ""
        self.closed = 0
        self._path = path
        self._reconnect = reconnect
        self._closing = threading.Event()
        self._topics = topics or ("linkhold/v1/#",) if subscribe else ()
        self._ready = threading.Event()
        self._answered = threading.Event()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            transport="unix",
            reconnect_on_failure=False,
        )
        if username:
            self.client.username_pw_set(username, "any")
        if will:
            self.client.will_set(will, b"forged", qos=1, retain=True)
        self.client.on_connect = self._connected
        self.client.on_disconnect = self._disconnected
        self.client.on_subscribe = self._subscribed
        self.client.on_message = self._received
        self.client.on_publish = self._published
        self.client.connect(str(path), 1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(5), "no answer from the broker"

    def _run(self) -> None:
        """Serve the connection, and make a new one once a broker is there.

        paho's own reconnecting leaves a socket unclosed at each failure.
        """
        while not self._closing.is_set():
            self.client.loop_forever()
            while not self._closing.wait(0.02) and self._reconnect:
                if _accepts(self._path):
                    with suppress(OSError):
                        self.client.reconnect()
                        break
            if not self._reconnect:
                return

    def _connected(self, client: paho.Client, _data: Any, _flags: Any, code: Any, _p: Any) -> None:
        if code.is_failure:
            self.refused = str(code)
        if self._topics and not code.is_failure:
            client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in self._topics])
        else:
            self._ready.set()

    def _disconnected(self, *_: Any) -> None:
        self.closed += 1

    def _subscribed(self, _c: Any, _d: Any, _mid: int, codes: Any, _p: Any) -> None:
        self.granted = [int(code.value) for code in codes]
        self._ready.set()

    def _received(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        content_type = getattr(message.properties, "ContentType", None)
        payload = bytes(message.payload)
        self.messages.append(Message(message.topic, payload, message.retain, content_type))

    def _published(self, _c: Any, _d: Any, _mid: int, code: Any, _p: Any) -> None:
        self.codes.append(int(code.value))
        self._answered.set()

    def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> int:
        """Publish, wait for the broker's answer and return its reason code (0 with QoS 0)."""
        self._answered.clear()
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        self.client.publish(topic, payload, qos, retain, properties)
        assert self._answered.wait(5), f"{topic}: no answer"
        return self.codes[-1]

    def on(self, part: str) -> list[Message]:
        """Return the messages whose topic contains ``part``."""
        return [message for message in self.messages if part in message.topic]

    def states(self) -> list[dict[str, Any]]:
        """Return the state documents heard, oldest first."""
        return [json.loads(m.payload)["data"] for m in self.messages if m.topic.endswith("/state")]

    def events(self) -> list[dict[str, Any]]:
        """Return the events heard, oldest first."""
        return [json.loads(message.payload) for message in self.on("/event/")]

    def close(self) -> None:
        """Disconnect and end the thread."""
        self._closing.set()
        self.client.disconnect()
        self._thread.join(5)
        assert not self._thread.is_alive()


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
        sock.connect(str(path))
        return True
    return False


class Running:
    """A ``linkhold agent`` with folders below ``place``, in the calling thread's namespace.

    ``config`` is the text of its configuration file; ``wrap`` a command that ends by executing
    its arguments (``unshare``, ``setpriv``). The log is ``place/log``. ``seen_run_dir`` is how this
    process reaches the run folder where the agent's mounts are its own.
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
        self._wrap = wrap
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


def private_mounts(*commands: str) -> list[str]:
    """Return a wrapper that runs shell ``commands`` in a mount namespace of the agent's own."""
    script = " && ".join([*commands, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", script, "sh"]


class Mounts:
    """A mount namespace for an agent, in which a test mounts, fills and freezes.

    ``undo`` is a shell command that is run in it at the end, also when pytest is killed: a frozen
    file system would keep its processes for ever.
    """

    def __init__(self, undo: str = "true") -> None:
        script = f"echo ready; cat >/dev/null; {undo}"
        self._keeper = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._keeper.stdout is not None
        assert self._keeper.stdout.readline() == b"ready\n"
        self.wrap = ["nsenter", f"--mount=/proc/{self._keeper.pid}/ns/mnt", "--"]

    def run(self, command: str) -> None:
        """Run a shell command inside."""
        subprocess.run([*self.wrap, "sh", "-ec", command], check=True, timeout=30)

    def output(self, command: str) -> str:
        """Run a shell command inside and return what it prints."""
        command_line = [*self.wrap, "sh", "-ec", command]
        return subprocess.run(
            command_line, check=True, timeout=30, capture_output=True, text=True
        ).stdout

    def path(self, inside: Path) -> Path:
        """Return how a path of the inside is reached from outside."""
        return Path(f"/proc/{self._keeper.pid}/root{inside}")

    def close(self) -> None:
        """Undo and let go; the mounts end with the last process in the namespace."""
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.close()
        self._keeper.wait(20)
        self._keeper.stdout.close()


def as_nobody(place: Path) -> list[str]:
    """Return a wrapper that becomes an ordinary user, who can run this Python.

    Where the interpreter lies in a folder that is closed to others (root's home), that folder
    shows nothing but the interpreter, in a mount namespace of the wrapper's own.
    """
    user = str(NOBODY)
    change = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--", *TIED]
    prefix = Path(sys.base_prefix).resolve()
    closed = [path for path in reversed(prefix.parents) if not path.stat().st_mode & stat.S_IXOTH]
    if not closed:
        return change
    kept = place / "interpreter"
    return [
        *private_mounts(
            f"mkdir -p {kept}",
            f"mount --bind {prefix} {kept}",
            f"mount -t tmpfs -o mode=755 none {closed[0]}",
            f"mkdir -p {prefix}",
            f"mount --bind {kept} {prefix}",
        ),
        *change,
    ]


def missing() -> str:
    """Return why agents cannot be tested here, empty when they can."""
    needed = [name for name in ("mosquitto", "setpriv", "unshare") if not shutil.which(name)]
    return f"not installed: {', '.join(needed)}" if needed else ""
