"""Keepalive in the agent's loop: values are compared every few seconds, in a thread.

Namespaces of containers are visited by a short-lived helper process (linkhold.survey.inside): new
ones within a round, known ones every :data:`VISIT_AGAIN_S`, since each visit costs a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.actuators import namespaces, sysctls
from linkhold.config.settings import Mode
from linkhold.daemon.connections import Connections, Seen
from linkhold.daemon.log import log
from linkhold.decide.keepalive import view
from linkhold.decide.keepalive.sysctls import Memory, Rules, look, rules_of, written
from linkhold.decide.readings import KeepaliveReading
from linkhold.model import HostError, LinkholdError, Moment
from linkhold.model.keepalive import Keepalive
from linkhold.survey import cloud, sysctl_owners
from linkhold.survey.files import Reader
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.actuators.namespaces import Host
    from linkhold.config.settings import Settings
    from linkhold.decide.readings import Reading
    from linkhold.model.keepalive import Values

ROUND_S = 20.0
"""A round that takes longer is given up."""
VISIT_AGAIN_S = 60.0


class KeepaliveKeeper:
    """Keeps the sysctls of keepalive as the configuration wants them. Belongs to the loop."""

    def __init__(self, report: Callable[[Reading], None], state_dir: Path) -> None:
        self._report = report
        self._state_dir = state_dir
        self._connections = Connections(state_dir)
        self._loop = asyncio.get_running_loop()
        self._settings: Settings | None = None
        self._rules = Rules()
        self._cloud = ""
        self._memories: dict[int, Memory] = {}
        self._known: dict[int, Values] = {}
        self._visit_ns = 0
        self._shown = Keepalive()
        self._problem = ""
        self._task: asyncio.Task[None] | None = None
        self._repairs = 0

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on. What was fought over is tried again."""
        before, self._settings = self._settings, settings
        if before is not None and (before.keepalive, before.mode) == (
            settings.keepalive,
            settings.mode,
        ):
            return
        self.stop()
        self._memories, self._known, self._visit_ns = {}, {}, 0
        self._task = self._loop.create_task(self._run(settings))

    @property
    def counters(self) -> dict[str, int]:
        """Values written so far."""
        return {"keepalive_repairs": self._repairs}

    def stop(self) -> None:
        """Compare no more; the values stay."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, settings: Settings) -> None:
        self._cloud, _ = await in_thread(lambda: cloud.machine(Reader(Path("/"))))
        enforce = settings.mode is Mode.ENFORCE
        self._rules = rules_of(settings.keepalive, self._cloud, enforce=enforce)
        while True:
            await self._round_guarded(settings)
            await asyncio.sleep(settings.keepalive.check_every)

    async def _round_guarded(self, settings: Settings) -> None:
        problem = ""
        try:
            await asyncio.wait_for(self._round(settings), ROUND_S)
        except asyncio.TimeoutError:
            problem = "reading the values takes too long"
        except (LinkholdError, OSError) as error:
            problem = str(error)
        if problem and problem != self._problem:
            log.warning("keepalive: %s", problem)
            self._report(KeepaliveReading(replace(self._shown, error=problem)))
        self._problem = problem

    async def _round(self, settings: Settings) -> None:
        now_ns = time.monotonic_ns()
        again = now_ns >= self._visit_ns
        known = {} if again else self._known
        host = await in_thread(lambda: namespaces.look(settings.keepalive.namespaces, known))
        if again:
            self._visit_ns = now_ns + int(VISIT_AGAIN_S * 1e9)
        looks = [await self._look_at(values, host, now_ns) for values in host.values]
        self._known = {one.after.namespace: one.after for one in looks[1:]}
        present = {one.after.namespace for one in looks}
        self._memories = {ns: m for ns, m in self._memories.items() if ns in present}
        want = self._rules.idle.timers if self._rules.idle else None
        seen = await in_thread(lambda: self._connections.look(settings, want))
        self._tell(looks, host.unseen, seen)

    async def _look_at(self, values: Values, host: Host, now_ns: int) -> view.Look:
        memory = self._memories.get(values.namespace, Memory())
        decided = look(self._rules, memory, values.values, now_ns)
        after = values
        if decided.write and not values.error:
            after = await self._write(values, decided.write, host)
        memory = written(decided.memory, decided.write, after.error)
        self._memories[values.namespace] = memory
        failed = memory.error if memory.error != decided.memory.error else ""
        keys = [one.key for one in decided.differences if one.news or one.new_conflict]
        by = await in_thread(lambda: suspects(keys)) if keys else {}
        return view.Look(values, decided, after, by, failed)

    async def _write(self, before: Values, write: Mapping[str, int], host: Host) -> Values:
        self._repairs += len(write)
        try:
            put = namespaces.write_in(host.places)
            return await in_thread(lambda: sysctls.apply(before, write, put, self._state_dir))
        except HostError as error:
            return replace(before, error=str(error))

    def _tell(self, looks: list[view.Look], unseen: str, seen: Seen) -> None:
        now = Moment(time.monotonic_ns(), time.time())
        shown = view.view(self._rules, looks, self._shown, self._cloud, now)
        trouble = shown.error or (f"not all namespaces are seen: {unseen}" if unseen else "")
        shown = replace(
            shown,
            connections=seen.connections,
            covered=seen.covered,
            error=trouble or seen.problem,
        )
        happened = [*view.news(looks), *seen.news]
        if shown != self._shown or happened:
            self._shown = shown
            with contextlib.suppress(RuntimeError):
                self._report(KeepaliveReading(shown, tuple(happened)))


def suspects(keys: list[str]) -> dict[str, str]:
    """Return, per sysctl, what seems to set it here. Reads files: call it from a thread."""
    reader = Reader(Path("/"))
    return {key: "; ".join(sysctl_owners.owners(reader, key)[:3]) for key in keys}
