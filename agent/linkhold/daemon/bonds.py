"""Bonds in the agent's loop: what differs is judged, and repaired by a child process.

A repair is ``linkhold bond repair``, a transaction with a guard of its own: should the agent
die, the child dies with it, and the guard undoes what was half done.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from linkhold.actuators.journal import Journal
from linkhold.actuators.remake import keep_in_run
from linkhold.children import Child, ourselves
from linkhold.config.settings import Mode
from linkhold.daemon.journal_watch import DISK_S, JournalReader, JournalWatch, Orders
from linkhold.daemon.log import log
from linkhold.deadlines import within
from linkhold.decide.keeping import (
    Ended,
    Found,
    HostSeen,
    Inquire,
    JournalSeen,
    Memory,
    Pulse,
    Reloaded,
    Repair,
    Rules,
    recall,
    step,
)
from linkhold.decide.readings import BondKeepsReading
from linkhold.model import HostError, Unavailable
from linkhold.survey import suspects
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from linkhold.config.settings import Settings
    from linkhold.decide.keeping.values import Reading as KeepReading
    from linkhold.decide.readings import Reading
    from linkhold.model import HostNetwork, NodeState

READ_JOURNAL_S = 5.0
"""How often the journal is read while nothing differs: somebody may change a bond by hand."""
RUN_AGAIN_S = 60.0
"""How often the files in /run are tried again while members are missing or a disk is full."""
EXTRA_S = 120.0
"""A repair takes this long at most besides the time in which its guard would undo it."""
DEFAULT_GUARD_S = 60.0


class BondKeeper:
    """Keeps the bonds of the configuration. Belongs to the loop's thread.

    ``report`` gets what the core should know, never from within a call of :meth:`see`, so that
    the core has taken in the network first. ``test`` gets the bond that somebody tests by order,
    and until when (CLOCK_MONOTONIC in ns, 0 when that is over): also where no bonds are kept.
    """

    def __init__(
        self,
        report: Callable[[Reading], None],
        config_file: Path | None,
        test: Callable[[str, int], None],
    ) -> None:
        self._report = report
        self._config_file = config_file
        self._loop = asyncio.get_running_loop()
        self._rules = Rules()
        self._memory = Memory()
        self._host: HostNetwork | None = None
        self._before: HostNetwork | None = None
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._poll: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._disk = asyncio.Lock()  # what is read later is also taken in later
        self._journal = JournalReader()
        self._watch = JournalWatch()
        self._orders = Orders(report, test)
        self._child: Child | None = None
        self._repairs = 0

    def begin(self, state: NodeState) -> None:
        """Take in what the agent before this one left, if it is of this boot.

        By comparison with its network a NIC that left a bond is known from one set down.
        """
        self._before = state.host
        self._memory = recall(state.keeps, time.monotonic_ns())

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        had_bonds = bool(self._rules.bonds)
        before, self._before = self._before, None  # worth something at the start only
        self._rules = Rules(settings.bonds, enforce=settings.mode is Mode.ENFORCE)
        if not settings.bonds:
            self._forget()
        elif had_bonds:
            self._take(Reloaded())
        else:
            if before is not None:
                self._take(HostSeen(before))
            self._see_now()
            self._watch.hurry()
        if self._poll is None:
            self._poll = self._loop.create_task(self._read_again_and_again())

    def _forget(self) -> None:
        told, self._memory = self._memory.told, Memory()
        self._cancel(self._soon, self._timer)
        self._soon = self._timer = None
        if told:
            self._report(BondKeepsReading())

    def see(self, host: HostNetwork) -> None:
        """Take in the network as it is now."""
        self._host = host
        if self._rules.bonds and self._soon is None:
            self._soon = self._loop.call_soon(self._see_now)

    def _see_now(self) -> None:
        self._soon = None
        if self._host is not None:
            self._take(HostSeen(self._host))

    @property
    def counters(self) -> dict[str, int]:
        """Repairs so far; empty where no bonds are configured."""
        return {"bond_repairs": self._repairs} if self._rules.bonds else {}

    def stop(self) -> None:
        """Keep them no more. A repair that is under way is undone by its guard."""
        self._cancel(self._soon, self._timer, self._poll)
        self._orders.stop()
        self._watch.close()
        for task in self._tasks:
            task.cancel()
        if self._child is not None and not self._child.ended:
            log.warning("a repair is under way; its guard undoes it")
            self._child.kill()

    def _cancel(self, *waiting: asyncio.Handle | asyncio.Task[None] | None) -> None:
        for one in waiting:
            if one is not None:
                one.cancel()

    # The machine.

    def _take(self, reading: KeepReading) -> None:
        if not self._rules.bonds:
            return
        done = step(self._rules, self._memory, reading, time.monotonic_ns())
        self._memory = done.memory
        if done.report is not None:
            self._report(done.report)
        for action in done.actions:
            if isinstance(action, Inquire):
                self._start(self._inquire(action))
            else:
                self._repair(action)
        self._arm(done.wake_ns)

    def _arm(self, wake_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ns is not None:
            delay_s = max(0.0, (wake_ns - time.monotonic_ns()) / 1e9)
            self._timer = self._loop.call_later(delay_s, self._take, Pulse())

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    # The journal, and who did it.

    async def _read_again_and_again(self) -> None:
        run = RunFiles()
        while True:
            async with self._disk:
                seen = await self._read_journal()
                kept = bool(self._rules.bonds)
                if kept:
                    self._take(seen)
            if kept and self._rules.enforce and self._host is not None:
                await run.keep(self._host)
            await self._watch.wait(READ_JOURNAL_S if kept else None)

    async def _inquire(self, action: Inquire) -> None:
        found = Found(JournalSeen())
        try:
            owners, restarts = await within(
                in_thread(lambda: suspects.look(action.interfaces)), DISK_S
            )
            found = Found(JournalSeen(), owners, restarts)
        except (asyncio.TimeoutError, OSError) as error:
            log.warning("who configures the bonds' interfaces is unknown: %s", error)
        async with self._disk:
            self._take(Found(await self._read_journal(), found.owners, found.restarts))

    async def _read_journal(self) -> JournalSeen:
        with contextlib.suppress(asyncio.TimeoutError):
            seen = await within(in_thread(self._journal.read), DISK_S)
            self._orders.see(seen)
            return seen
        return JournalSeen(problem="the disk with the journal of changes does not answer")

    # Repairs.

    def _repair(self, action: Repair) -> None:
        self._repairs += 1
        words = [word for nic in action.spare for word in ("--spare", nic)]
        if self._config_file is not None:
            words += ["--config", str(self._config_file)]
        code = ourselves("linkhold.cli")
        argv = [*code, "bond", "repair", action.bond, "--yes", "--json", *words]
        log.info("repairing %s", action.bond)
        try:
            child = Child(argv, lambda code: self._ended(action.bond, code))
        except Unavailable as error:
            self._start(self._tell_end(action.bond, str(error)))
            return
        self._child = child
        settings = self._rules.bonds[action.bond]
        limit_s = max(settings.guard_s, DEFAULT_GUARD_S) + settings.confirm_after_s + EXTRA_S
        self._loop.call_later(limit_s, child.kill)

    def _ended(self, bond: str, code: int) -> None:
        lines = list(self._child.last_lines) if self._child is not None else []
        said = next((line for line in reversed(lines) if line.strip()), f"exit code {code}")
        self._start(self._tell_end(bond, said.removeprefix("linkhold: ") if code else ""))

    async def _tell_end(self, bond: str, error: str) -> None:
        async with self._disk:
            self._take(Ended(bond, await self._read_journal(), error))


class RunFiles:
    """Sees to it, once after a boot, that a restart of networkd leaves the bonds alone."""

    def __init__(self) -> None:
        self._done = False
        self._ports: dict[str, list[str]] = {}
        self._next_s = 0.0
        self._error = ""

    async def keep(self, host: HostNetwork) -> None:
        """Try it, unless that is done: when members come or go, else once in a minute."""
        if self._done:
            return
        bonds = [link for link in host.links.values() if link.bond is not None]
        ports = {bond.name: [port.name for port in host.ports_of(bond.index)] for bond in bonds}
        if ports == self._ports and time.monotonic() < self._next_s:
            return
        self._ports, self._next_s = ports, time.monotonic() + RUN_AGAIN_S
        error = ""
        try:
            work = in_thread(lambda: keep_in_run(Journal(), ports))
            self._done = await within(work, DISK_S)
        except (asyncio.TimeoutError, HostError, OSError, KeyError) as problem:
            error = str(problem) or "the disk does not answer"
        if error and error != self._error:
            log.warning("a restart of networkd may take bonds down for a moment: %s", error)
        self._error = error
