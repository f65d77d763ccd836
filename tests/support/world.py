"""A scripted world: the pure core under a simulated clock, days in milliseconds."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from linkhold.config.settings import Settings
from linkhold.decide.node import Context, Memory, step
from linkhold.decide.readings import NetworkReading, NoticesReading, PowerReading, Tick
from linkhold.decide.restore import restore
from linkhold.model import (
    Address,
    BondOptions,
    BondPort,
    DefaultRoute,
    HostNetwork,
    Identity,
    Link,
    Moment,
    Notice,
    Power,
    PowerState,
)
from linkhold.wire import check_event, load_json
from linkhold.wire.state import StateEncoder

if TYPE_CHECKING:
    from linkhold.decide.readings import Reading
    from linkhold.model import Advice, Event, NodeState

START_NS = 1_000_000_000_000
WALL_S = 1_800_000_000.0
MAX_WAKES = 10_000


def nic(index: int, *, up: bool = True, losses: int = 0, **changes: Any) -> Link:
    """Return a network card ``eth<index>`` that lost carrier ``losses`` times."""
    link = Link(
        index=index,
        name=f"eth{index}",
        admin_up=True,
        carrier=up,
        operstate="up" if up else "down",
        mac=f"02:00:00:00:00:{index:02x}",
        carrier_ups=losses + up,
        carrier_downs=losses,
    )
    return replace(link, **changes)


def single(*, up: bool = True, losses: int = 0) -> HostNetwork:
    """Return a host whose only way out is eth1."""
    return HostNetwork(
        {1: nic(1, up=up, losses=losses)},
        frozenset({Address(1, "inet", "10.0.0.2", 24)}),
        frozenset({DefaultRoute("inet", 1, "10.0.0.1")}),
    )


def bonded(
    first: bool = True,  # noqa: FBT001, FBT002
    second: bool = True,  # noqa: FBT001, FBT002
    *,
    active: int | None = 1,
    miimon_ms: int = 50,
    losses: tuple[int, int] = (0, 0),
) -> HostNetwork:
    """Return a host whose way out is bond0 (index 9) over eth1 and eth2."""
    ports = {
        index: nic(
            index,
            up=up,
            losses=lost,
            master=9,
            port=BondPort("active" if active == index else "backup", "up" if up else "down"),
        )
        for index, up, lost in ((1, first, losses[0]), (2, second, losses[1]))
    }
    carrier = first or second
    bond = Link(
        9,
        "bond0",
        kind="bond",
        admin_up=True,
        carrier=carrier,
        bond=BondOptions(1, active if carrier else None, miimon_ms),
    )
    return HostNetwork(
        {**ports, 9: bond},
        frozenset({Address(9, "inet", "10.0.0.2", 24)}),
        frozenset({DefaultRoute("inet", 9, "10.0.0.1")}),
    )


@dataclass
class World:
    """The core, what it has said so far, and a clock that only the test moves.

    ``wall_offset_s`` makes the wall clock jump without the monotonic one.
    """

    settings: Settings = field(default_factory=Settings)
    now_ns: int = START_NS
    wall_offset_s: float = 0.0
    boot_id: str = "boot-1"
    session: str = "session-1"
    memory: Memory = field(default_factory=Memory)
    events: list[Event] = field(default_factory=list)
    wake_ns: int | None = None

    @property
    def now(self) -> Moment:
        """This instant."""
        return Moment(self.now_ns, WALL_S + self.now_ns / 1e9 + self.wall_offset_s)

    @property
    def context(self) -> Context:
        """What the core is given besides its memory."""
        identity = Identity(
            "default", "node1", "machine-1", self.boot_id, self.session, Moment(1, WALL_S)
        )
        return Context(self.settings, identity)

    @property
    def state(self) -> NodeState:
        """The state as it would be published now."""
        return self.memory.state

    @property
    def advice(self) -> Advice:
        """What training is told now."""
        return self.memory.state.advice

    @property
    def alerts(self) -> list[str]:
        """Types of the open alerts."""
        return [alert.type for alert in self.memory.state.alerts]

    def take(self, reading: Reading) -> list[Event]:
        """Give the core a reading and return the events it makes, each checked."""
        decision = step(self.context, self.memory, reading, self.now)
        for event in decision.events:
            check_event(event)
        assert [e.seq for e in decision.events] == list(
            range(self.memory.next_seq, decision.memory.next_seq)
        )
        self.memory, self.wake_ns = decision.memory, decision.wake_ns
        self.events += decision.events
        return list(decision.events)

    def look(self, host: HostNetwork, *, after_s: float = 0.0, resynced: str = "") -> list[Event]:
        """Let time pass, then show the core the network."""
        self.sleep(after_s)
        return self.take(NetworkReading(host, resynced))

    def power(self, state: PowerState, **details: Any) -> list[Event]:
        """Show the core the power state."""
        return self.take(PowerReading(Power(state, source="ups1", **details)))

    def notices(self, *notices: Notice) -> list[Event]:
        """Show the core every notice that stands."""
        fresh = tuple(one for one in notices if one not in self.state.notices)
        return self.take(NoticesReading(notices, fresh))

    def notice(self, kind: str, action: str, in_s: float | None = None) -> Notice:
        """Return a notice seen now whose deadline is ``in_s`` from now."""
        deadline = None
        if in_s is not None:
            deadline = Moment(self.now_ns + int(in_s * 1e9), self.now.wall_s + in_s)
        return Notice(kind, action, "test", self.now, deadline)

    def sleep(self, seconds: float) -> list[Event]:
        """Let time pass, waking the core when it asked for it, as the agent does."""
        end_ns, before = self.now_ns + int(seconds * 1e9), len(self.events)
        for _ in range(MAX_WAKES):
            if self.wake_ns is None or self.wake_ns > end_ns:
                self.now_ns = end_ns
                return self.events[before:]
            self.now_ns = max(self.now_ns, self.wake_ns)
            self.take(Tick())
        raise AssertionError("the core asks to be woken without end")

    def document(self) -> dict[str, Any]:
        """Return the state document after a trip through JSON."""
        encoder = StateEncoder(self.context.identity)
        parsed = load_json(encoder.encode(self.state, self.now, clock_synced=True))
        assert isinstance(parsed, dict)
        return parsed

    def restart(self, *, absent_s: float = 1.0, boot_id: str = "") -> World:
        """Return a world whose agent starts with what this one stored."""
        world = World(self.settings, self.now_ns + int(absent_s * 1e9), session=f"{self.session}+")
        world.boot_id = boot_id or self.boot_id
        world.memory = restore(world.context, self.document(), world.now)
        return world


def types(events: list[Event]) -> list[str]:
    """Return the types of events."""
    return [event.type for event in events]
