"""Frozen values that every other part of linkhold speaks in, and the error tree.

Nothing here does input or output, and nothing here imports another part of linkhold.

Errors::

    LinkholdError             base of all errors that linkhold raises on purpose
    +-- ConfigError           the configuration file is wrong (carries every mistake found)
    +-- WireError             bytes from outside are no valid linkhold document
    +-- StoreError            the state folder cannot be read or written
    +-- BrokerError           an MQTT broker could not be reached or refused
    +-- AlreadyRunning        another agent owns these folders or this network namespace
    +-- Unavailable           a part cannot work on this machine; the text says why
    +-- GiveUp                (client) a hold lasted longer than max_hold_s
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class LinkholdError(Exception):
    """Base of every error that linkhold raises on purpose; its text is meant for a person."""


class ConfigError(LinkholdError):
    """The configuration cannot be used.

    ``mistakes`` holds one line per mistake, each with file, line, path and what is allowed.
    """

    def __init__(self, mistakes: tuple[str, ...]) -> None:
        """Keep every mistake; the text of the error is all of them, a line each."""
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class WireError(LinkholdError):
    """Bytes from outside (topic, file, socket) are no valid linkhold document."""


class StoreError(LinkholdError):
    """The state folder, the outbox or the state file cannot be read or written."""


class BrokerError(LinkholdError):
    """An MQTT broker could not be reached, refused the connection or a publication."""


class AlreadyRunning(LinkholdError):
    """Another agent owns the same folders or the same network namespace."""


class Unavailable(LinkholdError):
    """A part of linkhold cannot work on this machine; the text is the reason."""


class GiveUp(LinkholdError):
    """A hold lasted longer than the ``max_hold_s`` of the job."""


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


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """One instant on both clocks.

    ``mono_ns`` (CLOCK_MONOTONIC, nanoseconds) is what every decision uses; ``wall_s`` (seconds
    since 1970, UTC) is only ever shown to people, since it may jump.
    """

    mono_ns: int
    wall_s: float = field(compare=False)

    def seconds_since(self, earlier: Moment) -> float:
        """Return the seconds from ``earlier`` to this moment, by the monotonic clock."""
        return (self.mono_ns - earlier.mono_ns) / 1e9


@dataclass(frozen=True, slots=True)
class BondOptions:
    """What the kernel says about a bond (IFLA_INFO_DATA of kind ``bond``).

    ``active`` and ``primary`` are interface indexes; None when the kernel names none.
    """

    mode: int
    active: int | None = None
    miimon_ms: int = 0
    arp_interval_ms: int = 0
    primary: int | None = None
    primary_reselect: int = 0
    fail_over_mac: int = 0
    updelay_ms: int = 0
    downdelay_ms: int = 0
    num_peer_notif: int = 1

    @property
    def monitored(self) -> bool:
        """Whether the kernel watches the members at all; a bond without it never fails over."""
        return self.miimon_ms > 0 or self.arp_interval_ms > 0


@dataclass(frozen=True, slots=True)
class BondPort:
    """What the bond says about one of its members (IFLA_INFO_SLAVE_DATA).

    ``state`` is ``active`` or ``backup``; ``mii`` is ``up``, ``going_down``, ``down`` or
    ``going_back``.
    """

    state: str
    mii: str
    link_failures: int = 0
    perm_mac: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """One network interface as the kernel reports it by rtnetlink.

    ``kind`` is the rtnetlink kind (``bond``, ``veth``, ``vlan`` ...), empty for hardware.
    ``carrier`` is the physical link; ``admin_up`` what an administrator set. ``master`` is the
    index of the bond, bridge or VRF this link is a port of. ``carrier_ups`` and
    ``carrier_downs`` are the kernel's own counters (IFLA_CARRIER_UP_COUNT, _DOWN_COUNT).
    """

    index: int
    name: str
    kind: str = ""
    hw_type: int = 1
    admin_up: bool = False
    carrier: bool = False
    operstate: str = "unknown"
    mac: str = ""
    perm_mac: str = ""
    mtu: int = 0
    master: int | None = None
    carrier_ups: int = 0
    carrier_downs: int = 0
    bus_path: str = ""
    driver: str = ""
    speed_mbps: int | None = None
    bond: BondOptions | None = None
    port: BondPort | None = None

    @property
    def usable(self) -> bool:
        """Whether frames can leave: administratively up and with carrier."""
        return self.admin_up and self.carrier


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """One address of an interface. ``family`` is ``inet`` or ``inet6``."""

    index: int
    family: str
    address: str
    prefix_len: int
    scope: str = "global"
    tentative: bool = False


@dataclass(frozen=True, slots=True, order=True)
class DefaultRoute:
    """One next hop of a default route. ``gateway`` is empty for a route without one.

    A multipath route is several of these with the same metric.
    """

    family: str
    index: int
    gateway: str = ""
    metric: int = 0
    table: int = 254


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """The part of the host's network that linkhold watches, at one instant."""

    links: Mapping[int, Link] = field(default_factory=dict)
    addresses: frozenset[Address] = frozenset()
    routes: frozenset[DefaultRoute] = frozenset()

    def by_name(self, name: str) -> Link | None:
        """Return the link called ``name``, or None."""
        return next((link for link in self.links.values() if link.name == name), None)

    def ports_of(self, index: int) -> tuple[Link, ...]:
        """Return the ports of the bond or bridge ``index``, ordered by name."""
        ports = (link for link in self.links.values() if link.master == index)
        return tuple(sorted(ports, key=lambda link: link.name))


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
class BondMember:
    """One member of a bond. ``good`` is what the bond can use now: up, carrier and MII up."""

    name: str
    good: bool
    carrier: bool
    mii: str
    failures: int


@dataclass(frozen=True, slots=True)
class BondView:
    """A bond and its members as people think of it.

    ``redundant`` means that losing the active member now would cost no more than a failover:
    the kernel monitors the members and at least two of them are good.
    """

    name: str
    index: int
    mode: str
    carrier: bool
    active: str | None
    members: tuple[BondMember, ...]
    monitored: bool
    redundant: bool

    @property
    def lost(self) -> tuple[str, ...]:
        """Names of the members that cannot carry now."""
        return tuple(member.name for member in self.members if not member.good)


@dataclass(frozen=True, slots=True)
class WayOut:
    """One way from the node to the rest of the world, and whether it carries.

    ``index`` is the interface; ``obstacle`` says in words why it does not carry, else empty.
    """

    name: str
    family: str
    index: int
    link: str
    via: str
    obstacle: str = ""

    @property
    def carries(self) -> bool:
        """Whether packets can leave this way, as far as is known."""
        return not self.obstacle


@dataclass(frozen=True, slots=True)
class LinkHistory:
    """What is remembered of a link beyond its present state.

    ``downs`` are the latest losses (CLOCK_MONOTONIC, ns), oldest first, as many as matter.
    """

    since: Moment
    seen_up: bool = False
    flapping: bool = False
    downs: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeState:
    """Everything that the state document shows. ``host`` is None before the first look.

    ``epoch`` counts changes, so it is no part of what is compared to find one.
    """

    epoch: int = field(default=0, compare=False)
    host: HostNetwork | None = None
    histories: Mapping[int, LinkHistory] = field(default_factory=dict)
    bonds: tuple[BondView, ...] = ()
    ways: tuple[WayOut, ...] = ()
    network: Network = Network.UNKNOWN
    network_since: Moment = Moment(0, 0.0)
    cause: tuple[str, ...] = ()
    power: Power = Power()
    power_since: Moment = Moment(0, 0.0)
    notices: tuple[Notice, ...] = ()
    alerts: tuple[Alert, ...] = ()
    advice: Advice = Advice()
    agent: AgentHealth = AgentHealth()
