"""What nodes tell of a day: made by the agent's own core under a simulated clock."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from linkhold.decide import power
from linkhold.decide.power.reports import of_ups
from linkhold.decide.readings import AgentReading, PowerReading
from linkhold.model import Identity, Moment
from linkhold.model.power_sources import SourceKind, UpsReport
from linkhold.wire import dumps, event_document
from support.world import World, bonded

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY_S = 86400.0
BATTERY_S = 900.0
RULES = power.Rules((power.SourceRules("ups1", SourceKind.UPS),))


class Day:
    """One node and its day; each fault lets time pass until it is over.

    ``began_s`` and ``ended_s`` of :attr:`faults` are wall clock, in seconds.
    """

    def __init__(self, node: str = "node1", site: str = "lab", boot: str = "boot-1") -> None:
        self.node, self.site = node, site
        self.world = World(boot_id=boot)
        self.faults: list[tuple[str, float, float]] = []
        started: dict[str, object] = {"version": "1", "mode": "observe", "absent_s": None}
        self.world.take(AgentReading("started", started))
        self.world.look(bonded(), after_s=1)
        self._power = power.Memory()
        self._ups("OL")

    def _ups(self, status: str, runtime_s: float | None = None) -> None:
        """Poll the UPS, and tell the core what the power machine makes of it."""
        said = of_ups("ups1", UpsReport("ups1", status, runtime_s=runtime_s))
        outcome = power.step(RULES, self._power, said, self.world.now)
        self._power = outcome.memory
        if outcome.report:
            self.world.take(PowerReading(outcome.power, outcome.view, outcome.news))

    def wait(self, seconds: float) -> None:
        """Let time pass without a fault."""
        self.world.sleep(seconds)

    def _fault(self, name: str, seconds: float) -> None:
        began_s = self.world.now.wall_s
        self.world.sleep(seconds)
        self.faults.append((name, began_s, self.world.now.wall_s))

    def lose_member(self, seconds: float) -> None:
        """Lose one of two links, then have it back."""
        self.world.look(bonded(second=False))
        self._fault("degraded", seconds)
        self.world.look(bonded(losses=(0, 1)))

    def lose_network(self, seconds: float) -> None:
        """Lose both links, then have them back."""
        self.world.look(bonded(first=False, second=False))
        self._fault("down", seconds)
        self.world.look(bonded(losses=(1, 1)))

    def lose_mains(self, seconds: float, *, back: bool = True) -> None:
        """Run on battery, then have mains ``back``."""
        self._ups("OB", BATTERY_S)
        self._fault("battery", seconds)
        if not back:
            return
        self._ups("OL")
        self.world.sleep(RULES.mains_back_s)
        self._ups("OL")

    @property
    def documents(self) -> list[dict[str, Any]]:
        """Every event so far, as it is published."""
        world = self.world
        identity = Identity(self.site, self.node, "m", world.boot_id, world.session, Moment(1, 0.0))
        return [event_document(identity, event) for event in world.events]

    def lines(self) -> Iterator[bytes]:
        """Yield the events as ``linkhold events --json`` prints them."""
        for document in self.documents:
            yield dumps(document) + b"\n"


def random_day(number: int, site: str = "lab", *, faults: float = 3.0) -> Day:
    """Return the day of one of many nodes; about half of them have no fault."""
    dice = random.Random(number)
    day = Day(f"gpu-{number:04}", site, f"boot-{number}")
    count = dice.choice((0, 0, 0, 1, round(faults), round(2 * faults)))
    for _ in range(count):
        day.wait(dice.uniform(60, DAY_S / (count + 1)))
        fault = dice.choice((day.lose_member, day.lose_member, day.lose_network, day.lose_mains))
        fault(dice.choice((4.0, 30.0, 240.0, 1800.0)) * dice.uniform(0.5, 1.5))
    day.wait(max(0.0, DAY_S - (day.world.now_ns - 1_000_000_000_000) / 1e9))
    return day
