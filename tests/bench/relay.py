"""The relay with a thousand nodes: pages sent, lost and doubled, how soon, and what it costs.

Nodes are simulated in this process (support/swarm.py); mosquitto, Alertmanager with the shipped
configuration and its own waits, and the relay are real processes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.processes import cpu_ms, memory
from bench.rig import Impossible
from bench.rows import Row, row
from support.broker import MOSQUITTO, TIED_TO_US, Broker
from support.oncall import ALERTMANAGER, Alertmanager, Webhook
from support.swarm import Swarm, SwarmNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.oncall import Notification

SIZES, QUICK_SIZES = (100, 1000, 5000), (50, 200)
RACK, FAULTS = 40, 10
WILL_DELAY_S = 10
"""As the agent's (legs/fleet.py)."""
AWAY_S, QUICK_AWAY_S = 600.0, 20.0
FIRST_PAGE_S = 15.0
GROUP_WAIT_S, URGENT_WAIT_S = 30.0, 10.0
"""Of the shipped configuration: of all, and of what many nodes have in common."""


class Scene:
    """Broker, Alertmanager, webhook, relay and nodes; everything ends with it."""

    def __init__(self, stack: ExitStack, count: int) -> None:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/tmp")))
        self.folder = folder
        self.webhook = Webhook()
        stack.callback(self.webhook.close)
        self.broker = Broker(
            folder / "broker",
            "persistence true",
            "max_inflight_messages 1000",
            "log_type error",
        )
        stack.callback(self.broker.kill)
        self.broker.start()
        self.alertmanager = Alertmanager(folder / "am", self.webhook, waits=False)
        stack.callback(self.alertmanager.kill)
        self.alertmanager.start()
        self.nodes = [SwarmNode("lab", name) for name in names(count)]
        self.swarm = Swarm(self.broker.port, self.nodes, will_delay_s=WILL_DELAY_S)
        stack.callback(self.swarm.close)
        self.relay = self._relay()
        stack.callback(self._end_relay)

    def _relay(self) -> subprocess.Popen[bytes]:
        config = self.folder / "relay.yaml"
        config.write_text(
            f"state_dir: {self.folder}/state\n"
            f"brokers: [{{host: 127.0.0.1, port: {self.broker.port}}}]\n"
            f"alertmanagers: [{{url: '{self.alertmanager.url}'}}]\n"
            "places: [{nodes: ['r1-*'], rack: r1, switch: tor-1}]\n"
            f"metrics: {{textfile: {self.folder}/relay.prom}}\n"
        )
        command = [sys.executable, "-m", "linkhold", "relay", "--config", str(config)]
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([*TIED_TO_US, *command], stdout=log, stderr=log)

    def _end_relay(self) -> None:
        self.relay.kill()
        self.relay.wait()

    def metric(self, name: str) -> float:
        """Return a metric of the relay, which is written every five seconds; 0 before."""
        try:
            lines = (self.folder / "relay.prom").read_text().splitlines()
        except FileNotFoundError:
            return 0.0
        return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

    def until(self, check: Callable[[], object], timeout_s: float, what: str) -> float:
        """Serve the nodes until ``check()``; return how many seconds that took."""
        began_s = time.monotonic()
        while not check():
            log = (self.folder / "log").read_text()[-1000:]
            assert time.monotonic() - began_s < timeout_s, f"not in {timeout_s:g} s: {what}\n{log}"
            self.swarm.serve(0.1)
        return time.monotonic() - began_s

    def wait(self, seconds: float) -> None:
        """Serve the nodes for so long."""
        end_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() >= end_s, seconds + 60, "time")

    def costs(self) -> tuple[float, float]:
        """Return the CPU of relay and broker so far, in ms."""
        assert self.broker.process is not None
        return cpu_ms(self.relay.pid), cpu_ms(self.broker.process.pid)

    def memory(self) -> tuple[float, float]:
        """Return the memory of relay and broker, in MB."""
        assert self.broker.process is not None
        pids = (self.relay.pid, self.broker.process.pid)
        relay_mb, broker_mb = (memory(pid).pss / 1024 for pid in pids)
        return relay_mb, broker_mb


def names(count: int) -> list[str]:
    """Return the names of nodes, of which one rack is full."""
    rack = min(RACK, count // 4)
    return [f"r1-{n}" for n in range(rack)] + [f"n{n}" for n in range(count - rack)]


def run(*, quick: bool = False) -> list[Row]:
    """Measure growth with the number of nodes, then the faults of a fleet of 1,000."""
    for program in (MOSQUITTO, ALERTMANAGER):
        if not shutil.which(program):
            raise Impossible(f"{program} is not installed")
    rows: list[Row] = []
    sizes = QUICK_SIZES if quick else SIZES
    per_node: dict[int, float] = {}
    for count in sizes:
        with ExitStack() as stack:
            scene = Scene(stack, count)
            rows += _storm(scene, count, per_node)
            if count == sizes[1]:
                rows += _rack(scene)
                rows += _away(scene, QUICK_AWAY_S if quick else AWAY_S)
    first, last = per_node[sizes[0]], per_node[sizes[-1]]
    rows.append(
        row(
            f"CPU for a node, {sizes[-1]} nodes to {sizes[0]}",
            "ms",
            last,
            reference=first,
            most_ratio=1.2,
        )
    )
    return rows


def _storm(scene: Scene, count: int, per_node: dict[int, float]) -> list[Row]:
    """All nodes connect at once, then each changes its state once."""
    scene.until(lambda: scene.metric("linkhold_relay_broker_connected") == 1, 60, "connected")
    before = scene.costs()
    began_s = time.monotonic()
    scene.swarm.connect()
    scene.until(lambda: scene.metric("linkhold_relay_nodes ") == count, 120, "all nodes known")
    took_s = time.monotonic() - began_s
    seen = 'linkhold_relay_events_total{kind="messages_report"}'
    for number, node in enumerate(scene.nodes):
        scene.swarm.send(node, "state", node.state(), retain=True)
        if not number % 50:
            scene.swarm.serve()
    scene.until(lambda: scene.metric(seen) >= 2 * count, 120, "all states known")
    relay_ms, broker_ms = (now - then for now, then in zip(scene.costs(), before, strict=True))
    per_node[count] = relay_ms / count
    relay_mb, broker_mb = scene.memory()
    title = f"{count} nodes connect at once, then change: "
    return [
        row(f"{title}all known (to 5 s)", "s", took_s),
        row(f"{title}relay CPU", "ms", relay_ms),
        row(f"{title}broker CPU", "ms", broker_ms),
        row(f"{title}relay memory", "MB", relay_mb),
        row(f"{title}broker memory", "MB", broker_mb),
    ]


def _rack(scene: Scene) -> list[Row]:
    """A rack loses all its links: one page, and soon."""
    rack = [node for node in scene.nodes if node.name.startswith("r1-")]
    scene.swarm.cut(rack)
    will_s = time.time() + WILL_DELAY_S
    scene.until(lambda: scene.webhook.told("RackDark"), 120, "the rack's page")
    first_s = scene.webhook.told("RackDark")[0].at_s - will_s
    scene.wait(60)
    told = scene.webhook.told("NodeOffline")
    scene.swarm.connect(rack)
    scene.until(lambda: len(scene.webhook.told("NodeWasIsolated", "tickets")), 180, "digests")
    return [
        row("rack of 40 dark: first page after the will", "s", first_s,
            most=FIRST_PAGE_S + URGENT_WAIT_S),
        row("rack of 40 dark: pages", "", len(scene.webhook.told("RackDark")), most=2),
        row("rack of 40 dark: pages of single nodes", "", len(told), most=1),
    ]  # fmt: skip


def _away(scene: Scene, away_s: float) -> list[Row]:
    """The broker is away; ten nodes get a fault meanwhile, ten others had one before."""
    before, during = scene.nodes[-FAULTS:], scene.nodes[-2 * FAULTS : -FAULTS]
    for node in before:
        node.alert("network.down", "network")
        scene.swarm.send(node, "state", node.state(), retain=True)
    scene.until(lambda: len(_told(scene, "NodeNetworkDown")) == FAULTS, 120, "faults before")
    relay_ms = scene.costs()[0]
    scene.broker.kill()
    scene.wait(away_s / 2)
    for node in during:
        node.alert("bond.down", "bond0")
    scene.wait(away_s / 2)
    scene.broker.start()
    began_s = time.time()
    scene.swarm.connect()
    scene.until(lambda: len(_told(scene, "NodeBondDown")) == FAULTS, 180, "faults meanwhile")
    first_s = min(page.at_s for page in scene.webhook.told("NodeBondDown")) - began_s
    scene.wait(90)
    relay_ms = scene.costs()[0] - relay_ms
    lost = 2 * FAULTS - len(_told(scene, "NodeNetworkDown")) - len(_told(scene, "NodeBondDown"))
    title = f"broker away for {away_s:g} s: "
    return [
        row(f"{title}alerts that were to be paged", "", 2 * FAULTS),
        row(f"{title}lost", "", lost, most=1),
        row(f"{title}doubled, and false ones", "", _doubled(scene.webhook.pages()), most=1),
        row(f"{title}first page after its return", "s", first_s,
            most=FIRST_PAGE_S + GROUP_WAIT_S),
        row(f"{title}relay CPU", "ms", relay_ms),
    ]  # fmt: skip


def _told(scene: Scene, name: str) -> set[str]:
    return {
        one
        for page in scene.webhook.told(name)
        for one in page.names()
        if one.startswith(f"{name} ")
    }


def _doubled(pages: list[Notification]) -> int:
    """Return how many pages told nothing new, or that a node was offline that was not cut."""
    told: set[str] = set()
    doubled = 0
    for page in pages:
        names_ = set(page.names())
        false = any(one.startswith("NodeOffline n") for one in names_)
        news = names_ - told or any(alert["status"] == "resolved" for alert in page.alerts)
        doubled += not news or false
        told |= names_
    return doubled
