"""The values that the keeping of bonds speaks in: what it sees, remembers, asks for and tells.

Times are CLOCK_MONOTONIC in ns, 0 for never.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.config.settings import BondSettings
    from linkhold.decide.readings import BondKeepsReading
    from linkhold.model import BondKeep, Conflict, Drift, HostNetwork

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Rules:
    """What the owner wants: ``bonds:`` of the configuration, and whether to repair."""

    bonds: Mapping[str, BondSettings] = field(default_factory=dict)
    enforce: bool = False


# Readings.


@dataclass(frozen=True, slots=True)
class HostSeen:
    """The host's network as it is now."""

    host: HostNetwork


@dataclass(frozen=True, slots=True)
class JournalSeen:
    """The journal of changes: bonds committed here, the bond being changed, the last change.

    ``last`` identifies the last change that ended, ``last_bond`` is its bond. ``problem`` says
    why the journal could not be read. ``action`` is what is done to the bond being changed, until
    ``until_ns`` at the latest.
    """

    committed: frozenset[str] = frozenset()
    busy: str = ""
    last: str = ""
    last_bond: str = ""
    problem: str = ""
    action: str = ""
    until_ns: int = 0


@dataclass(frozen=True, slots=True)
class Restart:
    """A network manager (its program's name) that started at ``at_ns``."""

    name: str
    at_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """What an :class:`Inquire` found: the journal, and who may have changed what.

    ``owners`` names the program that configures an interface, for those where that is certain.
    """

    journal: JournalSeen
    owners: Mapping[str, str] = field(default_factory=dict)
    restarts: tuple[Restart, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """A repair has ended: ``error`` says why it failed. ``journal`` was read after it."""

    bond: str
    journal: JournalSeen
    error: str = ""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """The configuration was read again: conflicts and waiting times are over."""


@dataclass(frozen=True, slots=True)
class Pulse:
    """Time has passed."""


Reading = HostSeen | JournalSeen | Found | Ended | Reloaded | Pulse


# What is asked for.


@dataclass(frozen=True, slots=True)
class Inquire:
    """Read the journal, and find out who owns these interfaces (name -> index)."""

    interfaces: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Repair:
    """Run ``linkhold bond repair BOND``; ``spare`` are NICs that must stay down."""

    bond: str
    spare: tuple[str, ...] = ()


Action = Inquire | Repair


# What is remembered.


@dataclass(frozen=True, slots=True)
class NicNote:
    """Of one NIC: whether somebody set it down, and when it left a bond last.

    ``guessed``: it was down at first sight, so that nobody saw who did it. Then it counts as set
    down while its bond stands; when the whole bond is gone, the kernel closed all its members.
    """

    set_down: bool = False
    left_ns: int = 0
    guessed: bool = False

    def decided(self, *, standing: bool) -> bool:
        """Whether it is down by somebody's decision; ``standing``: its bond is there."""
        return self.set_down and (standing or not self.guessed)


@dataclass(frozen=True, slots=True)
class BondMemory:
    """Of one bond.

    ``drift`` is what differs now, ``since`` when each began; ``told`` was announced by events.
    ``look_ns``: no inquiry before. ``fixed`` is what the last repair mended, ``undone`` are the
    times when somebody undid it. ``starts`` are the repairs of the last hour, ``failures`` counts
    those that failed in a row; ``next_ns``: no repair before. ``mending`` is what the running
    repair is for, begun at ``mending_ns``.
    """

    judged: bool = False
    applied: bool = False
    drift: tuple[Drift, ...] = ()
    since: Mapping[Key, int] = field(default_factory=dict)
    told: Mapping[Key, Drift] = field(default_factory=dict)
    look_ns: int = 0
    fixed: frozenset[Key] = frozenset()
    undone: tuple[int, ...] = ()
    starts: tuple[int, ...] = ()
    failures: int = 0
    next_ns: int = 0
    mending: tuple[Drift, ...] = ()
    mending_ns: int = 0
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """All that is remembered.

    ``asking``: an inquiry is under way, the last one began at ``asked_ns`` and found ``found``.
    ``told`` was reported last.
    """

    host: HostNetwork | None = None
    nics: Mapping[int, NicNote] = field(default_factory=dict)
    journal: JournalSeen | None = None
    bonds: Mapping[str, BondMemory] = field(default_factory=dict)
    asking: bool = False
    asked_ns: int = 0
    found: Found | None = None
    told: tuple[BondKeep, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of a step. ``wake_ns`` is when a :class:`Pulse` is due, None for never."""

    memory: Memory
    actions: tuple[Action, ...]
    report: BondKeepsReading | None
    wake_ns: int | None
