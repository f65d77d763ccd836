"""The cloud's metadata service, asked all day and rarely. Nothing is sent on no cloud machine."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.config.paths import MetadataProbe
from linkhold.daemon.host import seed
from linkhold.decide.metadata_watch import DOUBT_S, NOT_ASKED, Course, begin, step
from linkhold.decide.readings import MetadataReading
from linkhold.sensors.metadata import metadata
from linkhold.survey import cloud
from linkhold.survey.files import Reader
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.config.settings import Settings
    from linkhold.decide.readings import Reading
    from linkhold.model import NodeState, WayOut
    from linkhold.model.probes import Metadata


class MetadataKeeper:
    """Asks the metadata service. Belongs to the loop's thread.

    ``ways`` returns the node's ways out as they are now; while none carries nobody is asked, and
    what was known stays.
    """

    def __init__(
        self,
        report: Callable[[Reading], None],
        machine_id: str,
        ways: Callable[[], tuple[WayOut, ...]],
    ) -> None:
        self._report = report
        self._ways = ways
        self._seed = seed(machine_id)
        self._loop = asyncio.get_running_loop()
        self._settings: Settings | None = None
        self._course = Course()
        self._shown: Metadata = self._course.known
        self._task: asyncio.Task[None] | None = None
        self._asked = 0

    def begin(self, state: NodeState) -> None:
        """Go on from what the agent before this one knew, in the same boot."""
        self._course = Course(state.metadata)
        self._shown = state.metadata

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        before, self._settings = self._settings, settings
        if before is not None and before.paths == settings.paths:
            return
        self.stop()
        self._task = self._loop.create_task(self._run(settings))

    @property
    def counters(self) -> dict[str, int]:
        """Questions so far; empty where nothing was ever sent."""
        return {"metadata_probes": self._asked} if self._asked else {}

    def stop(self) -> None:
        """Ask no more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, settings: Settings) -> None:
        every_s = settings.paths.metadata_interval
        while True:
            vendor = (await in_thread(lambda: cloud.machine(Reader(Path("/")))))[0]
            self._prepare(settings, vendor)
            wait_s = every_s
            if self._course.known.verdict != NOT_ASKED:
                wait_s = await self._ask(settings)
            await asyncio.sleep(wait_s)

    def _prepare(self, settings: Settings, vendor: str) -> None:
        """Begin, or begin anew where the machine turns out to be another cloud's."""
        paths = settings.paths
        wanted = paths.metadata is MetadataProbe.ALWAYS
        watched = paths.watch and paths.metadata is not MetadataProbe.NEVER
        asked = watched and (wanted or bool(vendor))
        self._course = begin(
            self._course, vendor, wanted=wanted, asked=asked, now_ns=time.monotonic_ns()
        )
        self._tell()

    async def _ask(self, settings: Settings) -> float:
        """Ask once; return after how many seconds to ask again."""
        link = next((way.link for way in self._ways() if way.carries), "")
        if not link:
            return min(DOUBT_S, settings.paths.metadata_interval)
        self._asked += 1
        known = self._course.known
        answers = await metadata(
            known.vendor, asked=known.wanted, timeout_s=settings.paths.timeout, link=link
        )
        now_ns = time.monotonic_ns()
        done = step(self._course, answers, settings.paths.metadata_interval, self._seed, now_ns)
        self._course = done.course
        self._tell()
        return done.wait_s

    def _tell(self) -> None:
        if self._course.known != self._shown:
            self._shown = self._course.known
            self._report(MetadataReading(self._shown))
