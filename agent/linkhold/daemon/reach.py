"""What lies beyond the node, asked all day unless ``paths.watch`` says otherwise."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from linkhold.daemon.host import seed
from linkhold.decide.reach import Memory, Rules, interrupted, recall, step
from linkhold.decide.reach_aims import aims, rules
from linkhold.decide.readings import ReachReading
from linkhold.sensors.reach import Ears, Names, resolvers
from linkhold.sensors.reach.ask import ask
from linkhold.survey.files import Reader
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.config.settings import Settings
    from linkhold.decide.reach_values import Aim, Heed
    from linkhold.decide.readings import Reading
    from linkhold.model import HostNetwork, NodeState, WayOut

RESOLVERS_S = 60.0
"""How often resolv.conf is read again."""


class ReachKeeper:
    """Asks gateways, resolvers and targets. Belongs to the loop's thread.

    ``ways`` returns the node's ways out as they are now.
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
        self._rules = Rules()
        self._memory = Memory()
        self._route: bool | None = None
        self._seen: tuple[tuple[WayOut, ...], bool | None] | None = None
        self._looks = False
        self._names = Names(Reader(Path("/")))
        self._ears = Ears(in_thread)
        self._resolvers: tuple[str, ...] = ()
        self._read: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._shown = ReachReading()
        self._asked = 0

    def begin(self, state: NodeState) -> None:
        """Go on from what the agent before this one knew, in the same boot."""
        self._memory = recall(state.probes, state.reach)
        self._shown = ReachReading(state.reach, state.probes)

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        before, self._settings = self._settings, settings
        if before is not None and before.paths == settings.paths:
            self._step()
            return
        self.stop()
        self._rules = rules(settings.paths, self._seed)
        if settings.paths.watch:
            self._read = self._loop.create_task(self._read_resolvers())
        else:
            self._memory = Memory()
            self._tell(ReachReading())

    def see(self, host: HostNetwork) -> None:
        """Take in the network as it is now, once the core has judged its ways out."""
        self._route = bool(host.routes)
        if self._read is not None and not self._looks:
            self._looks = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        """Step if something changed that probes care for; most news of links are none of it."""
        self._looks = False
        if self._seen != (self._ways(), self._route):
            self._step()

    @property
    def counters(self) -> dict[str, int]:
        """Probes so far; empty where nothing is watched."""
        return {"path_probes": self._asked} if self._read is not None else {}

    def stop(self) -> None:
        """Ask no more."""
        for task in (self._read, *self._tasks):
            if task is not None:
                task.cancel()
        ears, self._ears = self._ears, Ears(in_thread)
        ears.close()
        if self._timer is not None:
            self._timer.cancel()
        self._read = self._timer = None
        self._memory = interrupted(self._memory)

    async def _read_resolvers(self) -> None:
        while True:
            reader = Reader(Path("/"))
            self._resolvers = await in_thread(partial(resolvers, reader, implied=False))
            self._step()
            await asyncio.sleep(RESOLVERS_S)

    def _step(self, *heard: Heed) -> None:
        if self._read is None or self._settings is None:
            return
        ways = self._ways()
        self._seen = (ways, self._route)
        elsewhere = {uplink.link for uplink in self._settings.uplinks}
        wanted = aims(self._settings.paths, ways, self._resolvers, elsewhere)
        now_ns = time.monotonic_ns()
        done = step(self._rules, self._memory, wanted, heard, now_ns, default_route=self._route)
        self._memory = done.memory
        for aim in done.ask:
            self._start(aim)
        self._tell(ReachReading(done.causes, done.probed))
        self._arm(done.due_ns, now_ns)

    def _tell(self, reading: ReachReading) -> None:
        if reading != self._shown:
            self._shown = reading
            self._report(reading)

    def _start(self, aim: Aim) -> None:
        self._asked += 1
        task = self._loop.create_task(self._ask(aim))
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, aim: Aim) -> None:
        self._step(await ask(aim, self._rules.timeout_s, self._names, self._ears))

    def _arm(self, due_ns: int | None, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due_ns is not None:
            delay_s = max(0.0, (due_ns - now_ns) / 1e9)
            self._timer = self._loop.call_later(delay_s, self._step)
