"""What sensors, legs and stores report to the pure core: frozen values, nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from linkhold.model.power_view import NoticesView, PowerView

if TYPE_CHECKING:
    from linkhold.decide.happening import Happening
    from linkhold.model import BondKeep, BondPaths, HostNetwork, Notice, Power, Uplinks
    from linkhold.model.holds import OperatorHold
    from linkhold.model.incidents import KernelLog
    from linkhold.model.keepalive import Keepalive
    from linkhold.model.probes import Cause, Metadata, Probed


@dataclass(frozen=True, slots=True)
class NetworkReading:
    """The watched part of the network as it is now.

    ``resynced`` names why everything was read again (the kernel dropped messages), else empty.
    """

    network: HostNetwork
    resynced: str = ""


@dataclass(frozen=True, slots=True)
class PowerReading:
    """What all sources of power say now, together and each, and what happened."""

    power: Power
    view: PowerView = PowerView()
    news: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class NoticesReading:
    """Every notice that stands now, the most urgent first, who is asked, and what is new.

    ``fresh`` are those that are new or have a new status; one that is missing was withdrawn.
    """

    notices: tuple[Notice, ...] = ()
    fresh: tuple[Notice, ...] = ()
    view: NoticesView = NoticesView()


def health_text(status: str, reason: str) -> str:
    """Return a health as the state shows it: the word and, after a colon, the reason."""
    return f"{status}: {reason}" if reason else status


@dataclass(frozen=True, slots=True)
class LegReading:
    """Health of one MQTT leg: ``leg`` is ``a`` or ``b``, ``status`` a word as in the state."""

    leg: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OutboxReading:
    """Health of the outbox.

    ``status`` is ``ok``, ``volatile`` (kept in memory only: disk full, read-only), ``stalled``
    (the disk does not answer) or ``starting``.
    """

    status: str
    reason: str = ""
    pending: int = 0
    parked: int = 0


@dataclass(frozen=True, slots=True)
class OverflowReading:
    """Events were dropped because a bound was reached; ``first`` and ``last`` are their ids."""

    count: int
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class ParkedReading:
    """The fleet's broker refused one event for good reason of its own; it is kept."""

    event_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ReplayReading:
    """Events were sent again because the fleet asked."""

    request: str
    count: int
    missing: int
    first: str = ""
    last: str = ""


@dataclass(frozen=True, slots=True)
class SensorReading:
    """Health of the link sensor: ``ok``, or ``blind`` with the reason."""

    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BondPathsReading:
    """What probes say now of every bond that is probed."""

    bonds: tuple[BondPaths, ...] = ()


@dataclass(frozen=True, slots=True)
class BondMoveReading:
    """The agent made ``active`` the active member; ``error`` says why the kernel refused.

    ``reason`` is ``carrier``, ``path_dead`` or ``fail_back``.
    """

    bond: str
    previous: str
    active: str
    reason: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class OrderReading:
    """A command of linkhold is at work on ``bond``; ``action`` says which, empty when it ended."""

    bond: str
    action: str


@dataclass(frozen=True, slots=True)
class UplinksReading:
    """The uplinks as they are now, and what happened to them."""

    uplinks: Uplinks
    news: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class BondKeepsReading:
    """The configured bonds as they are kept, and what happened to them."""

    keeps: tuple[BondKeep, ...] = ()
    news: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class KeepaliveReading:
    """Keepalive of the node as it is now, and what happened to it."""

    keepalive: Keepalive
    news: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class KernelLogNews:
    """What the kernel's log says now, and what happened since."""

    kernel_log: KernelLog
    news: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class OperatorHoldsReading:
    """The holds of operators as they are now, and what happened to them."""

    holds: tuple[OperatorHold, ...] = ()
    news: tuple[Happening, ...] = ()


@dataclass(frozen=True, slots=True)
class MaintenanceReading:
    """Somebody announces planned work for ``for_s`` seconds, or ends it (0)."""

    id: str
    for_s: float
    why: str
    by: str


@dataclass(frozen=True, slots=True)
class ReachReading:
    """Everything beyond this node that is dead now, and what is known of all that is asked."""

    causes: tuple[Cause, ...] = ()
    probes: tuple[Probed, ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataReading:
    """What is known now of the cloud's metadata service."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class AgentReading:
    """Something about the agent itself; becomes an event ``agent.<what>`` with this data."""

    what: str
    data: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tick:
    """No news, only time: a timer that a decision asked for has run out."""


Reading = (
    NetworkReading
    | PowerReading
    | NoticesReading
    | LegReading
    | OutboxReading
    | OverflowReading
    | ParkedReading
    | ReplayReading
    | SensorReading
    | BondPathsReading
    | BondMoveReading
    | OrderReading
    | UplinksReading
    | BondKeepsReading
    | KeepaliveReading
    | KernelLogNews
    | OperatorHoldsReading
    | MaintenanceReading
    | ReachReading
    | MetadataReading
    | AgentReading
    | Tick
)
