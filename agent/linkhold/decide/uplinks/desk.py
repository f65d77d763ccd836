"""All uplinks during one step: the memory as it becomes, and what is asked for on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from linkhold.decide.dice import SIDES, rolled
from linkhold.decide.happening import Happening
from linkhold.decide.uplinks.values import LineMemory
from linkhold.model import Severity

if TYPE_CHECKING:
    from linkhold.decide.uplinks.values import Action, LineRules, Memory, Rules

SECOND = 1_000_000_000
WIDTH = 0.1
"""Rounds come up to this share early, by chance, so that a fleet does not ask in step."""


class Desk:
    """What a step works on. Only the step that made it changes it."""

    def __init__(self, rules: Rules, memory: Memory, now_ns: int) -> None:
        self.rules = rules
        self.memory = memory
        self.now_ns = now_ns
        self.actions: list[Action] = []

    def put(self, **changes: Any) -> None:
        """Change what is remembered of all."""
        self.memory = replace(self.memory, **changes)

    def line(self, link: str) -> LineMemory:
        """Return what is remembered of an uplink."""
        return self.memory.lines.get(link) or LineMemory()

    def put_line(self, link: str, **changes: Any) -> LineMemory:
        """Change what is remembered of an uplink, and return it."""
        line = replace(self.line(link), **changes)
        self.put(lines={**self.memory.lines, link: line})
        return line

    def say(self, type_: str, link: str, severity: Severity = Severity.INFO, **data: Any) -> None:
        """Tell of something that happened."""
        self.put(news=(*self.memory.news, Happening(type_, link, data, severity)))

    @property
    def carrying(self) -> str:
        """The interface that default traffic takes, empty when there is none."""
        return self.memory.placed or self.memory.natural

    @property
    def troubled(self) -> bool:
        """Whether the uplink in use is dead or may be dying."""
        line = self.line(self.carrying)
        return line.verdict == "dead" or 0 < line.misses < self.rules.down_after

    def interval_ns(self, rule: LineRules) -> int:
        """Return how long after a round the next one of an uplink is due."""
        line, usual = self.line(rule.link), self.rules.probe_interval_s
        dying = 0 < line.misses < self.rules.down_after
        reviving = line.revived > 0
        rare = rule.metered and rule.link != self.carrying
        if rare and not (dying or reviving or self.troubled):
            usual = max(usual, self.rules.metered_interval_s)
        return int(usual * line.stretch * SECOND)

    def stretch(self) -> float:
        """Return a share of an interval by chance."""
        self.put(dice=rolled(self.memory.dice, self.rules.seed))
        return 1.0 - WIDTH * self.memory.dice / SIDES

    def judge(self, link: str, verdict: str, reason: str = "") -> None:
        """Change the verdict on an uplink, and tell of it when it is dead or alive."""
        line = self.line(link)
        if (verdict, reason) == (line.verdict, line.reason):
            return
        if verdict == line.verdict:
            self.put_line(link, reason=reason)
            return
        first: dict[str, Any] = {} if line.judged else {"initial": True}
        lasted_s = round((self.now_ns - line.since_ns) / SECOND, 3) if line.since_ns else None
        self.put_line(
            link,
            verdict=verdict,
            reason=reason,
            since_ns=self.now_ns,
            revived=0,
            judged=line.judged or verdict != "unknown",
        )
        if verdict == "dead":
            quiet_s = (self.now_ns - line.answered_ns) / SECOND if line.answered_ns else None
            silence = None if quiet_s is None else round(quiet_s, 3)
            self.say(
                "uplink.dead", link, Severity.WARNING, reason=reason, silence_s=silence, **first
            )
        elif verdict == "alive":
            rtt_ms = round(line.rtt_ns / 1e6, 2)
            self.say("uplink.alive", link, rtt_ms=rtt_ms, previous_s=lasted_s, **first)
