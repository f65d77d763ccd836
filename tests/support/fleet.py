"""A keeper and a fleet leg against brokers of a test."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from linkhold.config.brokers import BrokerSettings
from linkhold.config.settings import MqttSettings, OutboxSettings
from linkhold.decide.readings import LegReading
from linkhold.legs.fleet import FleetLeg
from linkhold.legs.fleet_pace import Timing
from linkhold.model import Moment
from linkhold.store.keeper import Keeper
from linkhold.store.outbox_file import OpenedStore, open_store
from linkhold.wire import wrap_state
from support.broker import wait_until
from support.outbox import IDENTITY, Reports

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.broker import Collector

QUICK = Timing(
    connack_s=0.5,
    ack_s=1.5,
    probe_s=0.5,
    backoff_least_s=0.1,
    backoff_most_s=0.4,
    settle_s=0.2,
)
PREFIX = "linkhold/v1/lab/n1"


def seqs(collector: Collector) -> list[int]:
    """Return the sequence numbers of the events that arrived, in order."""
    return [json.loads(message.payload)["seq"] for message in collector.on("/event/")]


class Node:
    """What leg B of one node consists of; the state is an empty document with an epoch."""

    def __init__(
        self,
        folder: Path,
        *brokers: BrokerSettings | int,
        timing: Timing = QUICK,
        jitter_s: float = 0.0,
        previous: tuple[str, int] | None = None,
        rng: random.Random | None = None,
        opener: Callable[[Path, OutboxSettings], OpenedStore] = open_store,
    ) -> None:
        fleet = tuple(BrokerSettings("127.0.0.1", b) if isinstance(b, int) else b for b in brokers)
        self.reports = Reports()
        self.keeper = Keeper(folder, OutboxSettings(), self.reports, fleet=True, opener=opener)
        self.keeper.start()
        settings = MqttSettings(fleet=fleet, keepalive_s=5, connect_jitter_s=jitter_s)
        self.leg = FleetLeg(
            IDENTITY,
            "0.1",
            settings,
            self.keeper,
            self.reports,
            previous=previous,
            timing=timing,
            rng=rng or random.Random(1),
        )

    def start(self) -> Node:
        """Start the leg."""
        self.leg.start()
        return self

    def state(self, epoch: int, **data: Any) -> None:
        """Publish a state."""
        document = f'{{"epoch":{epoch},"pad":"{data.get("pad", "")}"}}'.encode()
        self.leg.publish_state(wrap_state(IDENTITY, epoch, Moment(epoch, 0.0), document), epoch + 1)

    def legs(self) -> list[tuple[str, str]]:
        """Return what the leg reported: (status, reason), in order."""
        return [(reading.status, reading.reason) for reading in self.reports.of(LegReading)]

    def wait_for(self, status: str, part: str = "", timeout_s: float = 10) -> None:
        """Wait until the newest report of the leg has this status and ``part`` in its reason."""

        def reached() -> bool:
            last = self.legs()[-1:]
            return bool(last) and last[0][0] == status and part in last[0][1]

        wait_until(reached, timeout_s, f"leg {status} {part}: {self.legs()}")

    def count(self, name: str) -> int:
        """Return a counter of the leg."""
        return self.leg.counters().get(name, 0)

    def close(self) -> None:
        """Stop leg and keeper."""
        self.leg.stop("test over", 2)
        self.keeper.stop(5)
