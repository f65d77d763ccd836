"""A day of a node in seconds: the agent's and the relay's own code under a simulated clock.

What is real: every decision (node, power, kernel log, relay), the documents and their encoders,
the state file, metrics, and the outbox in its SQLite file. What is simulated is time, and what the
host tells. What is kept is counted in the interpreter's memory blocks, of which a leak of any kind
of object takes more and more.
"""

from __future__ import annotations

import gc
import random
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.config.settings import OutboxSettings, PolicySettings, Settings
from linkhold.decide import incident_view, incidents, power
from linkhold.decide.kernel_log.classify import classify
from linkhold.decide.power.reports import of_ups
from linkhold.decide.readings import AgentReading, KernelLogNews, PowerReading
from linkhold.decide.restore import restore
from linkhold.model import Identity, Moment
from linkhold.model.incidents import Incidents, KernelLog, LinkFacts
from linkhold.model.kernel_log import PciView, Position
from linkhold.model.power_sources import SourceKind, UpsReport
from linkhold.mqtt import Received
from linkhold.relay.decide.picture import Picture
from linkhold.relay.decide.values import BrokerSeen
from linkhold.relay.messages import read
from linkhold.store.outbox import Mark, Status, Stored, entry_of
from linkhold.store.outbox_file import open_outbox
from linkhold.store.statefile import StateFile
from linkhold.wire import birth_document, dumps, load_json, node_prefix, wrap_state
from linkhold.wire.metrics import families
from linkhold.wire.openmetrics import render
from linkhold.wire.state import StateEncoder
from soak.growth import Look, Verdict, judge
from support.world import START_NS, World, bonded

if TYPE_CHECKING:
    from linkhold.decide.node import Context
    from linkhold.model import Event, HostNetwork

HOUR_S = 3600.0
BEAT_S = 5.0
FAULTS_AN_HOUR = 60.0
"""A bad hour, every hour: an ordinary node has a fault or two in a day."""
BROKER = "fleet"
UPS = power.Rules((power.SourceRules("ups1", SourceKind.UPS),))
OUTBOX = OutboxSettings(max_events=1000, max_bytes=1_000_000, keep_days=0.1)
SETTINGS = Settings(policy=replace(PolicySettings(), flap_downs=20), outbox=OUTBOX)
FAULTY = ("NETDEV WATCHDOG: eth1 (e1000e): transmit queue 0 timed out",
          "e1000e 0000:00:19.0 eth1: Reset adapter unexpectedly",
          "e1000e 0000:00:19.0 eth1: NIC Link is Up 1000 Mbps Full Duplex")  # fmt: skip


@dataclass
class Life(World):
    """The core of one start of the agent; ``began`` is when that was."""

    began: Moment = field(default_factory=lambda: Moment(START_NS, 0.0))

    @property
    def context(self) -> Context:
        """What the core is given: who it is, since when."""
        before = super().context
        identity = Identity("lab", "n1", "m", self.boot_id, self.session, self.began)
        return replace(before, identity=identity)


class Day:
    """The node, its agent's store and publications, and the relay that hears them."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.dice = dice
        self.made = 0
        self.faults = self.starts = 0
        self._losses = [0, 0]
        self._outbox, problem = open_outbox(folder / "state", OUTBOX)
        assert not problem, problem
        self._file = StateFile(folder / "state.json")
        self._metrics = folder / "linkhold.prom"
        self.life = Life(SETTINGS, session="s0")
        brokers = (BrokerSettings(BROKER),)
        self._relay = Picture(RelaySettings(brokers=brokers), self.life.now)
        self._relay.watch([BROKER], self.life.now)
        self._relay.take(BrokerSeen(BROKER, True), self.life.now)
        self._begin()

    @property
    def now_s(self) -> float:
        """Simulated seconds since the day began."""
        return (self.life.now_ns - START_NS) / 1e9

    def close(self) -> None:
        """Close the outbox."""
        self._outbox.close()

    # The agent.

    def _begin(self) -> None:
        """Start, as after an upgrade or a crash."""
        self.starts += 1
        life = self.life
        self._power, self._incidents = power.Memory(), Incidents()
        self._encoder = StateEncoder(life.context.identity)
        self._prefix = node_prefix("lab", "n1")
        started: dict[str, object] = {"version": "1", "mode": "observe", "absent_s": None}
        life.take(AgentReading("started", started))
        life.look(self._host(), after_s=0.01)
        self._ups("OL")
        position = self._outbox.last_position()
        birth = birth_document(life.context.identity, "1", position, life.memory.next_seq, "")
        self._tell("birth", dumps(birth), retained=True)
        self._tell("status", b"online", retained=True)
        self.beat()

    def restart(self) -> None:
        """End, and start with what is stored."""
        before = self.life
        stored = load_json(self._outbox.baseline() or b"null")
        assert isinstance(stored, dict), "the outbox has no state"
        now_ns = before.now_ns + int(2e9)
        self.life = Life(SETTINGS, now_ns, session=f"s{self.starts}")
        self.life.began = self.life.now
        self.life.memory = restore(self.life.context, stored, self.life.now)
        self._begin()

    def beat(self) -> None:
        """Write the state file, metrics and what happened; tell the fleet."""
        document = self._encoder.encode(self.life.state, self.life.now, clock_synced=True)
        self._file.write(document)
        identity, epoch = self.life.context.identity, self.life.state.epoch
        event = wrap_state(identity, epoch, self.life.now, document)
        self._tell("state", event, retained=True)
        shown = families(load_json(document), "1", self.life.now.wall_s)
        self._metrics.write_bytes(render(shown))
        if self.life.events:
            self._record(self.life.events, document)
            self.life.events.clear()

    def _record(self, events: list[Event], document: bytes) -> None:
        self.made += len(events)
        entries = [entry_of(self.life.context.identity, event) for event in events]
        self._outbox.write([Stored(0, entry) for entry in entries], document)
        if self.dice.random() < 0.9:  # else the fleet is away, and gets them later
            for stored in self._outbox.pending(0, 500):
                entry = stored.entry
                self._tell(f"event/{entry.type}", entry.payload)
                self._outbox.write((), None, [Mark(entry.id, Status.DELIVERED)])
        self._outbox.purge(self.life.now.wall_s)

    def _tell(self, topic: str, payload: bytes, *, retained: bool = False) -> None:
        """Have the relay hear a message."""
        message = Received(f"{self._prefix}/{topic}", payload, retained, None)
        heard = read(message, BROKER)
        assert heard is not None
        self._relay.take(heard, self.life.now)

    def sleep(self, seconds: float, beat_s: float) -> None:
        """Let time pass, with heartbeats."""
        end_ns = self.life.now_ns + int(seconds * 1e9)
        while self.life.now_ns < end_ns:
            self.life.sleep(min(beat_s, (end_ns - self.life.now_ns) / 1e9))
            self.beat()
            self._relay.tick(self.life.now)

    # What happens.

    def fault(self) -> None:
        """Let something happen that is over after a while."""
        self.faults += 1
        kinds = (self._member, self._member, self._network, self._battery, self._kernel_log)
        self.dice.choice(kinds)()

    def _host(self, *, first: bool = True, second: bool = True) -> HostNetwork:
        return bonded(first, second, losses=(self._losses[0], self._losses[1]))

    def _member(self) -> None:
        self._losses[1] += 1
        self.life.look(self._host(second=False))
        self.sleep(self.dice.choice((0.2, 5.0, 40.0)), BEAT_S)
        self.life.look(self._host())

    def _network(self) -> None:
        self._losses[0] += 1
        self._losses[1] += 1
        self.life.look(self._host(first=False, second=False))
        self.sleep(self.dice.choice((0.2, 5.0, 40.0)), BEAT_S)
        self.life.look(self._host())

    def _ups(self, status: str, runtime_s: float | None = None) -> None:
        said = of_ups("ups1", UpsReport("ups1", status, runtime_s=runtime_s))
        outcome = power.step(UPS, self._power, said, self.life.now)
        self._power = outcome.memory
        if outcome.report:
            self.life.take(PowerReading(outcome.power, outcome.view, outcome.news))

    def _battery(self) -> None:
        self._ups("OB DISCHRG", 900.0)
        self.sleep(20, BEAT_S)
        self._ups("OB DISCHRG LB", 60.0)
        self.sleep(5, BEAT_S)
        self._ups("OL")
        self.sleep(UPS.mains_back_s + 1, BEAT_S)
        self._ups("OL")

    def _kernel_log(self) -> None:
        facts = {"eth1": LinkFacts(carrier=True, address="0000:00:19.0", bond="bond0")}
        for text in FAULTY:
            finding = classify(text, "", PciView())
            outcome = incidents.absorb(self._incidents, finding, facts, self.life.now_ns)
            self._log_news(outcome)
            self.sleep(1, BEAT_S)
        self._log_news(incidents.look(self._incidents, facts, self.life.now_ns))

    def _log_news(self, outcome: incidents.Outcome) -> None:
        self._incidents = outcome.state
        if outcome.changes:
            news = incident_view.news(outcome.changes, self.life.now_ns)
            log = KernelLog(tuple(self._incidents.open.values()), 0, "", Position("boot", 1))
            self.life.take(KernelLogNews(log, tuple(news)))

    def looks(self, folder: Path) -> Look:
        """Count the memory blocks in use, and what lies in the folder."""
        gc.collect()
        files = [path for path in folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files if path.name.startswith("outbox"))
        figures = {
            "memory blocks": float(sys.getallocatedblocks()),
            "files": float(len(files)),
            "database": size / 1024,
        }
        return Look(self.now_s, figures)


def run(
    hours: float, *, beat_s: float = BEAT_S, faults_an_hour: float = FAULTS_AN_HOUR, seed: int = 1
) -> list[Verdict]:
    """Live a day and return what grew; the agent starts anew every six hours."""
    began_s = time.monotonic()
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="linkhold-soak-") as name:
        folder = Path(name)
        day = Day(folder, dice)
        looks = []
        try:
            while day.now_s < hours * HOUR_S:
                if day.now_s > day.starts * 6 * HOUR_S:
                    day.restart()
                end_s = day.now_s + HOUR_S / 2
                while day.now_s < end_s:
                    day.fault()
                    day.sleep(dice.expovariate(faults_an_hour / HOUR_S), beat_s)
                looks.append(day.looks(folder))
        finally:
            day.close()
    print(
        f"simulated: {hours:g} h in {time.monotonic() - began_s:.1f} s: {day.faults} faults, "
        f"{day.made} events, {day.starts} starts of the agent"
    )
    return judge("simulated day", looks)
