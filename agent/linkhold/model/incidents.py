"""Incidents: faults of NICs that the kernel's log tells of, each from its first line to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.kernel_log import LineClass, LineSeverity, Position


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """What netlink and the counters say of an interface now: the truth about its link.

    ``bond`` is the bond it is a member of, empty for none. Packet counters are None when unknown.
    """

    carrier: bool
    address: str = ""
    bond: str = ""
    rx_packets: int | None = None
    tx_packets: int | None = None


@dataclass(frozen=True, slots=True)
class Incident:
    """One fault of one NIC.

    ``subject`` is its interface, else its PCI address, else its driver. ``cls`` and ``cause`` are
    of the line that opened it or raised it. ``whys`` are the rules of all lines that joined, in
    order, ``lines`` their number. Times are CLOCK_MONOTONIC in nanoseconds. ``baseline`` are the
    packets (received, sent) at the first look after the last line of a fault.
    """

    subject: str
    cls: LineClass
    severity: LineSeverity
    cause: str
    opened_ns: int
    last_fault_ns: int
    interface: str = ""
    address: str = ""
    driver: str = ""
    lines: int = 1
    whys: tuple[str, ...] = ()
    recovered_ns: int | None = None
    baseline: tuple[int, int] | None = None


class Step(str, Enum):
    """What happened to an incident."""

    OPENED = "opened"
    RAISED = "raised"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class IncidentChange:
    """One step of an incident, to be published; ``reason`` says why it was closed or raised."""

    step: Step
    incident: Incident
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Incidents:
    """All open incidents by subject, and what is remembered to limit their rate.

    ``openings`` are the times (ns) at which incidents of a subject and class began, ``warnings``
    those of its warnings that do not count alone, ``lockup_ns`` when a processor was last said to
    be wedged. ``dropped`` counts lines that would have opened one too many.
    """

    open: Mapping[str, Incident] = field(default_factory=lambda: MappingProxyType({}))
    openings: Mapping[tuple[str, LineClass], tuple[int, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    warnings: Mapping[tuple[str, LineClass], tuple[int, ...]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    lockup_ns: int | None = None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class KernelLog:
    """What the state shows of the kernel's log: open incidents, and how the reading goes.

    ``lost`` counts records of this session that were overwritten unread; ``problem`` says why
    nothing is read, empty while it is. ``position`` is how far the log was read when this was
    told: it is stored together with the events of what was read, so that a restart tells nothing
    of it again and misses nothing.
    """

    incidents: tuple[Incident, ...] = ()
    lost: int = 0
    problem: str = ""
    position: Position | None = None
