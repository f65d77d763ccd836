"""Uplinks under a simulated clock: lines that answer or do not, and routes that obey or refuse."""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.decide.uplinks import (
    Answer,
    Ask,
    LineRules,
    LineSight,
    Memory,
    Place,
    Placed,
    Pulse,
    Rules,
    Sights,
    Withdraw,
    step,
)
from linkhold.model import Uplinks

if TYPE_CHECKING:
    from linkhold.decide.happening import Happening
    from linkhold.decide.uplinks.values import Reading

START_NS = 1_000_000_000_000
SECOND = 1_000_000_000
SWITCH_NS = 5_000_000
TARGETS = ("192.0.2.1", "192.0.2.2")
RULES = Rules((LineRules("bond0", TARGETS), LineRules("usb0", TARGETS, metered=True)), enforce=True)
MOST_STEPS = 200_000


@dataclass
class Line:
    """One line: whether it answers, and what the host shows of it."""

    index: int
    answers: bool = True
    rtt_ms: float = 1.0
    obstacle: str = ""
    strict: bool = False
    deaf: frozenset[str] = frozenset()

    @property
    def sight(self) -> LineSight:
        """The line as the host shows it."""
        gateway = f"10.0.{self.index}.1"
        return LineSight(self.index, self.obstacle, (gateway,), strict=self.strict)


@dataclass
class Lines:
    """The machine, its lines, and a clock that only the test moves.

    ``natural`` is the link that the host's own routes prefer; ``refuses`` an error that the kernel
    gives to every switch. ``switches`` are (seconds since the start, uplink now in use).
    """

    rules: Rules = RULES
    lines: dict[str, Line] = field(default_factory=lambda: {"bond0": Line(1), "usb0": Line(2)})
    natural: str = "bond0"
    placed: str = ""
    refuses: str = ""
    now_ns: int = START_NS
    memory: Memory = field(default_factory=Memory)
    shown: Uplinks = field(default_factory=Uplinks)
    news: list[tuple[float, Happening]] = field(default_factory=list)
    switches: list[tuple[float, str]] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=dict)
    wake_ns: int | None = None

    def __post_init__(self) -> None:
        self._number = itertools.count()
        self._queue: list[tuple[int, int, Reading]] = []
        self.look()

    @property
    def now_s(self) -> float:
        """Seconds since the start."""
        return (self.now_ns - START_NS) / SECOND

    @property
    def carrying(self) -> str:
        """The uplink that default traffic takes in truth."""
        return self.placed or self.natural

    def look(self) -> None:
        """Show the machine the host as it is."""
        sights = {link: line.sight for link, line in self.lines.items()}
        self.take(Sights(sights, self.natural, self.placed))

    def change(self, link: str, **changes: object) -> None:
        """Change a line and show it."""
        self.lines[link] = replace(self.lines[link], **changes)  # type: ignore[arg-type]
        self.look()

    def take(self, reading: Reading) -> None:
        """Give the machine a reading, and let the world do what it asks for."""
        outcome = step(self.rules, self.memory, reading, self.now_ns)
        self.memory, self.wake_ns = outcome.memory, outcome.wake_ns
        if outcome.report is not None:
            self.shown = outcome.report.uplinks
            self.news += [(self.now_s, happening) for happening in outcome.report.news]
        for action in outcome.actions:
            if isinstance(action, Ask):
                self._answer(action)
            else:
                self._switch(action)

    def _answer(self, ask: Ask) -> None:
        self.asked[ask.link] = self.asked.get(ask.link, 0) + 1
        line = self.lines[ask.link]
        if line.answers:
            for target in set(ask.targets) - line.deaf:
                self._later(line.rtt_ms * 1e6, Answer(ask.link, target, int(line.rtt_ms * 1e6)))

    def _switch(self, action: Place | Withdraw) -> None:
        if self.refuses:
            self._later(SWITCH_NS, Placed(self.placed, self.refuses))
            return
        before = self.carrying
        self.placed = action.link if isinstance(action, Place) else ""
        if self.carrying != before:
            self.switches.append((self.now_s, self.carrying))
        self._later(SWITCH_NS, Placed(self.placed))

    def _later(self, delay_ns: float, reading: Reading) -> None:
        entry = (self.now_ns + int(delay_ns), next(self._number), reading)
        heapq.heappush(self._queue, entry)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end_ns = self.now_ns + int(seconds * SECOND)
        for _ in range(MOST_STEPS):
            answer_ns = self._queue[0][0] if self._queue else end_ns + 1
            wake_ns = self.wake_ns if self.wake_ns is not None else end_ns + 1
            if min(answer_ns, wake_ns) > end_ns:
                self.now_ns = end_ns
                return
            self.now_ns = max(self.now_ns, min(answer_ns, wake_ns))
            self.take(heapq.heappop(self._queue)[2] if answer_ns <= wake_ns else Pulse())
        raise AssertionError("the machine asks to be woken without end")

    def types(self) -> list[str]:
        """Return the types of what was told."""
        return [happening.type for _, happening in self.news]

    def verdict(self, link: str) -> tuple[str, str]:
        """Return verdict and reason as told last."""
        line = next(line for line in self.shown.lines if line.link == link)
        return line.verdict, line.reason
