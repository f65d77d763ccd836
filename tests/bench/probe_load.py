"""What path probes cost a gateway: a fleet of bonds under a simulated clock, pure decisions only.

Nothing here measures time: the figures are counts, the same on every machine. A thousand nodes
share one gateway; it answers as many probes a second as its policer lets through.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.rows import row
from linkhold.decide.probing import Rules
from support.probing import SECOND, START_NS, BondNode

if TYPE_CHECKING:
    from bench.rows import Row

NODES, QUICK_NODES = 1000, 100
SETTLE_S = 40.0
WATCH_S = 30.0
LOAD_MOST = 2.2
"""Probes a second a node may cost at rest."""
RATES = {"busy": {"tx": 500.0, "rx": 500.0}, "quiet": {}, "one-way": {"tx": 50.0}}


@dataclass
class Policer:
    """A gateway that answers ``rate`` probes a second and ``rate`` / 10 at once (token bucket).

    A rate of 0 is a dead gateway, None one without a policer.
    """

    rate: float | None = None
    tokens: float = 0.0
    filled_ns: int = START_NS
    asked: int = 0

    def __call__(self, now_ns: int) -> bool:
        """Tell whether a probe that arrives now is answered."""
        self.asked += 1
        if self.rate is None:
            return True
        earned = self.rate * (now_ns - self.filled_ns) / SECOND
        self.tokens = min(self.tokens + earned, self.rate / 10)
        self.filled_ns = now_ns
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Fleet:
    """Nodes that share a gateway, each at its own place in time."""

    def __init__(self, count: int, **fields: float) -> None:
        self.gateway = Policer()
        self.nodes = []
        dice = random.Random(7)
        for number in range(count):
            node = BondNode(
                rules=Rules(enforce=True, seed=number + 1),
                random=random.Random(number),
                gateway=self.gateway,
                now_ns=START_NS + int(dice.random() * SECOND),
                **fields,  # type: ignore[arg-type]
            )
            self.nodes.append(node)
        self.now_ns = START_NS

    def run(self, seconds: float) -> None:
        """Let time pass for all nodes, in the order of what happens."""
        self.now_ns += int(seconds * SECOND)
        queue = [(node.next_ns(), number) for number, node in enumerate(self.nodes)]
        heapq.heapify(queue)
        while queue[0][0] <= self.now_ns:
            number = queue[0][1]
            node = self.nodes[number]
            node.run_one()
            heapq.heapreplace(queue, (node.next_ns(), number))

    def rate(self, since_ns: int) -> float:
        """Return probes a second and node since then."""
        seconds = (self.now_ns - since_ns) / SECOND
        return sum(node.probes_since(since_ns) for node in self.nodes) / seconds / len(self.nodes)

    def moves(self) -> int:
        """Return how often probes moved a bond."""
        return sum(move.reason == "path_dead" for node in self.nodes for _, move in node.moves)

    def watch(self, seconds: float) -> float:
        """Let time pass and return the probes a second and node in it."""
        since_ns = self.now_ns
        self.run(seconds)
        return self.rate(since_ns)


def run(*, quick: bool) -> list[Row]:
    """Simulate rest and faults."""
    count = QUICK_NODES if quick else NODES
    return [*_rest(), *_dead_switch(count), *_dead_gateway(count), *_policed(count)]


def _rest() -> list[Row]:
    rows = []
    for name, fields in RATES.items():
        fleet = Fleet(20, **fields)
        fleet.run(SETTLE_S)
        rate = fleet.watch(60)
        rows.append(row(f"probes/s per node at rest, {name}", "1/s", rate, most=LOAD_MOST))
    return rows


def _dead_switch(count: int) -> list[Row]:
    """Every active member's switch dies at once, under traffic."""
    fleet = Fleet(min(count, 200), **RATES["busy"])
    fleet.run(SETTLE_S)
    died_ns = fleet.now_ns
    for node in fleet.nodes:
        node.paths["eth0"] = 1.0
    peak = fleet.watch(1)
    took = [(node.moves[0][0] - died_ns) / 1e6 for node in fleet.nodes if node.moves]
    missing = float(len(fleet.nodes) - len(took))
    return [
        row("dead switch: probes per node in the first second", "", peak),
        row("dead switch: slowest decision", "ms", max(took, default=0.0), most=350),
        row("dead switch: bonds that stayed", "", missing, most=1),
    ]


def _dead_gateway(count: int) -> list[Row]:
    fleet = Fleet(count)
    fleet.run(SETTLE_S)
    fleet.gateway.rate = 0.0
    first, minute = fleet.watch(10), fleet.watch(50)
    later = fleet.watch(WATCH_S)
    return [
        row("dead gateway: probes/s per node, first 10 s", "1/s", first),
        row("dead gateway: probes/s per node, rest of the minute", "1/s", minute),
        row("dead gateway: probes/s per node, after a minute", "1/s", later, most=LOAD_MOST),
        row("dead gateway: bonds moved", "", float(fleet.moves()), most=1),
    ]


def _policed(count: int) -> list[Row]:
    """A gateway that suddenly answers only half a probe a second and node, then a tenth."""
    fleet = Fleet(count)
    fleet.run(SETTLE_S)
    rows = []
    for share in (0.5, 0.1):
        fleet.gateway.rate = share * count
        worst = fleet.watch(10)
        rate = fleet.watch(WATCH_S)
        moved = float(fleet.moves())
        what = f"gateway answers {share:g}/s per node"
        rows += [
            row(f"{what}: probes/s per node, first 10 s", "1/s", worst),
            row(f"{what}: probes/s per node, then", "1/s", rate, most=LOAD_MOST),
            row(f"{what}: bonds moved so far, of {count}", "", moved, most=max(count / 100, 1)),
        ]
    flapped = sum(sum(m.reason == "path_dead" for _, m in n.moves) > 1 for n in fleet.nodes)
    rows.append(row("policing gateway: bonds moved twice", "", float(flapped), most=1))
    return rows
