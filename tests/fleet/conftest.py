"""A fleet's broker, Alertmanager, a pager, relays and simulated nodes, all real but the nodes."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.broker import MOSQUITTO, Broker, free_port
from support.oncall import ALERTMANAGER, Alertmanager, RelayProcess, Webhook
from support.swarm import Swarm, SwarmNode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class OnCall:
    """Everything between a node and a pager."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.webhook = Webhook()
        self.alertmanager = Alertmanager(folder / "am", self.webhook)
        self.more: list[Alertmanager] = []
        self.brokers: list[Broker] = []
        self.relays: list[RelayProcess] = []
        self.swarms: list[Swarm] = []
        self._numbers = itertools.count()

    def broker(self, *options: str) -> Broker:
        """Make and start a broker."""
        options = ("max_inflight_messages 1000", *options)
        self.brokers.append(Broker(self.folder / f"broker{next(self._numbers)}", *options))
        return self.brokers[-1].start()

    def relay(self, name: str = "relay") -> RelayProcess:
        """Make and start a relay on all brokers, and wait until each has it."""
        urls = [one.url for one in (self.alertmanager, *self.more)]
        self.relays.append(RelayProcess(self.folder / name, name, self.brokers, urls))
        relay = self.relays[-1].start()
        client = f"as linkhold-relay-{name} "
        self.until(lambda: all(client in one.log() for one in self.brokers), what="connected")
        self.wait(0.3)
        return relay

    def cluster(self) -> None:
        """Put two members of a cluster into the place of the one Alertmanager."""
        self.alertmanager.kill()
        ports = [free_port(), free_port()]
        self.alertmanager, second = (
            Alertmanager(
                self.folder / f"am{number}",
                self.webhook,
                cluster=ports[number],
                peer=ports[1 - number],
            )
            for number in range(2)
        )
        self.more = [second]
        self.alertmanager.start()
        second.start()

    def swarm(self, broker: Broker, *names: str) -> Swarm:
        """Make and connect nodes."""
        swarm = Swarm(broker.port, [SwarmNode("lab", name) for name in names])
        swarm.connect()
        self.swarms.append(swarm)
        return swarm

    def until(self, check: Callable[[], object], timeout_s: float = 20.0, what: str = "") -> None:
        """Serve the nodes until ``check()`` is true."""
        until_s = time.monotonic() + timeout_s
        while not check():
            if time.monotonic() > until_s:
                logs = "".join(relay.log()[-2000:] for relay in self.relays)
                told = [(n.receiver, n.status, n.names()) for n in self.webhook.notifications]
                raise AssertionError(f"not within {timeout_s:g} s: {what}\n{told}\n{logs}")
            for swarm in self.swarms:
                swarm.serve(0.02)
            time.sleep(0.02)

    def wait(self, seconds: float) -> None:
        """Serve the nodes for so long."""
        until_s = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > until_s, seconds + 5)

    def close(self) -> None:
        """End everything."""
        for relay in self.relays:
            relay.kill()
        for broker in self.brokers:
            broker.kill()
        for one in (self.alertmanager, *self.more):
            one.kill()
        self.webhook.close()
        for swarm in self.swarms:
            swarm.close()


@pytest.fixture
def oncall(tmp_path: Path) -> Iterator[OnCall]:
    """Make the parts; all are ended, in whatever state they are."""
    for program in (MOSQUITTO, ALERTMANAGER):
        if not Path(program).exists():
            pytest.skip(f"{program} is not installed; make setup")
    parts = OnCall(tmp_path)
    parts.alertmanager.start()
    try:
        yield parts
    finally:
        parts.close()
