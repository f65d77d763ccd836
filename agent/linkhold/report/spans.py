"""What was how for how long: the values that events become."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from linkhold.fleet_view.picture import Key


class Kind(Enum):
    """What an interval is about, in the order in which a page shows it."""

    NETWORK = "network"
    POWER = "power"
    TRAINING = "training"
    UPLOADS = "uploads"
    OPERATOR = "hold"
    NOTICE = "notice"
    UPLINK = "uplink"
    BOND = "bond"
    LINK = "link"
    PATH = "path"
    NIC = "nic"
    AGENT = "agent"


class Level(IntEnum):
    """How an interval is drawn and counted, the least first."""

    NOTE = 0
    UNSURE = 1
    HELD = 2
    WARN = 3
    BAD = 4


@dataclass(frozen=True, slots=True)
class Condition:
    """What may be so for a while: ``word`` is for people, ``track`` keeps several apart."""

    kind: Kind
    word: str
    level: Level
    track: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A condition of one subject from ``start_s`` to ``end_s``, wall clock.

    ``lasting``: it had not ended when the period did. ``earlier``: it began before the period.
    """

    key: Key
    kind: Kind
    subject: str
    word: str
    level: Level
    start_s: float
    end_s: float
    cause: str = ""
    track: str = ""
    lasting: bool = False
    earlier: bool = False

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end_s - self.start_s


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened at one moment."""

    key: Key
    kind: Kind
    subject: str
    at_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Period:
    """The time that a page is about, wall clock in seconds."""

    from_s: float
    until_s: float

    @property
    def seconds(self) -> float:
        """How long it is."""
        return self.until_s - self.from_s
