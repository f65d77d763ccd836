"""The step that reads the kernel's log of the last hours and folds it into incidents."""

from __future__ import annotations

import asyncio
import select
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

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
    from linkhold.model.kernel_log import KernelLogReading, PciView, Record
    from linkhold.survey.files import Reader

BOOT_ID = "/proc/sys/kernel/random/boot_id"
READ_S = 2.0
"""How long the log is read at most: of a flood this much is enough."""
QUIET_S = 0.4
RECORDS_MOST = 100_000


async def facts(plan: Plan, reader: Reader, seen: Seen) -> LogFacts:
    """Read the log from its beginning. Raises Unavailable with the reason where it is closed."""
    boot = reader.line(BOOT_ID)
    try:
        records, lost = await in_thread(lambda: _kmsg(plan, boot))
    except Unavailable as closed:
        if plan.kernel_log != Path("/dev/kmsg"):
            raise
        records, lost = await _journal(boot, closed)
    view = await in_thread(lambda: pci.look(reader))
    now_ns = time.monotonic_ns()
    return folded(records, _links(seen), now_ns, plan.since_s, view, lost)


def _kmsg(plan: Plan, boot: str) -> tuple[list[Record], int]:
    sensor = KmsgSensor(boot, Position(""), path=plan.kernel_log, any_facility=plan.any_facility)
    sensor.open()
    end = time.monotonic() + READ_S
    found: list[Record] = []
    lost = 0
    try:
        waiting = select.poll()
        waiting.register(sensor.fileno(), select.POLLIN)
        while waiting.poll(0) and time.monotonic() < end and len(found) < RECORDS_MOST:
            reading = sensor.read()
            if reading is not None:
                found += reading.records
                lost += reading.lost
    finally:
        sensor.close()
    return found, lost


async def _journal(boot: str, closed: Unavailable) -> tuple[list[Record], int]:
    """Read journald's copy until it is silent; raises Unavailable with both reasons."""
    heard: asyncio.Queue[KernelLogReading] = asyncio.Queue()
    sensor = JournalSensor(boot, Position(""))
    try:
        sensor.start(heard.put_nowait, asyncio.get_running_loop())
    except Unavailable as absent:
        raise Unavailable(f"{closed}; {absent}") from None
    found: list[Record] = []
    lost, end = 0, time.monotonic() + READ_S
    try:
        while time.monotonic() < end and len(found) < RECORDS_MOST:
            reading = await asyncio.wait_for(heard.get(), QUIET_S)
            found += reading.records
            lost += reading.lost
    except asyncio.TimeoutError:
        pass  # that was all
    finally:
        sensor.stop()
    return found, lost


def _links(seen: Seen) -> dict[str, LinkFacts]:
    host = seen.network
    found = {}
    for link in host.links.values():
        master = host.links.get(link.master) if link.port and link.master else None
        bond = master.name if master is not None else ""
        found[link.name] = LinkFacts(link.carrier, link.bus_path, bond)
    return found


def folded(
    records: Iterable[Record],
    links: Mapping[str, LinkFacts],
    now_ns: int,
    since_s: float,
    view: PciView,
    lost: int = 0,
) -> LogFacts:
    """Return the incidents and the losses of links in these records. Pure."""
    state, downs = Incidents(), Counter[str]()
    ended: list[LogIncident] = []
    for record in records:
        at_ns = record.at_us * 1000
        if now_ns - at_ns > since_s * 1e9:
            continue
        finding = classify(record.text, record.device, view)
        if finding.cls is LineClass.LINK_DOWN and finding.interface:
            downs[finding.interface] += 1
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
    return LogFacts((*lasting, *reversed(ended)), dict(downs), since_s, lost)
