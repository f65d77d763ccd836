"""Path probes in the agent's loop: sockets, counters, timer and the thread that moves members."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from linkhold.actuators.reflex import Reflex
from linkhold.config.settings import Mode
from linkhold.daemon.host import seed
from linkhold.daemon.log import log
from linkhold.decide.probing import Memory, Moved, Ordered, Pulse, Rules, SendProbe, Sights, step
from linkhold.decide.probing.machine import BUSY_TICK_NS
from linkhold.decide.probing.sight import sights
from linkhold.decide.readings import BondPathsReading
from linkhold.sensors.path_probes import PathProbes
from linkhold.sensors.port_counters import PortCounters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from linkhold.config.settings import Settings
    from linkhold.decide.probing import Activate, Counters
    from linkhold.decide.probing.values import BondSight
    from linkhold.decide.probing.values import Reading as ProbeReading
    from linkhold.decide.readings import Reading
    from linkhold.model import HostNetwork

NEVER = Sights(())
_PROMISCUOUS = "it has no filter for the MAC of a standby's probes, so it is promiscuous meanwhile"
_UNHEARD = (
    "it has no filter for the MAC of a standby's probes and is not made promiscuous in mode "
    "observe: where it hears no answers its path stays unknown"
)
ANEW_S = 1.0
SURELY_TRAFFIC = 4
"""Frames in a tick that cannot all be answers to probes."""


class Prober:
    """Probes the bonds of the configuration. Everything here belongs to the loop's thread.

    ``report`` gets what the core should know, never from within a call of :meth:`see`, so that
    the core has taken in the network first. ``counters``: see PathProbes, and moves.
    """

    def __init__(self, report: Callable[[Reading], None], machine_id: str) -> None:
        self._report = report
        self._seed = seed(machine_id)
        self._loop = asyncio.get_running_loop()
        self._rules = Rules(enforce=False, seed=self._seed)
        self._settings: Settings | None = None
        self._host: HostNetwork | None = None
        self._memory = Memory()
        self._sights = self._seen = NEVER
        self._probes: PathProbes | None = None
        self._ports: dict[str, PortCounters] = {}
        self._reflex = Reflex()
        self._timer: asyncio.TimerHandle | None = None
        self._due_ns: int | None = None
        self._wake_ns: int | None = None
        self._latest: Mapping[str, Counters] = {}
        self._held: tuple[Pulse, int] | None = None
        self._moves = self._failures = 0

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        self._settings = settings
        enforce = settings.mode is Mode.ENFORCE
        if enforce != self._rules.enforce:
            self._sights = NEVER  # other sockets, and a reflex that is ready
        self._rules = Rules(enforce=enforce, seed=self._seed)
        if self._host is not None:
            self.see(self._host)

    def see(self, host: HostNetwork) -> None:
        """Take in the network as it is now; called first of all, for the reflex' sake."""
        self._host = host
        if self._settings is None:
            return
        found = sights(self._settings, host) if self._settings.bonds else NEVER
        if found == self._sights:
            return
        self._sights = found
        self._seen = self._watch(found)
        self._take(self._seen)

    def _watch(self, found: Sights) -> Sights:
        """Open and close sockets; return what is seen, without targets where there are none."""
        if self._probes is None:
            if not found.bonds:
                return found
            self._probes = PathProbes()
            self._loop.add_reader(self._probes.fileno(), self._hear)
        if self._rules.enforce and found.bonds:
            self._reflex.start()
        gentle = not self._rules.enforce
        known = set(self._probes.promiscuous)
        self._probes.watch(found, gentle=gentle)
        for name in sorted(self._probes.promiscuous - known):
            log.warning("%s: %s", name, _UNHEARD if gentle else _PROMISCUOUS)
        problems = self._probes.problems
        for name, problem in problems.items():
            log.warning("%s: %s", name, problem)
        return Sights(tuple(_without_targets(bond, problems) for bond in found.bonds))

    def test(self, bond: str, until_ns: int) -> None:
        """Leave the moves of ``linkhold bond test`` alone until then; 0 when it is over."""
        if self._settings is not None:
            self._take(Ordered(bond, until_ns))

    @property
    def counters(self) -> dict[str, int]:
        """Probes and moves so far; empty where nothing was ever probed."""
        if self._probes is None:
            return {}
        own = {"bond_moves": self._moves, "probing_failures": self._failures}
        return {**self._probes.counters, **own}

    def stop(self) -> None:
        """Probe no more."""
        self._settings = None
        if self._timer is not None:
            self._timer.cancel()
        self._reflex.stop()
        for port in self._ports.values():
            port.close()
        if self._probes is not None:
            self._loop.remove_reader(self._probes.fileno())
            self._probes.close()

    # The machine.

    def _take(self, reading: ProbeReading) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._step(*held)
        self._step(reading, time.monotonic_ns())

    def _step(self, reading: ProbeReading, now_ns: int) -> None:
        try:
            done = step(self._rules, self._memory, reading, now_ns)
        except Exception as error:  # noqa: BLE001 - bonds must not be unwatched for good
            log.error("probing begins anew: %s: %s", type(error).__name__, error)
            self._begin_anew()
            return
        self._memory = done.memory
        for action in done.actions:
            if isinstance(action, SendProbe):
                if self._probes is not None:
                    self._probes.send(action)
            else:
                self._activate(action)
        for report in done.reports:
            self._loop.call_soon(self._report, report)
        self._wake_ns = done.wake_ns
        self._arm(_earlier(done.wake_ns, done.look_ns))

    def _begin_anew(self) -> None:
        """Forget everything, say so, and look again in a while."""
        self._failures += 1
        self._memory = Memory()
        self._loop.call_soon(self._report, BondPathsReading())
        self._arm(None)
        self._loop.call_later(ANEW_S, self._look_again)

    def _look_again(self) -> None:
        if self._settings is not None:
            self._take(self._seen)

    def _activate(self, action: Activate) -> None:
        log.info("%s: makes %s active (%s)", action.bond, action.member, action.reason)
        self._moves += 1
        tell = partial(self._moved, action.bond, action.member)
        self._reflex.activate(action.bond_index, action.member_index, tell)

    def _moved(self, bond: str, member: str, error: str) -> None:
        """Take the kernel's answer, in the thread of the reflex."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take_moved, Moved(bond, member, error))

    def _take_moved(self, moved: Moved) -> None:
        if self._settings is not None:
            self._take(moved)

    def _hear(self) -> None:
        if self._probes is not None:
            for answer in self._probes.read():
                self._take(answer)

    def _arm(self, wake_ns: int | None) -> None:
        if wake_ns == self._due_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_ns = wake_ns
        if wake_ns is not None and self._settings is not None:
            delay_s = max(0.0, (wake_ns - time.monotonic_ns()) / 1e9)
            self._timer = self._loop.call_later(delay_s, self._wake)

    def _wake(self) -> None:
        self._timer = self._due_ns = None
        if self._settings is None:
            return
        pulse, now_ns = Pulse(self._count()), time.monotonic_ns()
        if self._flows(pulse) and (self._wake_ns is None or now_ns < self._wake_ns):
            # Traffic is life: there is nothing to decide, only to remember.
            self._held = (pulse, now_ns)
            self._arm(_earlier(self._wake_ns, now_ns + BUSY_TICK_NS))
            return
        self._take(pulse)

    def _flows(self, pulse: Pulse) -> bool:
        """Tell whether every bond has received more than answers since the last pulse."""
        latest = self._held[0].counters if self._held else self._latest
        self._latest = pulse.counters
        return bool(pulse.counters) and all(
            name in latest
            and latest[name].member == now.member
            and now.received - latest[name].received >= SURELY_TRAFFIC
            for name, now in pulse.counters.items()
        )

    def _count(self) -> dict[str, Counters]:
        counted = {}
        for bond in self._sights.bonds:
            active = bond.member(bond.active)
            if active is None:
                continue
            try:
                counted[bond.name] = self._port(bond.name, active.name, active.index).read()
            except (OSError, ValueError):  # going away, or no sysfs: slow probes must do
                self._forget(bond.name)
        for name in self._ports.keys() - {bond.name for bond in self._sights.bonds}:
            self._forget(name)
        return counted

    def _port(self, bond: str, member: str, index: int) -> PortCounters:
        port = self._ports.get(bond)
        if port is None or (port.name, port.index) != (member, index):
            self._forget(bond)
            port = self._ports[bond] = PortCounters(member, index)
        return port

    def _forget(self, bond: str) -> None:
        port = self._ports.pop(bond, None)
        if port is not None:
            port.close()


def _earlier(one_ns: int | None, other_ns: int | None) -> int | None:
    return min((at for at in (one_ns, other_ns) if at is not None), default=None)


def _without_targets(bond: BondSight, problems: dict[str, str]) -> BondSight:
    problem = problems.get(bond.name)
    return bond if problem is None else replace(bond, targets=(), problem=problem)
