"""Bonds under a simulated clock: members, switches, traffic and a gateway; days in seconds."""

from __future__ import annotations

import heapq
import itertools
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.decide.probing import (
    Activate,
    Answer,
    Counters,
    Memory,
    Moved,
    Pulse,
    Rules,
    SendProbe,
    Sights,
    Target,
    step,
)
from linkhold.decide.probing.values import BondSight, MemberSight
from linkhold.decide.readings import BondMoveReading, BondPathsReading

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.probing.values import Action, Reading
    from linkhold.model import BondPaths, MemberPath

MS = 1_000_000
SECOND = 1_000 * MS
START_NS = 1_000 * SECOND
GATEWAY = Target("10.0.0.1", "10.0.0.2")
GATEWAY_MAC = "02:00:00:00:00:01"
MAX_WAKES_AT_ONCE = 100


def sight(count: int = 2, *, active: str = "eth0", **changes: object) -> BondSight:
    """Return a bond of ``count`` healthy members that prefers eth0."""
    members = tuple(
        MemberSight(f"eth{n}", n + 1, True, True, "02:00:00:00:01:00", f"02:00:00:00:02:{n:02x}")
        for n in range(count)
    )
    bond = BondSight("bond0", 9, members, active, "eth0", (GATEWAY,))
    return replace(bond, **changes)  # type: ignore[arg-type]


@dataclass
class BondNode:
    """A node with one bond. The fields up to ``takes_ns`` are what a test changes on the way.

    ``paths``: the share of frames that the path behind a member loses, 1 for a dead one.
    ``gateway`` says whether it answers a probe that arrives. ``tx`` and ``rx`` are frames a second
    that the node sends and is sent; ``chatter`` is what it hears of others, dead switch or not.
    """

    bond: BondSight = field(default_factory=sight)
    rules: Rules = field(default_factory=lambda: Rules(enforce=True))
    paths: dict[str, float] = field(default_factory=dict)
    gateway: Callable[[int], bool] = lambda _now_ns: True
    gateway_mac: str = GATEWAY_MAC
    tx: float = 0.0
    rx: float = 0.0
    chatter: float = 0.0
    refuses: str = ""
    rtt_ns: int = MS
    takes_ns: int = 2 * MS

    now_ns: int = START_NS
    memory: Memory = field(default_factory=Memory)
    random: random.Random = field(default_factory=lambda: random.Random(1))
    queue: list[tuple[int, int, Reading]] = field(default_factory=list)
    sent: list[tuple[int, SendProbe]] = field(default_factory=list)
    moves: list[tuple[int, Activate]] = field(default_factory=list)
    outcomes: list[BondMoveReading] = field(default_factory=list)
    told: list[tuple[int, BondPaths]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._order = itertools.count()
        self._wake_ns: int | None = None
        self._counted_ns = self.now_ns
        self._sent = self._received = 0.0
        self._awake = 0
        self.take(Sights((self.bond,)))

    # What a test asks.

    @property
    def active(self) -> str:
        """Name of the active member."""
        return self.bond.active

    @property
    def paths_told(self) -> BondPaths:
        """What the core knows now."""
        return self.told[-1][1]

    def path(self, name: str) -> MemberPath:
        """Return what the core knows of one member's path."""
        return next(member for member in self.paths_told.members if member.name == name)

    def verdicts(self, name: str) -> list[str]:
        """Return every verdict on a member that was told, without repetitions."""
        said = [m.verdict for _, paths in self.told for m in paths.members if m.name == name]
        return [verdict for verdict, _ in itertools.groupby(said)]

    def probes_since(self, since_ns: int) -> int:
        """Return how many probes were sent from ``since_ns`` on."""
        return sum(at >= since_ns for at, _ in self.sent)

    # What a test does.

    def see(self, **changes: object) -> None:
        """Let the kernel show the bond changed."""
        self.bond = replace(self.bond, **changes)  # type: ignore[arg-type]
        self.take(Sights((self.bond,)))

    def carrier(self, name: str, *, up: bool) -> None:
        """Pull or plug a cable."""
        members = tuple(
            replace(member, carrier=up, good=up) if member.name == name else member
            for member in self.bond.members
        )
        self.see(members=members)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end_ns = self.now_ns + int(seconds * SECOND)
        while self.next_ns() <= end_ns:
            self.run_one()
        self.now_ns = end_ns

    def next_ns(self) -> int:
        """Return when something happens next."""
        waiting = self.queue[0][0] if self.queue else 1 << 62
        return max(self.now_ns, min(waiting, 1 << 62 if self._wake_ns is None else self._wake_ns))

    def run_one(self) -> None:
        """Let the next thing happen."""
        at_ns = self.next_ns()
        self._awake = 0 if at_ns > self.now_ns else self._awake + 1
        assert self._awake < MAX_WAKES_AT_ONCE, "the machine asks to be woken without end"
        self.now_ns = at_ns
        if self.queue and self.queue[0][0] <= at_ns:
            reading = heapq.heappop(self.queue)[2]
            if isinstance(reading, Moved) and not reading.error:
                self.bond = replace(self.bond, active=reading.member)
                self.take(Sights((self.bond,)))
            self.take(reading)
        else:
            self._flow()
            counters = Counters(self.active, int(self._received), int(self._sent))
            self.take(Pulse({"bond0": counters} if self.active else {}))

    def take(self, reading: Reading) -> None:
        """Give the machine a reading and do what it asks for."""
        done = step(self.rules, self.memory, reading, self.now_ns)
        times = [at_ns for at_ns in (done.wake_ns, done.look_ns) if at_ns is not None]
        self.memory, self._wake_ns = done.memory, min(times, default=None)
        for report in done.reports:
            if isinstance(report, BondPathsReading):
                self.told += [(self.now_ns, paths) for paths in report.bonds]
            else:
                self.outcomes.append(report)
        for action in done.actions:
            self._do(action)

    def _do(self, action: Action) -> None:
        if isinstance(action, SendProbe):
            self._flow()
            self.sent.append((self.now_ns, action))
            self._sent += action.member == self.active
            self._ask(action)
            return
        self.moves.append((self.now_ns, action))
        self._later(self.takes_ns, Moved(action.bond, action.member, self.refuses))

    def _ask(self, probe: SendProbe) -> None:
        assert probe.standby == (probe.member != self.active)
        loss = self.paths.get(probe.member, 0.0)
        if self.random.random() < loss or not self.gateway(self.now_ns):
            return
        if probe.target_mac not in {"", self.gateway_mac}:
            return
        self._received += probe.member == self.active
        answer = Answer(probe.bond, probe.member, probe.target.address, self.gateway_mac)
        self._later(self.rtt_ns, answer)

    def _later(self, delay_ns: int, reading: Reading) -> None:
        heapq.heappush(self.queue, (self.now_ns + delay_ns, next(self._order), reading))

    def _flow(self) -> None:
        seconds = (self.now_ns - self._counted_ns) / SECOND
        self._counted_ns = self.now_ns
        self._sent += self.tx * seconds
        alive = 1 - self.paths.get(self.active, 0.0)
        self._received += (self.rx * alive + self.chatter) * seconds
