"""The values that the choice of an uplink speaks in: what it sees, remembers, asks for, tells.

Times are CLOCK_MONOTONIC in ns, 0 for never.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.happening import Happening
    from linkhold.decide.readings import UplinksReading


@dataclass(frozen=True, slots=True)
class LineRules:
    """One uplink as configured; without ``targets`` its gateways are asked."""

    link: str
    targets: tuple[str, ...] = ()
    metered: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """What the owner wants. ``lines`` are in order of preference; ``seed`` differs by node."""

    lines: tuple[LineRules, ...] = ()
    enforce: bool = False
    probe_interval_s: float = 1.0
    metered_interval_s: float = 10.0
    down_after: int = 3
    up_after_s: float = 30.0
    switches_per_hour: int = 12
    seed: int = 1

    @property
    def order(self) -> tuple[str, ...]:
        """The names of the uplinks, the preferred one first."""
        return tuple(line.link for line in self.lines)


@dataclass(frozen=True, slots=True)
class LineSight:
    """An uplink as the host shows it.

    ``obstacle`` says why it cannot carry, empty when it can. ``gateways`` are those of its default
    routes. ``strict``: its reverse path filter (rp_filter 1) drops answers from beyond them while
    another uplink carries.
    """

    index: int = 0
    obstacle: str = "not looked at yet"
    gateways: tuple[str, ...] = ()
    strict: bool = False


# Readings.


@dataclass(frozen=True, slots=True)
class Sights:
    """All uplinks as they are now.

    ``natural`` is the interface whose default route wins by the host's own metrics; ``placed``
    the uplink that our own routes put in front, empty for none.
    """

    lines: Mapping[str, LineSight]
    natural: str = ""
    placed: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """``target`` answered through ``link``, ``rtt_ns`` after it was asked."""

    link: str
    target: str
    rtt_ns: int = 0


@dataclass(frozen=True, slots=True)
class Unsent:
    """Nothing of the round that was asked for could be sent; the reason is for people."""

    link: str
    reason: str


@dataclass(frozen=True, slots=True)
class Placed:
    """What became of a :class:`Place` or :class:`Withdraw`: what our routes put in front now."""

    link: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Pulse:
    """Time has passed."""


Reading = Sights | Answer | Unsent | Placed | Pulse


# What is asked for.


@dataclass(frozen=True, slots=True)
class Ask:
    """Send one echo request to each of ``targets`` through ``link``."""

    link: str
    index: int
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Put the default routes of ``link`` in front of all others."""

    link: str
    index: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Take our own routes away: the host's own stand again."""


Action = Ask | Place | Withdraw


# What is remembered.


@dataclass(frozen=True, slots=True)
class LineMemory:
    """What is known of one uplink.

    ``since_ns``: the verdict stands. ``judged``: it was alive or dead before. ``known``: it
    answered once. ``asked_ns``: the last round went out; ``waiting``: nothing answered it yet.
    ``silent_ns``: the first of ``misses`` rounds in a row went out. ``revived`` counts answered
    rounds of a dead one. ``steady_ns``: it answers without two misses in a row. ``heard`` has the
    last answer of each target.
    """

    sight: LineSight = LineSight()
    verdict: str = ""
    reason: str = ""
    since_ns: int = 0
    judged: bool = False
    known: bool = False
    asked_ns: int = 0
    stretch: float = 1.0
    waiting: bool = False
    misses: int = 0
    silent_ns: int = 0
    revived: int = 0
    steady_ns: int = 0
    answered_ns: int = 0
    rtt_ns: int = 0
    heard: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moving:
    """A switch that was asked for. ``silent_ns``: the uplink left behind last answered then."""

    previous: str
    active: str
    reason: str
    began_ns: int
    silent_ns: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is remembered.

    ``moves``: the switches of the last hour. ``back_ns``: the last return to a better uplink;
    ``strikes`` counts returns in a row that did not last. ``retry_ns``: no switch before, since
    the kernel refused ``refusals`` in a row. ``news`` wait to be told, ``told`` was told last.
    """

    lines: Mapping[str, LineMemory] = field(default_factory=dict)
    natural: str = ""
    placed: str = ""
    moving: Moving | None = None
    moves: tuple[int, ...] = ()
    back_ns: int = 0
    strikes: int = 0
    refusals: int = 0
    retry_ns: int = 0
    would: str = ""
    locked: str = ""
    dice: int = 0
    news: tuple[Happening, ...] = ()
    told: UplinksReading | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of a step. ``wake_ns`` is when a :class:`Pulse` is due, None for never."""

    memory: Memory
    actions: tuple[Action, ...]
    report: UplinksReading | None
    wake_ns: int | None
