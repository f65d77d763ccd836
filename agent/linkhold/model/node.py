"""The node as a whole: its state, what happens on it, and what training should do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

from linkhold.model.clock import Moment
from linkhold.model.incidents import KernelLog
from linkhold.model.keepalive import Keepalive
from linkhold.model.power_view import Deadline, NoticesView, PowerView
from linkhold.model.probes import Metadata
from linkhold.model.uplinks import Uplinks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.holds import OperatorHold
    from linkhold.model.keeping import BondKeep
    from linkhold.model.maintenance import Maintenance
    from linkhold.model.network import BondPaths, BondView, HostNetwork, LinkHistory, WayOut
    from linkhold.model.probes import Cause, Probed


class Network(str, Enum):
    """What the node's ways out can carry, raw and undamped."""

    OK = "ok"
    DEGRADED = "degraded"
    DOWN = "down"
    UNKNOWN = "unknown"


class PowerState(str, Enum):
    """Where the node's power comes from."""

    OK = "ok"
    BATTERY = "battery"
    LOW = "low"
    UNKNOWN = "unknown"


class Severity(str, Enum):
    """How much an event or alert matters to a person."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Uploads(str, Enum):
    """What the client may push: everything, only the newest checkpoint, or nothing."""

    GO = "go"
    NEWEST = "newest"
    HOLD = "hold"


class Training(str, Enum):
    """Whether the training loop runs."""

    GO = "go"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class Power:
    """What all power sensors together say.

    ``confirmed`` is False while a single MQTT sensor is the only witness: such a witness may
    ask for a checkpoint, never for a stop. ``runtime_s`` is what the UPS has left, if known.
    """

    state: PowerState = PowerState.UNKNOWN
    confirmed: bool = True
    runtime_s: float | None = None
    forced_shutdown: bool = False
    source: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """A warning that this machine will be taken away or paused.

    ``kind`` is ``spot``, ``rebalance``, ``maintenance`` or ``shutdown``; ``action`` what will
    happen (``terminate``, ``preempt``, ``stop``, ``hibernate``, ``reboot``, ``freeze``,
    ``migrate``). ``deadline`` is None when the announcer names no time.
    """

    kind: str
    action: str
    source: str
    seen: Moment
    deadline: Moment | None = None

    @property
    def planned(self) -> bool:
        """Whether somebody on this machine ordered it: nobody is to be woken for it."""
        return self.kind == "shutdown"


@dataclass(frozen=True, slots=True)
class Identity:
    """Who publishes: the same for the whole life of one agent process.

    ``session`` is random for each start; ``boot_id`` is the kernel's.
    """

    site: str
    node: str
    machine_id: str
    boot_id: str
    session: str
    started: Moment


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. ``type`` is a key of :data:`linkhold.wire.CATALOGUE`.

    ``seq`` counts from 1 in each session, without holes.
    """

    seq: int
    type: str
    subject: str
    severity: Severity
    at: Moment
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Alert:
    """A condition that a person should know of, while it lasts.

    ``fingerprint`` identifies it over time and restarts: node, type and subject, nothing else.
    """

    fingerprint: str
    type: str
    severity: Severity
    subject: str
    since: Moment
    text: str


@dataclass(frozen=True, slots=True)
class CheckpointRequest:
    """Advice to save now. The ``id`` stays the same for one cause, so it is served once.

    ``every_s`` asks for more saves at this interval while the cause lasts.
    """

    id: str
    reason: str
    local_only: bool = False
    every_s: float | None = None


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Advice to end resumably before ``deadline_mono_ns`` (None: as soon as possible)."""

    id: str
    reason: str
    deadline_mono_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """What the training processes of this node should do.

    ``holds`` names causes that hold training only in jobs which asked for it
    (``Hold.connect(hold_on=("network",))``).
    """

    uploads: Uploads = Uploads.GO
    training: Training = Training.GO
    holds: tuple[str, ...] = ()
    checkpoint: CheckpointRequest | None = None
    stop: StopRequest | None = None


@dataclass(frozen=True, slots=True)
class AgentHealth:
    """How the agent itself is: shown in the state, so that a silent part is seen.

    ``leg_a`` and ``leg_b`` are a word (``up``, ``down``, ``starting``, ``off``) and, after a
    colon, the reason. ``outbox`` likewise (``ok``, ``volatile``, ``stalled``, ``damaged``).
    ``unavailable`` maps a part to the reason why it cannot work here.
    """

    leg_a: str = "starting"
    leg_b: str = "off"
    outbox: str = "starting"
    pending: int = 0
    parked: int = 0
    unavailable: Mapping[str, str] = field(default_factory=dict)
    counters: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NodeState:
    """Everything that the state document shows. ``host`` is None before the first look.

    ``epoch`` counts changes, so it is no part of what is compared to find one. ``bond_paths`` is
    what probes told last, ``bond_changes`` when the active member of each bond changed (ns);
    ``keeps`` are the configured bonds. ``orders`` names the command of linkhold that is at work
    on a bond, by its name. ``reach`` is what is dead beyond the node, ``probes`` all that is asked.
    ``deadline`` is the earliest end of all that power and notices tell.
    """

    epoch: int = field(default=0, compare=False)
    host: HostNetwork | None = None
    histories: Mapping[int, LinkHistory] = field(default_factory=dict)
    bonds: tuple[BondView, ...] = ()
    bond_paths: tuple[BondPaths, ...] = ()
    bond_changes: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    keeps: tuple[BondKeep, ...] = ()
    orders: Mapping[str, str] = field(default_factory=dict)
    ways: tuple[WayOut, ...] = ()
    uplinks: Uplinks = Uplinks()
    keepalive: Keepalive = Keepalive()
    kernel_log: KernelLog = KernelLog()
    reach: tuple[Cause, ...] = ()
    probes: tuple[Probed, ...] = ()
    metadata: Metadata = field(default_factory=Metadata)
    network: Network = Network.UNKNOWN
    network_since: Moment = Moment(0, 0.0)
    cause: tuple[str, ...] = ()
    power: Power = Power()
    power_since: Moment = Moment(0, 0.0)
    power_view: PowerView = PowerView()
    notices: tuple[Notice, ...] = ()
    notices_view: NoticesView = NoticesView()
    deadline: Deadline | None = None
    alerts: tuple[Alert, ...] = ()
    holds: tuple[OperatorHold, ...] = ()
    maintenance: Maintenance | None = None
    advice: Advice = Advice()
    agent: AgentHealth = AgentHealth()
