"""A fleet to wear a relay out: a real broker, Alertmanager and relay; nodes that flap and go."""

from __future__ import annotations

import shutil
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from soak import looks
from support.broker import MOSQUITTO, Broker, wait_until
from support.oncall import ALERTMANAGER, Alertmanager, RelayProcess, Webhook
from support.places import Place
from support.swarm import Swarm, SwarmNode

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping

    from typing_extensions import Self

    from soak.growth import Look

NODES, RACK = 40, 8
PATIENCE_S = 30.0


class Fleet:
    """The part ``relay`` of the soak."""

    name = "fleet"

    def __init__(self) -> None:
        self.count = 0
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.place = stack.enter_context(Place())
            self.webhook = Webhook()
            stack.callback(self.webhook.close)
            self.broker = Broker(self.place / "broker", "max_inflight_messages 1000")
            stack.callback(self.broker.kill)
            self.broker.start()
            self.alertmanager = Alertmanager(self.place / "am", self.webhook)
            stack.callback(self.alertmanager.kill)
            self.alertmanager.start()
            folder = self.place / "relay"
            self.relay = RelayProcess(folder, "relay", [self.broker], [self.alertmanager.url])
            stack.callback(self.relay.kill)
            self.relay.start()
            client = "as linkhold-relay-relay "
            wait_until(lambda: client in self.broker.log(), PATIENCE_S, "the relay is connected")
            names = [f"r1-{n}" for n in range(RACK)] + [f"n{n}" for n in range(NODES - RACK)]
            self.swarm = Swarm(self.broker.port, [SwarmNode("lab", name) for name in names])
            stack.callback(self.swarm.close)
            self.swarm.connect()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def disturb(self, dice: random.Random) -> str:
        """Do one thing to the fleet and return its name; raises AssertionError when it fails."""
        process = self.relay.process
        ended = process is None or process.poll() is not None
        assert not ended, f"the relay ended: {self.relay.log()[-2000:]}"
        name = dice.choices(list(TROUBLES), [weight for weight, _ in TROUBLES.values()])[0]
        self.count += 1
        TROUBLES[name][1](self, dice)
        self.wait(0.3)
        self.swarm.connect([node for node in self.swarm.nodes if node.sock is None])
        self.webhook.notifications.clear()
        return name

    def wait(self, seconds: float) -> None:
        """Serve the nodes for so long."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.swarm.serve(0.05)

    def some(self, dice: random.Random) -> SwarmNode:
        """Return any node."""
        return dice.choice(self.swarm.nodes)

    def show(self, node: SwarmNode) -> None:
        """Have a node send its state."""
        self.swarm.send(node, "state", node.state(), retain=True)

    def looks(self) -> Mapping[str, Look | None]:
        """Look at the relay."""
        assert self.relay.process is not None
        now_s = time.monotonic()
        return {"relay": looks.look(now_s, self.relay.process.pid, self.relay.folder / "state")}

    def summary(self) -> str:
        """Return what the relay has heard."""
        lines = (self.relay.folder / "relay.prom").read_text().splitlines()
        wanted = ('kind="messages_', "linkhold_relay_nodes ", "linkhold_relay_alerts")
        found = [line for line in lines if line[0] != "#" and any(part in line for part in wanted)]
        return "relay: " + ", ".join(line.removeprefix("linkhold_relay_") for line in found)


def flap(fleet: Fleet, dice: random.Random) -> None:
    """Nodes vanish for a moment, or until their will is out."""
    gone = dice.sample(fleet.swarm.nodes, dice.randrange(1, 6))
    fleet.swarm.cut(gone)
    fleet.wait(dice.choice((0.05, 2.5)))


def rack(fleet: Fleet, _dice: random.Random) -> None:
    """A rack is dark."""
    fleet.swarm.cut([node for node in fleet.swarm.nodes if node.name.startswith("r1-")])
    fleet.wait(3)


def alerts(fleet: Fleet, dice: random.Random) -> None:
    """Alerts of a node open and close, each with a subject of its own."""
    node = fleet.some(dice)
    node.alert("bond.down", f"bond{fleet.count}")
    fleet.show(node)
    fleet.wait(dice.choice((0.1, 1.5)))
    node.alerts.clear()
    fleet.show(node)


def events(fleet: Fleet, dice: random.Random) -> None:
    """A node tells what happened; now and then events are missing."""
    node = fleet.some(dice)
    if dice.random() < 0.2:
        node.seq += 3
    for _ in range(20):
        fleet.swarm.send(node, "event/link.down", node.event("link.down", "eth0", carrier=False))


def reboot(fleet: Fleet, dice: random.Random) -> None:
    """A node boots: another boot, another session."""
    node = fleet.some(dice)
    fleet.swarm.cut([node])
    node.boot, node.session = f"boot-{fleet.count}", f"{fleet.count:04x}"
    node.epoch = node.seq = 0
    node.started_s = time.time()


def passing(fleet: Fleet, dice: random.Random) -> None:
    """A node of a name that was never seen comes, has a fault, and is forgotten."""
    node = SwarmNode("lab", f"passing-{fleet.count}-{dice.randrange(1000)}")
    node.alert("bond.down", "bond0")
    fleet.swarm.connect([node])
    fleet.swarm.send(node, "event/bond.down", node.event("bond.down", "bond0"))
    fleet.wait(0.5)
    for topic in ("status", "birth", "state"):
        fleet.swarm.send(node, topic, b"", retain=True)
    fleet.wait(0.2)
    goodbye = b"\xe0\x00"  # without a will
    assert node.sock is not None
    node.sock.send(goodbye)
    fleet.wait(0.2)
    fleet.swarm.cut([node])


def broker(fleet: Fleet, _dice: random.Random) -> None:
    """The broker dies and forgets everything."""
    fleet.broker.kill()
    fleet.swarm.cut(fleet.swarm.nodes)
    fleet.wait(0.5)
    fleet.broker.start()


def pager(fleet: Fleet, _dice: random.Random) -> None:
    """Alertmanager dies while alerts wait for it."""
    fleet.alertmanager.kill()
    node = fleet.swarm.nodes[0]
    node.alert("network.down", "network")
    fleet.show(node)
    fleet.wait(2)
    node.alerts.clear()
    fleet.show(node)
    fleet.alertmanager.start()


def garbage(fleet: Fleet, dice: random.Random) -> None:
    """A node sends what is no message."""
    node = fleet.some(dice)
    for topic in ("state", "birth", "event/link.down"):
        fleet.swarm.send(node, topic, dice.randbytes(dice.randrange(1, 4000)))


def planned(fleet: Fleet, dice: random.Random) -> None:
    """Work on a node is planned, and over."""
    node = fleet.some(dice)
    node.alert("network.down", "network")
    node.extra = {"maintenance": {"id": "m", "until": "2099-01-01T00:00:00Z", "why": "soak"}}
    fleet.show(node)
    fleet.wait(0.5)
    node.extra = {}
    node.alerts.clear()
    fleet.show(node)


TROUBLES: dict[str, tuple[int, Callable[[Fleet, random.Random], None]]] = {
    "nodes flap": (20, flap),
    "rack dark": (2, rack),
    "alerts": (20, alerts),
    "events": (20, events),
    "reboot": (8, reboot),
    "passing node": (8, passing),
    "broker killed": (1, broker),
    "pager killed": (1, pager),
    "garbage": (4, garbage),
    "planned work": (4, planned),
}
"""How often each comes among the others, and what it does."""


def missing() -> str:
    """Return why this cannot run here, empty when it can."""
    lacking = [name for name in (MOSQUITTO, ALERTMANAGER) if not shutil.which(name)]
    return f"not installed: {', '.join(lacking)}" if lacking else ""
