"""Keepalive in the agent's loop: values are compared every few seconds, in a thread.

Namespaces of containers are visited by a short-lived helper process (linkhold.survey.inside): new
ones within a round, known ones every :data:`VISIT_AGAIN_S`, since each visit costs a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from linkhold.actuators import namespaces, sysctls
from linkhold.config.settings import Mode
from linkhold.daemon.connections import Connections, Seen
from linkhold.daemon.log import log
from linkhold.deadlines import within
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
    from linkhold.actuators.sysctls import Change
    from linkhold.config.settings import Settings
    from linkhold.decide.keepalive.sysctls import Decided
    from linkhold.decide.readings import Reading
    from linkhold.model.keepalive import Timers, Values

T = TypeVar("T")
ROUND_S = 20.0
"""A round that takes longer is given up."""
LOOK_S = 10.0
"""The same for a look at training: /proc/PID may not answer while a process hangs in the kernel."""
VISIT_AGAIN_S = 60.0
AGAIN_S = 0.05


class Turn:
    """One call in a thread at a time, whatever became of those who waited for earlier ones.

    A call that never comes back then costs one thread, not one each round. Belongs to the loop.
    """

    def __init__(self) -> None:
        self._busy = threading.Lock()

    async def take(self, call: Callable[[], T]) -> T:
        """Wait for the earlier call to end, then run ``call`` and return or raise what it does."""
        # A thread releases it, long after a waiter was cancelled: no event of the loop fits.
        while not self._busy.acquire(blocking=False):  # noqa: ASYNC110
            await asyncio.sleep(AGAIN_S)

        def alone() -> T:
            try:
                return call()
            finally:
                self._busy.release()

        return await in_thread(alone)


class KeepaliveKeeper:
    """Keeps the sysctls of keepalive as the configuration wants them. Belongs to the loop."""

    def __init__(self, report: Callable[[Reading], None], state_dir: Path) -> None:
        self._report = report
        self._state_dir = state_dir
        self._connections = Connections(state_dir)
        self._loop = asyncio.get_running_loop()
        self._rules = Rules()
        self._cloud = ""
        self._memories: dict[int, Memory] = {}
        self._known: dict[int, Values] = {}
        self._visit_ns = 0
        self._shown = Keepalive()
        self._problem = self._trouble = ""
        self._reading, self._looking = Turn(), Turn()
        self._task: asyncio.Task[None] | None = None
        self._repairs = 0

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on, also an equal one: a conflict ends with a reload."""
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
            await within(self._round(settings), ROUND_S)
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
        scope = settings.keepalive.namespaces
        host = await self._reading.take(lambda: namespaces.look(scope, known))
        if again:
            self._visit_ns = now_ns + int(VISIT_AGAIN_S * 1e9)
            await in_thread(lambda: self._forget(host))
        looks = await self._looks(host, now_ns)
        self._known = {one.after.namespace: one.after for one in looks[1:]}
        present = {looks[0].after.namespace, *host.places}
        self._memories = {ns: m for ns, m in self._memories.items() if ns in present}
        want = self._rules.idle.timers if self._rules.idle else None
        self._tell(looks, host.unseen, await self._connected(settings, want))

    def _forget(self, host: Host) -> None:
        """Forget on disk what was found in namespaces that have ended."""
        if host.there is not None:
            with contextlib.suppress(HostError):  # a damaged record is said where it matters
                sysctls.Record.load(self._state_dir).keep(host.there)

    async def _connected(self, settings: Settings, want: Timers | None) -> Seen:
        try:
            call = self._looking.take(lambda: self._connections.look(settings, want))
            return await within(call, LOOK_S)
        except asyncio.TimeoutError:
            problem = "a look at the processes that train takes too long"
            return Seen(self._shown.connections, self._shown.covered, problem)

    async def _looks(self, host: Host, now_ns: int) -> list[view.Look]:
        """Decide for every namespace, write what is wanted, and return what became of it."""
        decided = {
            one.namespace: look(
                self._rules, self._memories.get(one.namespace, Memory()), one.values, now_ns
            )
            for one in host.values
        }
        keys = {key for one in decided.values() for key in _new_keys(one)}
        by = await in_thread(lambda: suspects(sorted(keys))) if keys else {}
        changes = [
            (one, decided[one.namespace].write)
            for one in host.values
            if decided[one.namespace].write and not one.error
        ]
        after = {one.namespace: one for one in host.values}
        after |= {one.namespace: one for one in await self._write(changes, host)}
        return [
            self._looked(one, decided[one.namespace], after[one.namespace], by)
            for one in host.values
        ]

    def _looked(
        self, before: Values, decided: Decided, after: Values, by: Mapping[str, str]
    ) -> view.Look:
        memory = written(decided.memory, decided.write, after.error)
        self._memories[before.namespace] = memory
        failed = memory.error if memory.error != decided.memory.error else ""
        mine = {key: by[key] for key in _new_keys(decided)}
        return view.Look(before, decided, after, mine, failed)

    async def _write(self, changes: list[Change], host: Host) -> list[Values]:
        if not changes:
            return []
        self._repairs += sum(len(write) for _, write in changes)
        try:
            put = namespaces.write_in(host.places)
            return await in_thread(lambda: sysctls.apply(changes, put, self._state_dir))
        except HostError as error:
            return [replace(before, error=str(error)) for before, _ in changes]

    def _tell(self, looks: list[view.Look], unseen: str, seen: Seen) -> None:
        now = Moment(time.monotonic_ns(), time.time())
        shown = view.view(self._rules, looks, self._shown, self._cloud, now)
        unseen = f"not all namespaces are seen: {unseen}" if unseen else ""
        trouble = "; ".join(filter(None, (shown.error, unseen, seen.problem)))
        if trouble and trouble != self._trouble:
            log.warning("keepalive: %s", trouble)
        self._trouble = trouble
        shown = replace(shown, connections=seen.connections, covered=seen.covered, error=trouble)
        happened = [*view.news(looks), *seen.news]
        if shown != self._shown or happened:
            self._shown = shown
            with contextlib.suppress(RuntimeError):
                self._report(KeepaliveReading(shown, tuple(happened)))


def _new_keys(decided: Decided) -> list[str]:
    return [one.key for one in decided.differences if one.news or one.new_conflict]


def suspects(keys: list[str]) -> dict[str, str]:
    """Return, per sysctl, what seems to set it here. Reads files: call it from a thread."""
    reader = Reader(Path("/"))
    return {key: "; ".join(sysctl_owners.owners(reader, key)[:3]) for key in keys}
