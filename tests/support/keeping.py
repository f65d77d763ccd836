"""A scripted world for the keeping of bonds: the machine, its helpers and a host that drifts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from linkhold.config.settings import BondSettings
from linkhold.decide.keeping import (
    Ended,
    Found,
    HostSeen,
    Inquire,
    JournalSeen,
    Memory,
    Pulse,
    Reloaded,
    Repair,
    Restart,
    Rules,
    step,
)
from linkhold.model import Address, BondOptions, BondPort, HostNetwork, Link
from support.world import MAX_WAKES, START_NS, nic

if TYPE_CHECKING:
    from linkhold.decide.happening import Happening
    from linkhold.decide.keeping.values import Reading
    from linkhold.model import BondKeep

BOND = 9
SETTINGS = BondSettings(members=("eth1", "eth2"))
OPTIONS = BondOptions(
    1,
    active=1,
    miimon_ms=50,
    primary=1,
    primary_reselect=2,
    num_peer_notif=3,
    peer_notif_delay_ms=100,
)


def member(index: int, **changes: object) -> Link:
    """Return ``eth<index>`` as a good member of bond0."""
    port = BondPort(
        "active" if index == 1 else "backup", "up", perm_mac=f"02:00:00:00:00:{index:02x}"
    )
    link = nic(index, master=BOND, port=port, mac="02:00:00:00:00:01")
    return replace(link, **changes)  # type: ignore[arg-type]


def loose(index: int, **changes: object) -> Link:
    """Return ``eth<index>`` as the kernel leaves it when it leaves a bond: set down."""
    link = replace(nic(index, up=False, losses=1), admin_up=False)
    return replace(link, **changes)  # type: ignore[arg-type]


def host(*nics: Link, options: BondOptions | None = OPTIONS, admin_up: bool = True) -> HostNetwork:
    """Return a host with these NICs and bond0; ``options`` None: without the bond."""
    links = {link.index: link for link in nics}
    if options is not None:
        links[BOND] = Link(
            BOND, "bond0", kind="bond", admin_up=admin_up, carrier=admin_up, bond=options
        )
    return HostNetwork(links, frozenset({Address(BOND, "inet", "10.0.0.2", 24)}))


WHOLE = host(member(1), member(2))
LEFT = host(member(1), loose(2))
GONE = host(loose(1), loose(2), options=None)


@dataclass
class Keeping:
    """The machine, what it asked for, and a clock that only the test moves.

    Inquiries are answered at once, from ``journal``, ``owners`` and ``restarts``. A repair ends
    after ``repair_s``; ``error`` is how, and ``after_repair`` what the host looks like then, None
    for as it was.
    """

    rules: Rules = field(default_factory=lambda: Rules({"bond0": SETTINGS}, enforce=True))
    now_ns: int = START_NS
    journal: JournalSeen = field(default_factory=lambda: JournalSeen(frozenset({"bond0"})))
    owners: dict[str, str] = field(default_factory=dict)
    restarts: tuple[Restart, ...] = ()
    repair_s: float = 3.0
    error: str = ""
    after_repair: HostNetwork | None = WHOLE
    memory: Memory = field(default_factory=Memory)
    news: list[Happening] = field(default_factory=list)
    repairs: list[tuple[int, Repair]] = field(default_factory=list)
    inquiries: int = 0
    keeps: tuple[BondKeep, ...] = ()
    wake_ns: int | None = None
    ends_ns: int | None = None

    def take(self, reading: Reading) -> None:
        """Give the machine a reading, and answer what it asks."""
        waiting: list[Reading] = [reading]
        while waiting:
            done = step(self.rules, self.memory, waiting.pop(0), self.now_ns)
            self.memory, self.wake_ns = done.memory, done.wake_ns
            if done.report is not None:
                self.keeps = done.report.keeps
                self.news += done.report.news
            for action in done.actions:
                if isinstance(action, Inquire):
                    self.inquiries += 1
                    waiting.append(Found(self.journal, self.owners, self.restarts))
                else:
                    assert self.ends_ns is None, "two repairs at once"
                    self.repairs.append((self.now_ns, action))
                    self.ends_ns = self.now_ns + int(self.repair_s * 1e9)

    def look(self, seen: HostNetwork, *, after_s: float = 0.0) -> None:
        """Let time pass, then show the machine the host."""
        self.sleep(after_s)
        self.take(HostSeen(seen))

    def begin(self, seen: HostNetwork = WHOLE) -> None:
        """Show it the host and the journal for the first time."""
        self.take(HostSeen(seen))
        self.take(self.journal)

    def sleep(self, seconds: float) -> None:
        """Let time pass, waking the machine when it asked for it; repairs end when they do."""
        end_ns = self.now_ns + int(seconds * 1e9)
        for _ in range(MAX_WAKES):
            due = [t for t in (self.wake_ns, self.ends_ns) if t is not None and t <= end_ns]
            if not due:
                self.now_ns = end_ns
                return
            self.now_ns = max(self.now_ns, min(due))
            if self.ends_ns is not None and self.ends_ns <= self.now_ns:
                self._end_repair()
            else:
                self.take(Pulse())
        raise AssertionError("the machine asks to be woken without end")

    def _end_repair(self) -> None:
        self.ends_ns = None
        if not self.error and self.after_repair is not None:
            self.take(HostSeen(self.after_repair))
        number = len(self.repairs)
        self.journal = replace(self.journal, last=f"repair-{number}", last_bond="bond0")
        self.take(Ended("bond0", self.journal, self.error))

    def reload(self) -> None:
        """Read the configuration again."""
        self.take(Reloaded())

    @property
    def types(self) -> list[str]:
        """Types of all events so far."""
        return [happening.type for happening in self.news]

    def last(self, type_: str) -> Happening:
        """Return the newest event of a type."""
        return next(h for h in reversed(self.news) if h.type == type_)

    @property
    def keep(self) -> BondKeep:
        """What is told of bond0."""
        return self.keeps[0]
