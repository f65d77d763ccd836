"""The values of :mod:`linkhold.decide.reach`: what is asked, what is remembered, what follows."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.probes import Answer, Cause, Probed

SECOND = 1_000_000_000


class Kind(str, Enum):
    """What an aim stands for."""

    GATEWAY = "gateway"
    PATH = "path"
    DNS = "dns"
    STORAGE = "storage"


class Verdict(str, Enum):
    """What is known of an aim.

    ``mute``: asked as often as a death takes, without an answer since the start. Such a gateway
    or resolver may be dead, or may never have been meant to answer: nobody knows.
    """

    ALIVE = "alive"
    DEAD = "dead"
    MUTE = "mute"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Aim:
    """One thing to ask; ``name`` tells it from all others.

    ``how`` is ``gateway``, ``icmp``, ``tcp``, ``http`` or ``dns``, and empty for a way out that
    nobody can be asked about; ``target`` is the address, host:port, URL or resolver; ``query`` what
    a resolver is asked for. ``strict``: only the thing itself will do, not that something refuses
    in its place. ``given``: the host's configuration named it and not the owner's, so that without
    an answer since the start it is mute, not dead.
    """

    name: str
    kind: Kind
    how: str
    target: str
    link: str = ""
    query: str = ""
    strict: bool = False
    given: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """When to ask and when to believe. ``seed`` differs by node."""

    ok_s: float = 10.0
    trouble_s: float = 1.0
    timeout_s: float = 1.0
    down_after: int = 3
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Heed:
    """One answer to one aim."""

    name: str
    answer: Answer


@dataclass(frozen=True, slots=True)
class Line:
    """What is remembered of an aim. Times are CLOCK_MONOTONIC in ns, 0 for never.

    ``misses``, ``good`` and ``blind`` count in a row. ``since_ns`` is when the verdict began.
    """

    verdict: Verdict = Verdict.UNKNOWN
    reason: str = "not asked yet"
    since_ns: int = 0
    asked_ns: int = 0
    waiting: bool = False
    stretch: float = 1.0
    misses: int = 0
    good: int = 0
    blind: int = 0
    rtt_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """All aims by name, the dice, whether a default route was there and since when it is gone.

    ``heard`` names who has answered since the start, the latest newcomer last; an aim that goes
    and comes back (its link was down) is not forgotten.
    """

    lines: Mapping[str, Line] = field(default_factory=dict)
    dice: int = 0
    had_route: bool = False
    route_lost_ns: int = 0
    heard: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What follows: whom to ask now, every cause that stands, and when to come again.

    ``probed`` is what is known of each aim.
    """

    memory: Memory
    ask: tuple[Aim, ...]
    causes: tuple[Cause, ...]
    due_ns: int | None
    probed: tuple[Probed, ...] = ()
