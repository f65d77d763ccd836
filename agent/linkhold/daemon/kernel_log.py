"""The kernel's log in the agent's loop: read, classified, folded into incidents."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators.journal import boot_id
from linkhold.daemon.log import log
from linkhold.decide import incident_view
from linkhold.decide.incidents import absorb, look
from linkhold.decide.kernel_log.classify import classify, worth
from linkhold.decide.readings import KernelLogNews
from linkhold.model import HostNetwork, StoreError, Unavailable
from linkhold.model.incidents import Incidents, KernelLog, LinkFacts
from linkhold.model.kernel_log import PciView, Position
from linkhold.sensors import kernel_log
from linkhold.sensors.port_counters import PortCounters
from linkhold.store.log_position import LogPosition
from linkhold.survey import pci
from linkhold.survey.files import Reader
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.decide.incidents import Outcome
    from linkhold.decide.readings import Reading
    from linkhold.model import NodeState
    from linkhold.model.incidents import IncidentChange
    from linkhold.model.kernel_log import KernelLogReading, Record
    from linkhold.sensors.journal import JournalSensor
    from linkhold.sensors.kmsg import KmsgSensor

POSITION = "kernel-log.json"
LOOK_S = 5.0
"""How often an open incident is compared with the link, and the position is saved."""


class KernelLogKeeper:
    """Follows the kernel's log. Belongs to the loop's thread."""

    def __init__(self, report: Callable[[Reading], None], run_dir: Path) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._position = LogPosition(run_dir / POSITION)
        self._to_save: Position | None = None
        self._told_last = False
        self._sensor: KmsgSensor | JournalSensor | None = None
        self._host = HostNetwork()
        self._pci = PciView()
        self._incidents = Incidents()
        self._shown = KernelLog()
        self._problem = ""
        self._lost = 0
        self._new_boot = False
        self._task: asyncio.Task[None] | None = None
        self._look: asyncio.Task[None] | None = None

    def begin(self, state: NodeState, *, new_boot: bool) -> None:
        """Take in the incidents that the agent before this one left open.

        ``new_boot``: there was one before the last boot, so all of this boot's log is new.
        """
        self._new_boot = new_boot
        self._shown = state.kernel_log
        self._incidents = Incidents(open={one.subject: one for one in state.kernel_log.incidents})

    def see(self, host: HostNetwork) -> None:
        """Take in the network as it is now; the bus is looked at again when NICs came or went."""
        before, self._host = self._host, host
        if self._task is not None and before.links.keys() != host.links.keys():
            self._look = self._loop.create_task(self._look_at_bus())

    def start(self) -> None:
        """Read from where the agent before this one stopped, else from now on."""
        self._task = self._loop.create_task(self._run())

    @property
    def counters(self) -> dict[str, int]:
        """What the sensor counts: records read, and those overwritten unread."""
        return dict(self._sensor.counters) if self._sensor is not None else {}

    def stop(self) -> None:
        """Read no more."""
        for task in (self._task, self._look):
            if task is not None:
                task.cancel()
        self._save()
        if self._sensor is not None:
            self._sensor.stop()
            self._sensor = None

    async def _look_at_bus(self) -> None:
        self._pci = await in_thread(lambda: pci.look(Reader(Path("/"))))

    async def _run(self) -> None:
        await self._look_at_bus()
        try:
            self._sensor = kernel_log.start(boot_id(), self._begin_at(), self._take, self._loop)
        except Unavailable as error:
            self._problem = str(error)
            log.warning("%s", error)
            self._tell(())
        while True:
            await asyncio.sleep(LOOK_S)
            if self._incidents.open:
                self._settle(look(self._incidents, self._facts(), time.monotonic_ns()))
            if not self._told_last:
                self._save()
            self._told_last = False

    def _begin_at(self) -> Position | None:
        """Return where reading goes on.

        What was told is stored with its position, in one transaction; the file says how far the
        reading came since, where nothing was told.
        """
        own = boot_id()
        found = (self._position.load(), self._shown.position)
        known = [one for one in found if one is not None]
        here = [one for one in known if one.boot_id == own]
        if here:
            return max(here, key=lambda one: one.sequence)
        return known[0] if known else Position("") if self._new_boot else None

    def _take(self, reading: KernelLogReading) -> None:
        """Fold one turn of records in."""
        changes: list[IncidentChange] = []
        lost, problem = reading.lost, reading.problem
        self._lost += lost
        facts: Mapping[str, LinkFacts] | None = None
        for record in reading.records:
            if not worth(record.text):
                continue
            facts = self._facts() if facts is None else facts
            changes += self._absorb(record, facts)
        self._to_save = reading.position
        if changes or lost or problem != self._problem:
            self._problem = problem
            # What is told is on its way to the disk, with this position. The file waits for a look
            # without news: it must never be ahead of what a crash leaves of the events.
            self._told_last = True
            self._tell(changes, reading.position)

    def _absorb(self, record: Record, facts: Mapping[str, LinkFacts]) -> tuple[IncidentChange, ...]:
        finding = classify(record.text, record.device, self._pci)
        done = absorb(self._incidents, finding, facts, time.monotonic_ns())
        self._incidents = done.state
        return done.changes

    def _settle(self, done: Outcome) -> None:
        self._incidents = done.state
        if done.changes:
            self._tell(done.changes)

    def _tell(
        self,
        changes: tuple[IncidentChange, ...] | list[IncidentChange],
        position: Position | None = None,
    ) -> None:
        at = position or self._shown.position
        shown = KernelLog(tuple(self._incidents.open.values()), self._lost, self._problem, at)
        happened = incident_view.news(changes, time.monotonic_ns())
        if shown != self._shown or happened:
            self._shown = shown
            self._report(KernelLogNews(shown, tuple(happened)))

    def _save(self) -> None:
        """Keep how far the log was read, lines that mean nothing included."""
        position, self._to_save = self._to_save, None
        if self._sensor is not None and self._sensor.position is not None:
            position = self._sensor.position
        if position is None:
            return
        try:
            self._position.save(position)
        except StoreError as error:
            log.warning("how far the kernel's log was read is not kept: %s", error)

    # What netlink and the counters know.

    def _facts(self) -> dict[str, LinkFacts]:
        wanted = {one.interface for one in self._incidents.open.values()}
        return {
            link.name: _facts(self._host, link.index, counted=link.name in wanted)
            for link in self._host.links.values()
        }


def _facts(host: HostNetwork, index: int, *, counted: bool) -> LinkFacts:
    link = host.links[index]
    master = host.links.get(link.master) if link.port and link.master else None
    bond = master.name if master is not None else ""
    received, sent = _counted(link.name, index) if counted else (None, None)
    return LinkFacts(link.carrier, link.bus_path, bond, received, sent)


def _counted(name: str, index: int) -> tuple[int | None, int | None]:
    with contextlib.suppress(OSError):
        counters = PortCounters(name, index)
        try:
            read = counters.read()
        finally:
            counters.close()
        return read.received, read.sent
    return None, None
