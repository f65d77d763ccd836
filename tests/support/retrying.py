"""A simulated world for retries: clock, node state, dependency, and a log to read."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from client.states import view
from linkhold.client.retry.calls import Retry
from linkhold.client.retry.dependency import Dependency
from linkhold.client.retry.node import Node
from linkhold.client.retry.policy import Limits, Policy
from linkhold.client.voice import Memo

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkhold.wire import StateView

START_S = 1000.0


class HandSource:
    """A listener that a test tells the state; alarms are called as the real one does."""

    def __init__(self) -> None:
        self.newest: StateView | None = None
        self.counters: dict[str, int] = {}
        self.looked = True
        self.alarms: list[Callable[[], None]] = []
        self.chores: list[Callable[[], None]] = []

    def ensure(self) -> None:
        """Listen."""

    def add(self, alarm: Callable[[], None]) -> None:
        """Keep an alarm."""
        self.alarms.append(alarm)

    def remove(self, alarm: Callable[[], None]) -> None:
        """Forget an alarm."""
        self.alarms.remove(alarm)

    def attend(self, chore: Callable[[], None]) -> None:
        """Keep a chore."""
        self.chores.append(chore)

    def neglect(self, chore: Callable[[], None]) -> None:
        """Forget a chore."""
        self.chores.remove(chore)

    def where(self) -> Path:
        """Nobody looks."""
        raise NotImplementedError


class RetryWorld:
    """Time passes in sleeps and in calls; what is to happen at a moment is planned before."""

    def __init__(self, seed: int = 1, **limits: Any) -> None:
        self.now_s = START_S
        self.lines: list[str] = []
        self.sleeps: list[float] = []
        self.dice = random.Random(seed)
        self.source = HandSource()
        self.plans: list[tuple[float, Callable[[], None]]] = []
        self.beating = True
        self._epoch = 0
        self._fields: dict[str, Any] = {}
        self.dependency = self.another("s3", **limits)

    def another(self, name: str, **limits: Any) -> Dependency:
        """Return a dependency in this world."""
        return Dependency(
            name,
            node=Node(lambda: self.source, now_ns=lambda: int(self.now_s * 1e9)),
            limits=Limits(**{"budget": None, "breaker": "process", **limits}),
            voice=Memo(self.lines),
            now_s=lambda: self.now_s,
        )

    def retry(self, on: Dependency | None = None, **policy: Any) -> Retry:
        """Return a retry that sleeps in this world."""
        return Retry(
            on or self.dependency,
            Policy(**policy),
            sleep=self.sleep,
            asleep=self.asleep,
            dice=self.dice,
        )

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.sleeps.append(seconds)
        self.pass_time(seconds)

    async def asleep(self, seconds: float) -> None:
        """Let time pass in a task."""
        self.sleep(seconds)

    def pass_time(self, seconds: float) -> None:
        """Move the clock; plans that fall due come true, heartbeats keep the state fresh."""
        self.now_s += seconds
        due = [plan for at_s, plan in self.plans if at_s <= self.now_s]
        self.plans = [(at_s, plan) for at_s, plan in self.plans if at_s > self.now_s]
        for plan in due:
            plan()
        if self.source.newest is not None and self.beating:
            self._renew()

    def plan(self, after_s: float, what: Callable[[], None]) -> None:
        """Let something happen ``after_s`` from now."""
        self.plans.append((self.now_s + after_s, what))

    def say(self, **fields: Any) -> None:
        """Let the agent say a state."""
        self._fields = fields
        self._epoch += 1
        self._renew()
        for alarm in tuple(self.source.alarms):
            alarm()

    def _renew(self) -> None:
        self.source.newest = view(epoch=self._epoch, mono_ns=int(self.now_s * 1e9), **self._fields)


def reset() -> ConnectionResetError:
    """Return what a torn connection raises."""
    return ConnectionResetError(104, "Connection reset by peer")
