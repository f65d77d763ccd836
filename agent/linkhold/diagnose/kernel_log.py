"""The step that reads the kernel's log of the last hours and folds it into incidents."""

from __future__ import annotations

import asyncio
import select
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from linkhold.deadlines import within
from linkhold.decide.incidents import absorb, look
from linkhold.decide.kernel_log import classify
from linkhold.model import Unavailable
from linkhold.model.diagnosis_facts import LogFacts, LogIncident
from linkhold.model.incidents import Incidents, LinkFacts, Step
from linkhold.model.kernel_log import LineClass, Position
from linkhold.sensors.journal import JournalSensor
from linkhold.sensors.kmsg import KmsgSensor
from linkhold.survey import pci
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from linkhold.diagnose.local import Seen
    from linkhold.diagnose.plan import Plan
    from linkhold.model.kernel_log import Finding, KernelLogReading, PciView, Record
    from linkhold.survey.files import Reader

BOOT_ID = "/proc/sys/kernel/random/boot_id"
READ_S = 2.0
"""How long the log is read at most: of a flood this much is enough."""
QUIET_S = 0.4
ONE_LOSS_NS = 10_000_000_000
"""Without an "up" between them (it may be rate-limited), lines further apart are two losses."""
RECORDS_MOST = 100_000


async def facts(plan: Plan, reader: Reader, seen: Seen) -> LogFacts:
    """Read the log from its beginning. Raises Unavailable with the reason where it is closed."""
    boot = await in_thread(lambda: reader.line(BOOT_ID))
    try:
        found = await in_thread(lambda: _kmsg(plan, boot))
    except Unavailable as closed:
        if plan.kernel_log != Path("/dev/kmsg"):
            raise
        found = await _journal(plan, boot, closed)
    view = await in_thread(lambda: pci.look(reader))
    now_ns, links = time.monotonic_ns(), _links(seen)
    # In a thread: a flood takes a second, in which answers of other steps would seem too late.
    told = await in_thread(lambda: folded(found.records, links, now_ns, plan.since_s, view))
    return replace(told, lost=found.lost, whole=found.whole)


class _Read(NamedTuple):
    """What was read; ``lost`` were overwritten before, ``whole`` when the end was reached."""

    records: list[Record]
    lost: int
    whole: bool


def _kmsg(plan: Plan, boot: str) -> _Read:
    sensor = KmsgSensor(boot, Position(""), path=plan.kernel_log, any_facility=plan.any_facility)
    sensor.open()
    end = time.monotonic() + READ_S
    found: list[Record] = []
    lost, whole = 0, False
    try:
        waiting = select.poll()
        waiting.register(sensor.fileno(), select.POLLIN)
        while time.monotonic() < end and len(found) < RECORDS_MOST:
            if not waiting.poll(0):
                whole = True
                break
            reading = sensor.read()
            if reading is not None:
                found += reading.records
                lost += reading.lost
    finally:
        sensor.close()
    return _Read(found, lost, whole)


async def _journal(plan: Plan, boot: str, closed: Unavailable) -> _Read:
    """Read journald's copy until it is silent; raises Unavailable with both reasons."""
    heard: asyncio.Queue[KernelLogReading] = asyncio.Queue()
    sensor = JournalSensor(boot, Position(""), time.monotonic() - plan.since_s)
    try:
        sensor.start(heard.put_nowait, asyncio.get_running_loop())
    except Unavailable as absent:
        raise Unavailable(f"{closed}; {absent}") from None
    found: list[Record] = []
    lost, end, whole = 0, time.monotonic() + READ_S, False
    try:
        while time.monotonic() < end and len(found) < RECORDS_MOST:
            reading = await within(heard.get(), QUIET_S)
            found += reading.records
            lost += reading.lost
    except asyncio.TimeoutError:
        whole = True  # that was all
    finally:
        sensor.stop()
    return _Read(found, lost, whole)


def _links(seen: Seen) -> dict[str, LinkFacts]:
    host = seen.network
    found = {}
    for link in host.links.values():
        master = host.links.get(link.master) if link.port and link.master else None
        bond = master.name if master is not None else ""
        found[link.name] = LinkFacts(link.carrier, link.bus_path, bond)
    return found


class _Losses:
    """Counts how often each link went down, however many lines tell of it.

    Driver and bond both tell a loss, and a bond that waits before it acts tells it again and again:
    lines are of one loss until the link is up again, or nothing more is told of it.
    """

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._told_ns: dict[str, int] = {}

    def add(self, finding: Finding, at_ns: int) -> None:
        """Take what one line says."""
        name = finding.interface
        if finding.cls is LineClass.LINK_UP:
            self._told_ns.pop(name, None)
        elif finding.cls is LineClass.LINK_DOWN and name:
            before_ns = self._told_ns.get(name)
            if before_ns is None or at_ns - before_ns > ONE_LOSS_NS:
                self.count[name] += 1
            self._told_ns[name] = at_ns


def folded(
    records: Iterable[Record],
    links: Mapping[str, LinkFacts],
    now_ns: int,
    since_s: float,
    view: PciView,
) -> LogFacts:
    """Return the incidents and the losses of links in these records. Pure."""
    state, losses = Incidents(), _Losses()
    ended: list[LogIncident] = []
    for record in records:
        at_ns = record.at_us * 1000
        if now_ns - at_ns > since_s * 1e9:
            continue
        finding = classify(record.text, record.device, view)
        losses.add(finding, at_ns)
        done = absorb(state, finding, links, at_ns)
        state = done.state
        ended += [
            LogIncident(
                change.incident, (now_ns - change.incident.last_fault_ns) / 1e9, change.reason
            )
            for change in done.changes
            if change.step is Step.CLOSED
        ]
    done = look(state, links, now_ns)
    ended += [
        LogIncident(change.incident, (now_ns - change.incident.last_fault_ns) / 1e9, change.reason)
        for change in done.changes
    ]
    lasting = [
        LogIncident(one, (now_ns - one.last_fault_ns) / 1e9) for one in done.state.open.values()
    ]
    return LogFacts((*lasting, *reversed(ended)), dict(losses.count), since_s)
