"""The power machine under a simulated clock: two UPSes and three sensors to speak for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from linkhold.decide.power import Memory, Rules, SourceRules, step
from linkhold.decide.power.generic import Mapping
from linkhold.decide.power.reports import of_message, of_ups
from linkhold.model import Moment, PowerState
from linkhold.model.power_sources import Dialect, SensorMessage, SourceKind, UpsReport

if TYPE_CHECKING:
    from linkhold.decide.power import Said, Step

SECOND = 1_000_000_000
OK, BATTERY, LOW, UNKNOWN = PowerState.OK, PowerState.BATTERY, PowerState.LOW, PowerState.UNKNOWN
UPS = SourceRules("ups1", SourceKind.UPS)
UPS2 = SourceRules("ups2", SourceKind.UPS)
SENSORS = tuple(
    SourceRules(f"esp{number}", SourceKind.SENSOR, max_age_s=90.0, debounce_s=1.0)
    for number in (1, 2, 3)
)


@dataclass
class Place:
    """The power machine under a simulated clock; wakes itself as it asked to be."""

    rules: Rules
    memory: Memory = field(default_factory=Memory)
    now_ns: int = 1000 * SECOND
    news: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    outcome: Step | None = None

    @property
    def now(self) -> Moment:
        """The simulated moment."""
        return Moment(self.now_ns, self.now_ns / SECOND)

    def take(self, said: Said | None) -> Step:
        """Take one message or none in."""
        outcome = step(self.rules, self.memory, said, self.now)
        self.memory, self.outcome = outcome.memory, outcome
        for happening in outcome.news:
            self.news.append(happening.type.removeprefix("power."))
            self.data[self.news[-1]] = dict(happening.data)
        return outcome

    def ups(self, status: str, name: str = "ups1", **figures: Any) -> PowerState:
        """Poll a UPS."""
        return self.take(of_ups(name, UpsReport(name, status, **figures))).power.state

    def esp(self, payload: bytes, number: int = 1, *, retained: bool = False) -> PowerState:
        """Hear an ESP32."""
        message = SensorMessage("rack/mains", payload, retained)
        said = of_message(f"esp{number}", Dialect.GENERIC, message, Mapping())
        return self.take(said).power.state

    def sleep(self, seconds: float) -> PowerState:
        """Let time pass, waking at every moment that was asked for."""
        until_ns = self.now_ns + int(seconds * SECOND)
        outcome = self.outcome or self.take(None)
        while outcome.wake_ns is not None and outcome.wake_ns <= until_ns:
            self.now_ns = outcome.wake_ns
            outcome = self.take(None)
        self.now_ns = until_ns
        return self.take(None).power.state


def one() -> Place:
    """Return a node behind one UPS."""
    return Place(Rules((UPS,)))
