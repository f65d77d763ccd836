"""One rank of a test: its agent, its Hold, a step of training."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from client.states import view
from linkhold.client import Hold
from linkhold.client.agreement import cadence
from linkhold.client.settings import Settings
from linkhold.client.voice import Memo

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.wire import StateView

STEP_S = 0.002
LONGEST_US = 10_000
"""Instead of the cadence's 2 s: steps of 2 ms stand for steps of a second."""


class Told:
    """Stands for the listener: what the agent of this rank's node says, at once."""

    def __init__(self) -> None:
        self.newest: StateView | None = None
        self.counters: dict[str, int] = {}
        self.looked = True
        self._epoch = 0
        self._alarms: list[Callable[[], None]] = []
        self.say()

    def say(self, **fields: Any) -> None:
        self._epoch += 1
        self.newest = view(epoch=self._epoch, **fields)
        for alarm in self._alarms:
            alarm()

    def add(self, alarm: Callable[[], None]) -> None:
        self._alarms.append(alarm)

    def remove(self, alarm: Callable[[], None]) -> None:
        self._alarms.remove(alarm)

    def ensure(self) -> None: ...

    def attend(self, chore: Callable[[], None]) -> None: ...

    def neglect(self, chore: Callable[[], None]) -> None: ...

    def where(self) -> Path:
        return Path("/nowhere")


class Here:
    """One rank: its number, its agent, and what its Hold said."""

    def __init__(self, rank: int, world: int, folder: Path) -> None:
        cadence.LONGEST_US = LONGEST_US
        self.rank = rank
        self.world = world
        self.folder = folder
        self.last = rank == world - 1
        self.log: list[str] = []
        self.marks: dict[str, float] = {}
        self.agent = Told()

    def mark(self, name: str) -> None:
        """Remember when something was (time.monotonic(), the same clock in all ranks)."""
        self.marks[name] = time.monotonic()

    def hold(self, **settings: Any) -> Hold:
        """Return a Hold whose agent is :attr:`agent`, as connect() would."""
        begin = settings.pop("begin", True)
        hold = Hold(
            Settings(agree=settings.pop("agree", "torch"), **settings),
            self.agent,
            voice=Memo(self.log),
        )
        if begin:
            hold._begin()
        return hold


def train() -> None:
    """One step of training: a collective, which makes ranks meet at each step as DDP does."""
    import torch
    import torch.distributed as dist

    dist.all_reduce(torch.ones(8))
    time.sleep(STEP_S)


def wait_for(file: Path) -> None:
    """Wait until another rank has ended, or a test is beyond its time."""
    end_s = time.monotonic() + 30
    while not file.exists() and time.monotonic() < end_s:
        time.sleep(0.05)
