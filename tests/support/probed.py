"""A scripted world beyond the node: what answers the probes of :mod:`linkhold.decide.reach`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from linkhold.decide.reach import (
    SECOND,
    Aim,
    Heed,
    Kind,
    Memory,
    Rules,
    Step,
    Verdict,
    step,
)
from linkhold.model.probes import Answer, CauseKind, Heard

if TYPE_CHECKING:
    from collections.abc import Callable

GATE = Aim("gateway", Kind.GATEWAY, "gateway", "10.0.0.1", "eth0")
PATH = Aim("web", Kind.PATH, "tcp", "192.0.2.1:443")
DNS_1 = Aim("resolver 1", Kind.DNS, "dns", "10.0.0.2", query=".")
DNS_2 = Aim("resolver 2", Kind.DNS, "dns", "10.0.0.3", query=".")
STORE = Aim("nfs", Kind.STORAGE, "tcp", "192.0.2.9:2049", strict=True)
ALL = (GATE, PATH, DNS_1, DNS_2, STORE)


class ProbedWorld:
    """Aims that answer as the test says, 10 ms after they are asked, under a simulated clock.

    ``deaf`` names those whose probes hang: neither an answer comes nor their deadline.
    """

    def __init__(
        self,
        aims_: tuple[Aim, ...] = ALL,
        rules_: Rules | None = None,
        *,
        deaf: tuple[str, ...] = (),
    ) -> None:
        self.aims, self.rules = aims_, rules_ or Rules()
        self.heard = {aim.name: Heard.ANSWERS for aim in aims_}
        self.deaf = deaf
        self.asked: list[tuple[float, str]] = []
        self.route: bool | None = True
        self.memory = Memory()
        self.now_ns = 10**12
        self.start_ns = self.now_ns
        self.last = Step(self.memory, (), (), None)

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> float:
        """Let time pass; return the seconds until ``until`` came true, or all."""
        start_ns, end_ns = self.now_ns, self.now_ns + int(seconds * SECOND)
        waiting: list[Heed] = []
        while True:
            self._step(waiting)
            waiting = [
                Heed(aim.name, Answer(aim.how, aim.target, self.heard[aim.name], 1.0, "x"))
                for aim in self.last.ask
                if aim.name not in self.deaf
            ]
            if until():
                break
            due_ns = self.now_ns + SECOND // 100 if waiting else self.last.due_ns
            if due_ns is None or due_ns > end_ns:
                self._step(waiting)
                self.now_ns = end_ns
                break
            assert due_ns > self.now_ns, "the machine asks to be woken at once, for ever"
            self.now_ns = due_ns
        return (self.now_ns - start_ns) / SECOND

    def _step(self, heard: list[Heed]) -> None:
        self.last = step(
            self.rules, self.memory, self.aims, heard, self.now_ns, default_route=self.route
        )
        self.memory = self.last.memory
        at_s = (self.now_ns - self.start_ns) / SECOND
        self.asked += [(at_s, aim.name) for aim in self.last.ask]

    def verdict(self, aim: Aim) -> Verdict:
        """Return what is known of an aim."""
        return self.memory.lines[aim.name].verdict

    def causes(self) -> list[tuple[CauseKind, str, str, bool]]:
        """Return the causes that stand, in short."""
        return [(one.kind, one.subject, one.because, one.partial) for one in self.last.causes]

    def count(self, aim: Aim, since_s: float) -> int:
        """Return how often an aim was asked since a second."""
        return sum(name == aim.name and at >= since_s for at, name in self.asked)
