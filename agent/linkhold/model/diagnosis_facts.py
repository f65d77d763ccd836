"""What the steps of a diagnosis saw. None, or an empty tuple with a ``Missing``: not seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.model.diagnosis import Missing
    from linkhold.model.incidents import Incident
    from linkhold.model.look import Look
    from linkhold.model.network import HostNetwork
    from linkhold.model.power_sources import Supply
    from linkhold.model.probes import Answer
    from linkhold.model.survey import Answer as Asked
    from linkhold.model.survey import Owner


@dataclass(frozen=True, slots=True)
class Counted:
    """The counters of a link at the begin and at the end of the run, ``seconds`` apart."""

    link: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    seconds: float

    def grown(self, name: str) -> int:
        """Return by how much a counter grew; a reset to zero is no growth."""
        return max(0, self.after.get(name, 0) - self.before.get(name, 0))


@dataclass(frozen=True, slots=True)
class Card:
    """One NIC: its driver, and its PCIe link beside what card and slot can.

    Speeds in GT/s, widths in lanes, 0 where unknown; ``slot_width_most`` is the port's above it.
    """

    link: str
    driver: str = ""
    version: str = ""
    firmware: str = ""
    speed: float = 0.0
    speed_most: float = 0.0
    width: int = 0
    width_most: int = 0
    slot_speed_most: float = 0.0
    slot_width_most: int = 0


@dataclass(frozen=True, slots=True)
class GatewayFacts:
    """One gateway of a default route; ``others`` are neighbours asked on the same link.

    Those are asked only where the gateway did not answer.
    """

    link: str
    address: str
    answer: Answer
    others: tuple[Answer, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberFacts:
    """Whether a gateway answers through one member of a bond."""

    bond: str
    member: str
    active: bool
    asked: Asked


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """One target of the owner's choice; ``ping`` where the target itself was asked otherwise.

    ``address`` is what its name is now, ``port`` 0 for none, ``addresses`` all that resolvers say.
    """

    name: str
    answer: Answer
    address: str = ""
    port: int = 0
    ping: Answer | None = None
    storage: bool = False
    addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MtuFacts:
    """Echoes of the usual and of the largest size (whole packet, bytes) that may not be split.

    ``passes_bytes`` is the largest of some usual sizes that came back, 0 for none.
    """

    link: str
    target: str
    size_bytes: int
    small: Answer
    large: Answer
    passes_bytes: int = 0
    to_gateway: bool = False


@dataclass(frozen=True, slots=True)
class Duplicate:
    """Another host has an address of ours too; ``mac`` is empty where only the kernel noticed."""

    link: str
    address: str
    mac: str = ""


@dataclass(frozen=True, slots=True)
class LogIncident:
    """An incident of the kernel's log; ``over`` says why it has ended, empty while it lasts."""

    incident: Incident
    age_s: float
    over: str = ""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What the kernel's log says of NICs in the last ``since_s`` seconds; downs by interface.

    ``lost`` records were overwritten unread. Not ``whole``: it was too long to be read to its end.
    """

    incidents: tuple[LogIncident, ...] = ()
    downs: Mapping[str, int] = field(default_factory=dict)
    since_s: float = 3600.0
    lost: int = 0
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Fill:
    """How full a table of the kernel is."""

    name: str
    entries: int
    most: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Packets that a rule or the policy of a firewall's chain dropped during the run.

    ``where`` is family, table and chain; ``hook`` is input, output, forward or empty.
    """

    where: str
    hook: str
    grown: int
    total: int


@dataclass(frozen=True, slots=True)
class FirewallFacts:
    """Drops of nf_tables, and chains on the way in or out that drop by policy."""

    drops: tuple[Drop, ...] = ()
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Session:
    """A connection that does not move: unanswered data, or a peer that takes none (zero window)."""

    remote: str
    port: int
    pid: int
    comm: str
    kind: str
    retransmits: int
    zero_window: bool = False
    ping: Answer | None = None


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """Training's connections to other hosts; ``stuck`` also those of this host at large."""

    jobs: tuple[str, ...] = ()
    processes: int = 0
    connections: int = 0
    unprotected: int = 0
    stuck: tuple[Session, ...] = ()


@dataclass(frozen=True, slots=True)
class KeepaliveFacts:
    """The host's values against what is wanted; ``enough`` None where that is not known."""

    text: str
    enough: bool | None = None


@dataclass(frozen=True, slots=True)
class ClockFacts:
    """``synced`` None where the kernel does not say; ``floor_s`` is the newest time known past."""

    synced: bool | None
    wall_s: float
    floor_s: float = 0.0


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What a running agent says; ``power`` and ``network`` are words of its state.

    ``mute`` says why an agent that is there tells nothing.
    """

    running: bool
    network: str = ""
    power: str = ""
    cause: tuple[str, ...] = ()
    fleet: str = ""
    mute: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was seen. None: the step saw nothing, and ``missing`` says why.

    ``nics`` names the links that lead out or are meant to; ``asked_names`` are names that
    resolvers were asked for by the owner's wish.
    """

    look: Look | None = None
    network: HostNetwork | None = None
    nics: tuple[str, ...] = ()
    counters: tuple[Counted, ...] | None = None
    cards: tuple[Card, ...] | None = None
    duplicates: tuple[Duplicate, ...] | None = None
    gateways: tuple[GatewayFacts, ...] | None = None
    members: tuple[MemberFacts, ...] | None = None
    targets: tuple[TargetFacts, ...] | None = None
    mtu: tuple[MtuFacts, ...] | None = None
    dns: tuple[Answer, ...] | None = None
    metadata: tuple[Answer, ...] | None = None
    log: LogFacts | None = None
    fills: tuple[Fill, ...] | None = None
    firewall: FirewallFacts | None = None
    sessions: SessionFacts | None = None
    keepalive: KeepaliveFacts | None = None
    clock: ClockFacts | None = None
    owners: tuple[Owner, ...] | None = None
    agent: AgentFacts | None = None
    supplies: tuple[Supply, ...] | None = None
    cloud: str = ""
    missing: tuple[Missing, ...] = ()
