"""What a diagnosis comes to: the verdict, what else is wrong, and the evidence for both."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(str, Enum):
    """How the node is. ``unknown``: too little could be seen to call it anything."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"

    @property
    def exit_code(self) -> int:
        """What ``linkhold diagnose`` ends with."""
        return list(State).index(self)


class Place(str, Enum):
    """Where a fault most likely sits; ``host`` is how this host is configured or loaded."""

    CABLE = "cable"
    NIC = "nic"
    DRIVER = "driver"
    SWITCH = "switch"
    GATEWAY = "gateway"
    BEYOND = "beyond"
    DNS = "dns"
    POWER = "power"
    HOST = "host"
    FIREWALL = "firewall"
    NOTHING = "nothing"
    UNKNOWN = "unknown"


class Sure(str, Enum):
    """How sure a verdict is.

    ``certain``: seen directly. ``likely``: the usual cause of what was seen. ``guess``: one of
    several causes that look alike from here.
    """

    CERTAIN = "certain"
    LIKELY = "likely"
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One fault in one sentence, without a full stop, and at most three commands to go on with."""

    state: State
    place: Place
    sure: Sure
    sentence: str
    next: tuple[str, ...] = ()


class Mark(str, Enum):
    """What a row of evidence means; ``note`` is worth knowing and no fault."""

    OK = "ok"
    NOTE = "note"
    BAD = "bad"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row: which step saw what of which thing."""

    step: str
    subject: str
    mark: Mark
    text: str


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that a step could not see, and what would show it."""

    step: str
    why: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The whole result. ``also`` are the other faults, the worst first; times in seconds."""

    verdict: Verdict
    also: tuple[Verdict, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    missing: tuple[Missing, ...] = ()
    took_s: float = 0.0
