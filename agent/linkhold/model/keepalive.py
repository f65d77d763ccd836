"""Keepalive of TCP: the three values, the connections they act on, and what the agent sees."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.clock import Moment


@dataclass(frozen=True, slots=True)
class Timers:
    """When an idle connection is probed and given up (tcp(7)).

    The first probe is sent after ``time_s`` without traffic, the next ones every ``interval_s``;
    when ``probes`` of them stay without an answer, the connection is reset ``interval_s`` later.
    """

    time_s: int
    interval_s: int
    probes: int

    @property
    def least_survived_s(self) -> int:
        """The longest outage that every idle connection survives, whenever it begins.

        In the worst case it begins just before a probe is due: then the last of the probes,
        ``probes - 1`` intervals later, is the last that may still be answered.
        """
        return self.interval_s * (self.probes - 1)

    @property
    def most_survived_s(self) -> int:
        """How long the luckiest idle connection lives: from its last traffic to its reset."""
        return self.time_s + self.interval_s * self.probes

    @property
    def gap_s(self) -> int:
        """The longest silence of an idle connection whose probes are answered.

        After an answer the kernel looks again only when ``interval_s`` is over
        (tcp_keepalive_timer in net/ipv4/tcp_timer.c), so the longer of the two counts.
        """
        return max(self.time_s, self.interval_s)

    @property
    def packets_per_hour(self) -> float:
        """What an idle connection costs: a probe and its answer each ``gap_s``."""
        return 2 * 3600 / self.gap_s


class Verdict(str, Enum):
    """What keepalive does for one connection.

    ``protected``: a keepalive timer runs, with the value that is wanted or a shorter one.
    ``unprotected``: nothing runs, so a silent middlebox or a dead peer is never noticed.
    ``stale``: a timer runs that was armed with an older, longer value. ``busy``: data is in
    flight, so keepalive rests and retransmission decides; whether SO_KEEPALIVE is set shows later.
    """

    PROTECTED = "protected"
    UNPROTECTED = "unprotected"
    STALE = "stale"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Connection:
    """One established TCP connection as inet_diag lists it.

    Addresses are text, of IPv6 without brackets. ``timer`` is inet_diag's idiag_timer: 0 none, 1
    retransmission, 2 keepalive, 3 TIME_WAIT, 4 zero-window probe; ``timer_ms`` what is left of it.
    ``namespace`` is the inode of its network namespace.
    """

    namespace: int
    inode: int
    local: str
    local_port: int
    remote: str
    remote_port: int
    timer: int
    timer_ms: int
    retransmits: int = 0
    uid: int = 0
    mark: int = 0


@dataclass(frozen=True, slots=True)
class Values:
    """The sysctls of one network namespace as they were read; keys are file names in ipv4/.

    ``error`` says why nothing could be read or written.
    """

    namespace: int
    name: str
    values: Mapping[str, int]
    error: str = ""


@dataclass(frozen=True, slots=True)
class Drift:
    """A value that is not as wanted, since when, and what points at who sets it."""

    namespace: str
    key: str
    wanted: int
    seen: int
    since: Moment
    by: str = ""
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class Keepalive:
    """What the state shows of keepalive. ``wanted`` is None while nothing is managed.

    ``present`` are the host's own values and ``enough`` whether they meet both aims.
    ``connections`` counts the verdicts on connections of training processes, None before the
    first audit and where nothing trains; ``covered`` what became of sockets that the agent covers.
    """

    profile: str = ""
    cloud: str = ""
    wanted: Timers | None = None
    present: Timers | None = None
    enough: bool = False
    enforced: bool = False
    drifts: tuple[Drift, ...] = ()
    namespaces: int = 0
    connections: Mapping[str, int] | None = None
    covered: Mapping[str, int] | None = None
    error: str = ""
