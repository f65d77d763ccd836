"""The values that probing speaks in: what it sees, remembers, asks for and tells."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from linkhold.decide.probing.evidence import Record
    from linkhold.decide.readings import BondMoveReading, BondPathsReading


@dataclass(frozen=True, slots=True, order=True)
class Target:
    """An address on a network of the bond that answers ARP or neighbour solicitations.

    ``source`` is the bond's own address there, empty for none; ``vlan_id`` is 0 without a VLAN.
    """

    address: str
    source: str = ""
    vlan_id: int = 0


@dataclass(frozen=True, slots=True)
class MemberSight:
    """A member as the kernel shows it.

    ``carrier``: frames can leave. ``good``: the bond could use it now. ``mac`` is what it sends
    with while active, ``standby_mac`` what its probes use while it is not.
    """

    name: str
    index: int
    carrier: bool
    good: bool
    mac: str
    standby_mac: str


@dataclass(frozen=True, slots=True)
class BondSight:
    """A bond to look after. ``active`` and ``preferred`` name members, empty for none.

    ``problem`` says why there are no targets. ``moves_per_minute`` is the owner's limit;
    ``reflex``: a lost carrier may be acted upon at once (no downdelay is wished).
    """

    name: str
    index: int
    members: tuple[MemberSight, ...]
    active: str = ""
    preferred: str = ""
    targets: tuple[Target, ...] = ()
    problem: str = ""
    moves_per_minute: int = 4
    reflex: bool = True

    def member(self, name: str) -> MemberSight | None:
        """Return the member called ``name``, or None."""
        return next((member for member in self.members if member.name == name), None)


# Readings.


@dataclass(frozen=True, slots=True)
class Sights:
    """All bonds to look after, as they are now."""

    bonds: tuple[BondSight, ...]


@dataclass(frozen=True, slots=True)
class Counters:
    """Frames of a bond's active member since ever; ``received`` without multicast."""

    member: str
    received: int
    sent: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """Time has passed; the counters of each bond's active member, by bond."""

    counters: Mapping[str, Counters] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """``address`` answered a probe through ``member``; ``mac`` is where it can be reached.

    ``solicited`` is False for what it announced by itself, which only teaches its MAC.
    """

    bond: str
    member: str
    address: str
    mac: str
    solicited: bool = True


@dataclass(frozen=True, slots=True)
class Moved:
    """The kernel's answer to :class:`Activate`: ``error`` is empty when it did so."""

    bond: str
    member: str
    error: str = ""


@dataclass(frozen=True, slots=True)
class Ordered:
    """Somebody tests ``bond`` by ``linkhold bond test``, until ``until_ns`` at the latest.

    0 when that is over.
    """

    bond: str
    until_ns: int


Reading = Sights | Pulse | Answer | Moved | Ordered


# What is asked for.


@dataclass(frozen=True, slots=True)
class SendProbe:
    """Send a probe through the port ``index``; ``target_mac`` is empty for a broadcast.

    ``standby`` probes must not name the bond's address or MAC.
    """

    bond: str
    member: str
    index: int
    source_mac: str
    standby: bool
    target: Target
    target_mac: str


@dataclass(frozen=True, slots=True)
class Activate:
    """Make ``member`` the active one. ``reason``: carrier, path_dead or fail_back."""

    bond: str
    bond_index: int
    member: str
    member_index: int
    previous: str
    reason: str


Action = SendProbe | Activate


# What is remembered.


@dataclass(frozen=True, slots=True)
class Rules:
    """``enforce``: members may be moved. ``seed`` differs from node to node, for jitter."""

    enforce: bool = False
    seed: int = 1


@dataclass(frozen=True, slots=True)
class MemberMemory:
    """What is known of one member. ``verdict`` is alive, dead or unknown.

    ``next_ns`` is when its next slow probe is due. ``steady_ns`` is since when it answers
    without a miss, 0 while it does not. ``revived`` counts answers in a row of a dead one.
    ``died_active``: it carried when it died.
    """

    records: Mapping[Target, Record] = field(default_factory=dict)
    verdict: str = "unknown"
    reason: str = ""
    next_ns: int = 0
    steady_ns: int = 0
    revived: int = 0
    died_active: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """A burst of probes that decides. ``why``: silence, lull, miss, confirm or fail_back.

    ``sent`` and ``answered`` count by member. ``heard``: something was received through the
    active member meanwhile. ``tried`` are targets that were silent in this trial before.
    """

    why: str
    target: Target
    next_ns: int
    sent: Mapping[str, int] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    heard: bool = False
    tried: tuple[Target, ...] = ()


@dataclass(frozen=True, slots=True)
class Moving:
    """A move that was asked for and is not seen yet."""

    member: str
    previous: str
    reason: str
    until_ns: int


@dataclass(frozen=True, slots=True)
class Flow:
    """What the active member's counters told; apart from the rest because every tick changes it.

    ``tick_ns``: they were read; ``heard_ns``: traffic was received; ``waiting_ns``: since when
    something is sent and nothing received. ``own_sent`` and ``own_received``: how many of the
    frames since the last tick are probes and answers.
    """

    counters: Counters | None = None
    tick_ns: int = 0
    heard_ns: int = 0
    waiting_ns: int = 0
    own_sent: int = 0
    own_received: int = 0


@dataclass(frozen=True, slots=True)
class BondMemory:
    """All that is remembered of one bond but its flow. Times are CLOCK_MONOTONIC in ns, 0: never.

    ``silence_ns`` is how long is suspicious. ``calm_ns``: no trial before. ``strikes``: trials in
    a row in which nobody answered. ``silent`` names the target that is silent everywhere;
    ``proof`` and ``proof_ns`` are counters from which it is judged whether traffic flows all the
    same. ``ordered_ns`` is until when somebody else's order stands: no return before.
    """

    sight: BondSight
    members: Mapping[str, MemberMemory] = field(default_factory=dict)
    macs: Mapping[str, str] = field(default_factory=dict)
    silence_ns: int = 0
    calm_ns: int = 0
    trial: Trial | None = None
    trials: tuple[int, ...] = ()
    strikes: int = 0
    silent: str = ""
    proof: Counters | None = None
    proof_ns: int = 0
    moving: Moving | None = None
    moves: tuple[int, ...] = ()
    reflexes: tuple[int, ...] = ()
    locked_ns: int = 0
    hold_ns: int = 0
    failed_back_ns: int = 0
    ordered_ns: int = 0
    dice: int = 0


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered of all bonds, by name, and what was told last."""

    bonds: Mapping[str, BondMemory] = field(default_factory=dict)
    flows: Mapping[str, Flow] = field(default_factory=dict)
    told: BondPathsReading | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """The outcome of a step.

    ``wake_ns`` is when a :class:`Pulse` is due in any case, ``look_ns`` when one with counters is;
    None for never. While the counters show that more and more is received, the latter may be put
    off until the former, if the last such pulse is then told first, with its time.
    """

    memory: Memory
    actions: tuple[Action, ...]
    reports: tuple[BondPathsReading | BondMoveReading, ...]
    wake_ns: int | None
    look_ns: int | None
