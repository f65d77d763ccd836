"""``make demo``: a cable is pulled under a training loop; a timeline shows who notices what.

Everything runs in namespaces of its own (network, processes), so nothing of the machine is
touched and nothing is left, however the demo ends.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from linkhold.model import BrokerError
from linkhold.mqtt import Connected, Connection, Received
from linkhold.wire import event_line, parse_event

HERE = Path(__file__).parent
INSIDE = "LINKHOLD_DEMO_INSIDE"
FLEET_PORT = 18830
PULL_AT_S, PLUG_AT_S, END_AT_S = 5.0, 13.0, 28.0
COLUMN = 9


class Timeline:
    """Prints what happens, when and who says it."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    @property
    def now_s(self) -> float:
        """Seconds since the demo began."""
        return time.monotonic() - self._began_s

    def say(self, who: str, what: str) -> None:
        """Print one line."""
        with self._lock:
            print(f"{self.now_s:7.3f} s  {who:{COLUMN}} {what}", flush=True)

    def wait_until(self, at_s: float) -> None:
        """Sleep until ``at_s``."""
        time.sleep(max(0.0, at_s - self.now_s))


def outside() -> int:
    """Start again inside new namespaces and return that run's exit code."""
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *rights, "--net", "--mount", "--pid", "--fork", "--kill-child"]
    if shutil.which("unshare") is None:
        print("demo: needs unshare (util-linux) to make a network of its own")
        return 1
    with tempfile.TemporaryDirectory(prefix="lh-demo-") as folder:
        Path(folder).chmod(0o755)  # the broker runs as a user of its own
        environment = os.environ | {INSIDE: folder, "PYTHONUNBUFFERED": "1"}
        done = subprocess.run(
            [*command, "--mount-proc", sys.executable, __file__], env=environment, check=False
        )
    if done.returncode:
        print("demo: it did not work; without root it needs user namespaces (unshare --user)")
    return done.returncode


def inside(folder: Path) -> None:
    """Set the stage, pull the cable, plug it in, show the timeline."""
    timeline = Timeline()
    switch = make_network()
    os.environ |= {
        "LINKHOLD_RUN_DIR": str(folder / "run"),
        "LINKHOLD_STATE_DIR": str(folder / "state"),
    }
    timeline.say("demo", "a node with one cable (eth0), a fleet broker, an agent, a training run")
    start_fleet(folder, timeline)
    config = folder / "linkhold.yaml"
    broker = f"{{host: 127.0.0.1, port: {FLEET_PORT}}}"
    config.write_text(
        f"mqtt: {{fleet: [{broker}], connect_jitter_s: 0}}\n"
        "paths: {dns: {watch: false}}  # this stage has a gateway and no resolver\n"
    )
    start([str(Path(sys.executable).parent / "linkhold"), "agent", "--config", str(config)], None)
    wait_for(folder / "run/state.json")
    timeline.say("agent", "ready")
    training = start(
        [sys.executable, str(HERE / "train.py"), str(folder), str(END_AT_S - timeline.now_s)],
        lambda line: timeline.say("training", line),
    )
    timeline.wait_until(PULL_AT_S)
    timeline.say("demo", ">>> pulls the cable")
    link("set", "far", "down", where=switch)
    timeline.wait_until(PLUG_AT_S)
    timeline.say("demo", ">>> plugs the cable in")
    link("set", "far", "up", where=switch)
    training.wait(timeout=END_AT_S)
    time.sleep(0.2)
    stored = len(list((folder / "store").iterdir()))
    timeline.say("demo", f"done: the run was held, not killed; {stored} checkpoints in the store")


def link(*words: str, where: int | None = None) -> None:
    """Run ``ip link``, in the network of the process ``where`` if one is named."""
    ip("link", *words, where=where)


def ip(*words: str, where: int | None = None) -> None:
    """Run ``ip``."""
    inside = [] if where is None else ["nsenter", f"--net=/proc/{where}/ns/net"]
    subprocess.run([*inside, "ip", *words], check=True)


def make_network() -> int:
    """Make a cable from eth0, with an address and a default route, to a gateway.

    Return the process whose network the gateway is.
    """
    keeper = ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 600"]
    ready = threading.Event()
    switch = start(keeper, lambda _: ready.set())
    assert ready.wait(10), "no second network"
    link("set", "lo", "up")
    # Another index than the far end's: equal ones look like one plain device to the kernel, which
    # then tells of carrier at most once a second (linkwatch_urgent_event()).
    link("add", "spare0", "type", "veth", "peer", "name", "spare1", where=switch.pid)
    link("add", "eth0", "type", "veth", "peer", "name", "far", "netns", str(switch.pid))
    link("set", "eth0", "up")
    link("set", "far", "up", where=switch.pid)
    ip("address", "add", "10.0.0.1/24", "dev", "far", where=switch.pid)
    ip("address", "add", "10.0.0.2/24", "dev", "eth0")
    ip("route", "add", "default", "via", "10.0.0.1")
    return switch.pid


def start(command: list[str], on_line: object) -> subprocess.Popen[bytes]:
    """Start a process; ``on_line`` gets what it prints, None throws that away."""
    output = subprocess.PIPE if on_line else subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    if callable(on_line):
        threading.Thread(target=_forward, args=(process, on_line), daemon=True).start()
    return process


def _forward(process: subprocess.Popen[bytes], on_line: object) -> None:
    assert process.stdout is not None
    assert callable(on_line)
    for line in process.stdout:
        on_line(line.decode(errors="replace").rstrip())


def start_fleet(folder: Path, timeline: Timeline) -> None:
    """Start the fleet's broker and somebody on call who listens to it."""
    mosquitto = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
    if mosquitto is None:
        timeline.say("fleet", "no mosquitto here: the training run hears the agent by its file")
        return
    config = folder / "fleet.conf"
    config.write_text(f"listener {FLEET_PORT} 127.0.0.1\nallow_anonymous true\nuser root\n")
    start([mosquitto, "-c", str(config)], None)
    threading.Thread(target=_on_call, args=(timeline,), daemon=True).start()


def _on_call(timeline: Timeline) -> None:
    connection = _dial()
    while connection is not None:
        for notice in connection.service(1.0):
            if isinstance(notice, Connected):
                connection.subscribe("linkhold/v1/+/+/event/#")
            if isinstance(notice, Received):
                event = parse_event(notice.payload)
                line = event_line(event.type, event.subject, event.document["data"])
                if not event.type.startswith("agent."):
                    timeline.say("on call", line)


def _dial() -> Connection | None:
    for _ in range(50):
        connection = Connection("on-call")
        with contextlib.suppress(BrokerError):
            connection.open_tcp("127.0.0.1", FLEET_PORT)
            return connection
        time.sleep(0.1)
    return None


def wait_for(path: Path) -> None:
    """Wait for a file, at most ten seconds."""
    for _ in range(1000):
        if path.exists():
            return
        time.sleep(0.01)
    raise SystemExit(f"demo: {path} did not appear: the agent did not start")


if __name__ == "__main__":
    if INSIDE in os.environ:
        inside(Path(os.environ[INSIDE]))
    else:
        sys.exit(outside())
