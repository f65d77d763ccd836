"""Notices in the agent's loop: what cloud and logind announce, and the time before a shutdown."""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.config.power import Cloud
from linkhold.daemon.host import now
from linkhold.daemon.log import log
from linkhold.decide.notices import Memory, by_urgency, step
from linkhold.decide.notices.services import SERVICES, VENDORS_BY_CLOUD
from linkhold.decide.notices.shutdown import awaited, shutdown_notice
from linkhold.decide.readings import NoticesReading
from linkhold.model import Unavailable
from linkhold.model.power_view import NoticesView
from linkhold.sensors.cloud_notices import CloudNotices
from linkhold.sensors.logind import LogindSensor
from linkhold.sensors.system_bus import BUS
from linkhold.survey import cloud
from linkhold.survey.files import Reader
from linkhold.survey.listeners import listeners
from linkhold.survey.training import Finder
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from linkhold.config.power import NoticeSettings
    from linkhold.config.settings import Settings
    from linkhold.decide.notices import Polled
    from linkhold.decide.notices.shutdown import LogindReport
    from linkhold.decide.readings import Reading
    from linkhold.model import NodeState, Notice
    from linkhold.survey.listeners import Listeners

LOGIND = "logind"
TRAINERS_S = 0.5
"""How often it is looked whether training has ended, while a shutdown waits for it."""
MARGIN_S = 0.5
"""The lock is let go so long before logind stops waiting for it."""


class NoticesKeeper:
    """Follows the cloud's notices and logind. Belongs to the loop's thread."""

    def __init__(self, report: Callable[[Reading], None]) -> None:
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._settings: NoticeSettings | None = None
        self._memory = Memory()
        self._shutdown: Notice | None = None
        self._cloud = ""
        self._locked, self._logind_problem, self._logind_heard = False, "", False
        self._sensors: list[CloudNotices | LogindSensor] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: asyncio.Task[None] | None = None
        self._shown: tuple[tuple[Notice, ...], NoticesView] = ((), NoticesView())

    def begin(self, state: NodeState) -> None:
        """Take in the notices that the agent before this one knew: they stand."""
        clouds = {one.source: one for one in state.notices if not one.planned}
        self._memory = Memory(inherited=clouds)
        self._shutdown = next((one for one in state.notices if one.planned), None)
        self._shown = (state.notices, NoticesView())

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        before, self._settings = self._settings, settings.notices
        if before == settings.notices:
            return
        self.stop()
        if before is not None and before.cloud != settings.notices.cloud:
            self._memory = Memory()
        if not settings.notices.logind:
            self._shutdown, self._locked, self._logind_problem = None, False, ""
        self._run(self._follow_cloud(settings.notices.cloud))
        if settings.notices.logind:
            self._run(self._follow_logind())
        self._tell(())

    @property
    def counters(self) -> dict[str, int]:
        """What the sensors count."""
        total: Counter[str] = Counter()
        for sensor in self._sensors:
            total.update(sensor.counters)
        return dict(total)

    def stop(self) -> None:
        """Hear nobody any more, and let a shutdown go on."""
        for task in (*self._tasks, self._waiting):
            if task is not None:
                task.cancel()
        self._tasks, self._sensors, self._waiting = [], [], None

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self._loop.create_task(_guarded(work)))

    # The cloud.

    async def _follow_cloud(self, wanted: Cloud) -> None:
        """Ask the metadata service of the cloud that is named, or that this machine is of."""
        self._cloud = "" if wanted in {Cloud.AUTO, Cloud.NEVER} else wanted.value
        if wanted is Cloud.AUTO:
            name, _ = await in_thread(lambda: cloud.machine(Reader(Path("/"))))
            self._cloud = VENDORS_BY_CLOUD.get(name, "")
        if not self._cloud:
            self._memory = Memory()
            self._tell(())
            return
        self._tell(())
        sensor = CloudNotices(SERVICES[self._cloud])
        self._sensors.append(sensor)
        await sensor.run(self._take_answer)

    def _take_answer(self, polled: Polled) -> None:
        done = step(self._memory, polled, now())
        self._memory = done.memory
        self._tell(done.fresh)

    # logind.

    async def _follow_logind(self) -> None:
        sensor = LogindSensor(bus=_bus())
        self._sensors.append(sensor)
        try:
            await sensor.run(lambda report: self._take_logind(sensor, report))
        except Unavailable as error:
            self._logind_problem = str(error)
            self._tell(())

    def _take_logind(self, sensor: LogindSensor, report: LogindReport) -> None:
        before = self._shutdown
        self._shutdown = shutdown_notice(report, before, now())
        self._locked, self._logind_problem = report.locked, report.error
        self._logind_heard = self._logind_heard or not report.error
        fresh = self._shutdown is not None and self._shutdown is not before
        self._tell((self._shutdown,) if fresh and self._shutdown is not None else ())
        if report.preparing and report.locked and (self._waiting is None or self._waiting.done()):
            until_s = time.monotonic() + report.delay_s - MARGIN_S
            self._waiting = self._loop.create_task(_guarded(self._let_go(sensor, until_s)))

    async def _let_go(self, sensor: LogindSensor, until_s: float) -> None:
        """Let the shutdown go on when no training is left, or when its time is over."""
        finder, began_s = Finder(), time.monotonic()
        left, pids, unseen = frozenset[int](), frozenset[int](), 0
        quiet: Mapping[int, int] = {}
        while time.monotonic() < until_s:
            pids, heard = await in_thread(lambda: _training(finder))
            unseen = heard.unseen if heard else 0
            listening = heard.pids if heard else None
            left, quiet = awaited(pids, listening, quiet, time.monotonic_ns())
            if not (left or unseen) or not sensor.holds:
                break
            await asyncio.sleep(min(TRAINERS_S, max(0.0, until_s - time.monotonic())))
        waited_s = time.monotonic() - began_s
        log.info("the shutdown goes on after %.1f s: %s", waited_s, _left_text(pids, left, unseen))
        sensor.release()
        self._locked = False
        self._tell(())

    # What is told.

    def _tell(self, fresh: tuple[Notice, ...]) -> None:
        shutdown = (self._shutdown,) if self._shutdown is not None else ()
        notices = by_urgency((*self._memory.notices, *shutdown))
        view = self._view()
        if (notices, view) != self._shown or fresh:
            self._shown = (notices, view)
            self._report(NoticesReading(notices, fresh, view))

    def _view(self) -> NoticesView:
        blind = dict(self._memory.blind)
        missed = [name for name in blind if name in self._memory.heard]
        if self._logind_problem:
            blind[LOGIND] = self._logind_problem
            missed += [LOGIND] if self._logind_heard else []
        return NoticesView(self._cloud, self._locked, blind, tuple(missed))


def _training(finder: Finder) -> tuple[frozenset[int], Listeners | None]:
    """Return the training processes, and which of them listen to the agent. Blocking."""
    reader = Reader(Path("/"))
    pids = frozenset(one.pid for one in finder.find(reader).processes)
    return pids, listeners(reader, pids)


def _left_text(there: frozenset[int], left: frozenset[int], unseen: int) -> str:
    pids = ", ".join(map(str, sorted(left or there)[:8]))
    if unseen:
        return f"{unseen} of those who listen to the agent are left"
    if left:
        return f"training is left (process {pids})"
    if there:
        return f"what is left of training does not listen to the agent (process {pids})"
    return "no training process is left"


async def _guarded(work: Coroutine[Any, Any, None]) -> None:
    """Run one source; its fault ends it alone, and is told."""
    try:
        await work
    except Exception as error:  # noqa: BLE001 -- the others go on
        log.error("notices: a source ended: %s: %s", type(error).__name__, error)


def _bus() -> str:
    """Return the path of the system bus, which the environment may name (D-Bus specification)."""
    first = os.environ.get("DBUS_SYSTEM_BUS_ADDRESS", "").split(";")[0]
    kind, _, rest = first.partition(":")
    keys = dict(part.partition("=")[::2] for part in rest.split(","))
    return keys.get("path", BUS) if kind == "unix" else BUS
