"""Uplinks in the agent's loop: sockets, timers, and the thread that changes routes.

What becomes of our routes when the agent ends
----------------------------------------------
A crash leaves them: traffic goes on over the spare, and the next agent finds them by their mark
and goes on. A planned end removes them if the preferred uplink is known to be alive, else leaves
them too: an agent that is restarted during an outage must not bring the outage back. Nobody is
there to return then: ``linkhold restore`` does. An agent in mode enforce that has no uplinks
configured removes what it finds.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from linkhold.actuators import uplink_routes
from linkhold.config.settings import Mode
from linkhold.daemon.host import seed
from linkhold.daemon.log import log
from linkhold.deadlines import within
from linkhold.decide.readings import UplinksReading
from linkhold.decide.uplinks import Ask, Memory, Place, Placed, Pulse, Rules, Unsent, step
from linkhold.decide.uplinks.sight import own_routes, rules_of, sights
from linkhold.model import HostError, HostNetwork, Uplinks
from linkhold.sensors.uplink_probes import UplinkProbes, drops_answers
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from linkhold.actuators.uplink_routes import Front
    from linkhold.config.settings import Settings
    from linkhold.decide.readings import Reading
    from linkhold.decide.uplinks import Sights, Withdraw
    from linkhold.decide.uplinks.values import Reading as LineReading

LOOK_AGAIN_S = 10.0
"""How often reverse path filters and, while they are in place, our own routes are looked at."""
STOP_S = 1.0


class UplinkKeeper:
    """Looks after the uplinks of the configuration. Belongs to the loop's thread.

    ``report`` gets what the core should know, never from within a call of :meth:`see`, so that
    the core has taken in the network first.
    """

    def __init__(self, report: Callable[[Reading], None], machine_id: str) -> None:
        self._report = report
        self._seed = seed(machine_id)
        self._loop = asyncio.get_running_loop()
        self._rules = Rules()
        self._host = HostNetwork()
        self._memory = Memory()
        self._probes = UplinkProbes()
        self._read_from: dict[int, str] = {}
        self._generation = 0
        self._placed = ""
        self._shown: Sights | None = None
        self._kernel = asyncio.Lock()  # one at a time talks to the kernel
        self._timer: asyncio.TimerHandle | None = None
        self._again: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = False
        self._looked = False
        self._changes = 0

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        self._start(self._configure(settings))

    async def _configure(self, settings: Settings) -> None:
        before, self._rules = self._rules, rules_of(settings, self._seed)
        if self._rules == before and self._running:
            return
        if not self._rules.lines or (before.enforce and not self._rules.enforce):
            await self._leave(enforce=settings.mode is Mode.ENFORCE)
        if self._rules.lines:
            self._running = True
            await self._look()
        else:  # also what was stored with the state before
            self._report(UplinksReading(Uplinks()))

    async def _leave(self, *, enforce: bool) -> None:
        """Stop asking; remove our routes if that is right now."""
        was_running, self._running = self._running, False
        self._looked = False
        self._halt()
        preferred_lives = was_running and self._preferred_lives()
        if preferred_lives or (enforce and not self._rules.lines):
            await self._withdraw()
        self._memory, self._shown = Memory(), None

    def see(self, host: HostNetwork) -> None:
        """Take in the network as it is now."""
        before, self._host = self._host, host
        if not self._running:
            return
        table = uplink_routes.TABLE
        if own_routes(before, table) != own_routes(host, table):
            self._start(self._look())
        # Before the first look nobody knows whether an agent before us left routes over a spare.
        if self._looked:
            self._show()

    @property
    def counters(self) -> dict[str, int]:
        """Probes and changes of routes so far; empty where there are no uplinks."""
        if not self._rules.lines:
            return {}
        return {**self._probes.counters, "uplink_route_changes": self._changes}

    async def stop(self) -> None:
        """Ask no more; see the module's text for what becomes of our routes."""
        running, self._running = self._running, False
        self._halt()
        if running and self._placed and self._rules.enforce and self._preferred_lives():
            try:
                await within(self._withdraw(), STOP_S)
            except asyncio.TimeoutError:
                log.warning("uplinks: the kernel takes too long; routes over %s stay", self._placed)
        elif running and self._placed:
            log.warning("uplinks: default traffic stays on %s", self._placed)

    def _preferred_lives(self) -> bool:
        line = self._memory.lines.get(self._rules.order[0]) if self._rules.lines else None
        return line is not None and line.verdict == "alive" and line.misses == 0

    def _halt(self) -> None:
        for timer in (self._timer, self._again):
            if timer is not None:
                timer.cancel()
        for descriptor in self._read_from:
            self._loop.remove_reader(descriptor)
        self._read_from = {}
        self._probes.close_all()

    # The machine.

    def _show(self) -> None:
        """Show the machine the uplinks as they are."""
        strict = frozenset(link for link in self._rules.order if drops_answers(link))
        found = sights(self._rules, self._host, placed=self._placed, strict=strict)
        if found != self._shown:
            self._shown = found
            self._take(found)

    def _take(self, reading: LineReading) -> None:
        if not self._running:
            return
        done = step(self._rules, self._memory, reading, time.monotonic_ns())
        self._memory = done.memory
        if done.report is not None:
            self._loop.call_soon(self._report, done.report)
        self._arm(done.wake_ns)
        for action in done.actions:
            if isinstance(action, Ask):
                self._ask(action)
            else:
                self._start(self._perform(action))

    def _arm(self, wake_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = LOOK_AGAIN_S if wake_ns is None else (wake_ns - time.monotonic_ns()) / 1e9
        self._timer = self._loop.call_later(max(0.0, delay_s), self._wake)

    def _wake(self) -> None:
        for link in self._rules.order:  # an answer that waits is no miss
            self._hear(link)
        self._take(Pulse())

    # Probes.

    def _ask(self, ask: Ask) -> None:
        problem = self._probes.send(ask.link, ask.index, ask.targets, time.monotonic_ns())
        self._listen()
        if problem:
            self._loop.call_soon(self._take, Unsent(ask.link, problem))

    def _listen(self) -> None:
        if self._probes.generation == self._generation:
            return
        self._generation, wanted = self._probes.generation, self._probes.filenos()
        for descriptor in self._read_from:
            self._loop.remove_reader(descriptor)
        for descriptor, link in wanted.items():
            self._loop.add_reader(descriptor, self._hear, link)
        self._read_from = wanted

    def _hear(self, link: str) -> None:
        for answer in self._probes.read(link, time.monotonic_ns()):
            self._take(answer)

    # Routes.

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    async def _perform(self, action: Place | Withdraw) -> None:
        error = ""
        async with self._kernel:
            try:
                await in_thread(lambda: _do(action))
            except (HostError, OSError) as refused:
                error = str(refused)
            self._changes += 1
            self._shown = None  # what is in front changed without being shown
            self._placed = action.link if isinstance(action, Place) and not error else ""
        self._take(Placed(self._placed, error))
        if error:  # who knows what is there now
            await self._look()

    async def _withdraw(self) -> None:
        async with self._kernel:
            try:
                if await in_thread(uplink_routes.restore):
                    log.warning("uplinks: the host's own default routes stand again")
                self._placed = ""
            except (HostError, OSError) as error:
                log.error("uplinks: %s; `linkhold restore` tries again", error)

    async def _look(self) -> None:
        """Look what our routes do, and show it; again after a while."""
        front: Front | None = None
        async with self._kernel:
            try:
                front = await in_thread(uplink_routes.look)
            except (HostError, OSError) as error:
                log.warning("uplinks: %s", error)
            else:
                self._placed = self._name(front)
        self._looked = True
        if self._again is not None:
            self._again.cancel()
        if not self._running:
            return
        self._again = self._loop.call_later(LOOK_AGAIN_S, self._look_again)
        idle = not self._placed and not self._memory.moving
        if front is not None and front.remains and idle and self._rules.enforce:
            await self._withdraw()
        self._show()

    def _look_again(self) -> None:
        if self._placed:
            self._start(self._look())
            return
        self._again = self._loop.call_later(LOOK_AGAIN_S, self._look_again)
        self._show()

    def _name(self, front: Front) -> str:
        link = self._host.links.get(front.index)
        return link.name if link is not None else ""


def _do(action: Place | Withdraw) -> None:
    if isinstance(action, Place):
        uplink_routes.place(action.index)
    else:
        uplink_routes.restore()
