"""The agent itself: one event loop, in which readings become decisions become publications.

Sensors and legs report; :func:`linkhold.decide.node.step` decides; the publisher hands out.
Whatever may block (name lookups, disks, TLS, ethtool) happens in threads of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold import __version__, config
from linkhold.control import ControlServer
from linkhold.daemon import host
from linkhold.daemon.details import LinkDetails
from linkhold.daemon.far_diagnosis import FarDiagnosis, Place
from linkhold.daemon.job_numbers import ToldNumbers
from linkhold.daemon.keepers import Folders, Keepers
from linkhold.daemon.log import dropped_lines, log, log_event, log_surprise
from linkhold.daemon.notify import Service
from linkhold.daemon.operator_holds import OperatorHolds
from linkhold.daemon.publisher import Publisher
from linkhold.daemon.questions import Questions
from linkhold.daemon.start import heal_run_dir, started_data, stored_state, with_mode
from linkhold.daemon.watcher import NetworkWatcher
from linkhold.decide.links import came_up
from linkhold.decide.node import Context, Decision, Memory, step
from linkhold.decide.readings import AgentReading, LegReading, NetworkReading, Tick, health_text
from linkhold.decide.restore import restore
from linkhold.decide.watch import watch_of
from linkhold.legs.fleet import FleetLeg
from linkhold.legs.local import LocalLeg
from linkhold.model import ConfigError
from linkhold.paths import CONTROL_SOCKET, STATE_FILE
from linkhold.sensors.rtnetlink import RtnetlinkSensor
from linkhold.store.keeper import Keeper
from linkhold.threads import in_thread
from linkhold.wire import birth_document, dumps, node_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.config.settings import Settings
    from linkhold.daemon.start import Start
    from linkhold.decide.readings import Reading
    from linkhold.model import Event
    from linkhold.store.outbox_file import OpenedStore

HEARTBEAT_S = 5.0
STORE_WAIT_S = 2.0
FLEET_STOP_S = 0.8
STORE_STOP_S = 0.4


class Agent:
    """One running agent. Everything here belongs to the loop's thread."""

    def __init__(self, start: Start) -> None:
        self._start = start
        settings = with_mode(start.settings, start.mode)
        identity = host.identify(settings, config.node_name(settings))
        self._context = Context(settings, identity)
        self._prefix = node_prefix(identity.site, identity.node)
        self._memory = Memory()
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = asyncio.Event()
        self._reason = ""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(log_surprise)
        self._service = Service(self._loop)
        self._reloading = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        self._sensor = RtnetlinkSensor(watch_of(settings))
        self._keeper = Keeper(
            start.state_dir, settings.outbox, self._report, fleet=bool(settings.mqtt.fleet)
        )
        self._questions = Questions(self._keeper, self._document, lambda: self._context)
        place = Place(self._prefix, start.config_file, start.run_dir)
        self._far_diagnosis = FarDiagnosis(place, lambda: self._publisher.fleet)
        holds = OperatorHolds(self._report_here, lambda: self._memory.state.holds)
        told = ToldNumbers()
        parts = (self._questions, self._far_diagnosis, holds, told)
        handlers = {name: handle for part in parts for name, handle in part.handlers().items()}
        self._control = ControlServer(start.run_dir / CONTROL_SOCKET, handlers)
        self._publisher = Publisher(
            identity,
            start.run_dir / STATE_FILE,
            self._keeper,
            self._control.tell,
            self._counters,
            lambda: self._keepers.heard,
            told.sums,
        )
        self._watcher = NetworkWatcher(self._sensor, self._take_network)
        self._details = LinkDetails(self._sensor, self._take_network)
        self._keepers = Keepers(
            self._report_here,
            identity.machine_id,
            start.config_file,
            Folders(start.run_dir, start.state_dir),
            lambda: self._memory.state.ways,
        )
        self._previous: tuple[str, int] | None = None
        self._early: list[Reading] | None = []
        self._has_terminal = os.isatty(0)

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises :class:`Unavailable` when no sensor works."""
        self._catch_signals()
        self._begin(await in_thread(lambda: self._keeper.start(STORE_WAIT_S)))
        await self._control.start()
        self._start_local()
        self._start_fleet()
        self._publish(())
        self._loop.add_signal_handler(signal.SIGHUP, self._on_hangup)
        where = self._publisher.file_problem or f"state in {self._start.run_dir / STATE_FILE}"
        log.info("ready: %s, %s", self._prefix, where)
        self._service.ready(self._memory.state)
        beat = self._loop.create_task(self._beat())
        await self._stopping.wait()
        beat.cancel()
        await self._stop()

    # Starting.

    def _catch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
        self._loop.add_signal_handler(signal.SIGHUP, lambda: None)  # until there is a start

    def _begin(self, opened: OpenedStore) -> None:
        """Compare with what was stored, take the first look, write the first state."""
        now = host.now()
        if opened.problem:
            log.warning("outbox: %s", opened.problem)
        stored = stored_state(opened.baseline)
        self._memory = restore(self._context, stored, now)
        self._previous = opened.position
        new_boot = opened.position is not None and not self._memory.restored
        self._keepers.begin(self._memory.state, new_boot=new_boot)
        self._sensor.remember(self._memory.state.host)
        first = self._watcher.start()  # before the stored state is shown as if it were of now
        data = started_data(self._context, opened.position, stored)
        # Published together: whoever sees a state sees what the first look found.
        begun, seen = self._step(AgentReading("started", data)), self._step(first)
        self._publish((*begun.events, *seen.events))
        self._arm(seen.wake_ns)
        self._details.look(first.network)
        self._keepers.see(first.network)
        self._keepers.configure(self._context.settings)
        early, self._early = self._early or [], None
        for reading in early:
            self._report_here(reading)

    def _start_local(self) -> None:
        if not self._context.settings.mqtt.local:
            self._decide(LegReading("a", "off", "mqtt.local is false"))
            return
        self._publisher.local = LocalLeg(
            self._start.run_dir,
            self._prefix,
            self._report_here,
            birth=self._birth,
            by_unit=self._start.broker_by_unit,
        )
        self._publisher.local.start()

    def _birth(self) -> bytes:
        identity, next_seq = self._context.identity, self._memory.next_seq
        return dumps(birth_document(identity, __version__, self._previous, next_seq, ""))

    def _start_fleet(self) -> None:
        settings = self._context.settings
        if not settings.mqtt.fleet:
            self._decide(LegReading("b", "off", "no mqtt.fleet configured"))
            return
        self._publisher.fleet = FleetLeg(
            self._context.identity,
            __version__,
            settings.mqtt,
            self._keeper,
            self._report,
            diagnose=self._far_diagnosis.heard,
            previous=self._previous,
        )
        self._publisher.fleet.start()

    # Readings in, decisions out.

    def _report(self, reading: Reading) -> None:
        """Take a reading from another thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._report_here, reading)

    def _report_here(self, reading: Reading) -> None:
        if self._early is not None:  # before the first look there is no memory to decide with
            self._early.append(reading)
            return
        self._decide(reading)

    def _take_network(self, reading: Reading) -> None:
        if isinstance(reading, NetworkReading):
            self._keepers.see(reading.network)
        before = self._memory.state.host
        self._decide(reading)
        after = self._memory.state.host
        if after is not None and after is not before:
            self._details.look(after)
            if self._publisher.fleet is not None and came_up(before, after):
                self._publisher.fleet.hurry()

    def _decide(self, reading: Reading) -> None:
        decision = self._step(reading)
        if decision.changed or decision.events:
            self._publish(decision.events)
        self._arm(decision.wake_ns)

    def _step(self, reading: Reading) -> Decision:
        decision = step(self._context, self._memory, reading, host.now())
        self._memory = decision.memory
        return decision

    def _publish(self, events: Sequence[Event]) -> None:
        self._publisher.publish(self._memory.state, events, host.now(), self._memory.next_seq)
        for event in events:
            log_event(event)

    def _arm(self, wake_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ns is not None:
            delay_s = max(0.0, (wake_ns - time.monotonic_ns()) / 1e9)
            self._timer = self._loop.call_later(delay_s, self._decide, Tick())

    # While running.

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self._pulse()
            except Exception as error:  # noqa: BLE001 - without a pulse trainers take us for dead
                log.error("heartbeat: %s: %s", type(error).__name__, error)

    async def _pulse(self) -> None:
        health = self._keeper.status()
        if health_text(health.status, health.reason) != self._memory.state.agent.outbox:
            self._decide(health)
        await heal_run_dir(self._start.run_dir, self._control)
        metrics = self._context.settings.metrics
        self._publisher.heartbeat(self._memory.state, host.now(), metrics)
        self._service.show(self._memory.state)

    def _document(self) -> bytes:
        return self._publisher.document(self._memory.state, host.now())

    def _counters(self) -> dict[str, int]:
        return {
            **self._sensor.counters,
            **self._control.counters,
            **self._keeper.counters(),
            **self._keepers.counters,
            **self._far_diagnosis.counters,
            **self._publisher.counters,
            "log_lines_dropped": dropped_lines(),
        }

    def _on_hangup(self) -> None:
        """Read the configuration again; or end, if it was our terminal that hung up."""
        if self._has_terminal and not os.isatty(0):
            self.stop("the terminal was closed")
            return
        task = self._loop.create_task(self._reload())
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)

    async def _reload(self) -> None:
        """Read the configuration again; a bad one changes nothing."""
        async with self._reloading:
            self._service.reloading()
            try:
                await self._load_and_use()
            finally:
                self._service.reloaded()

    async def _load_and_use(self) -> None:
        name = str(self._start.config_file or config.DEFAULT_PATH)
        try:
            loaded = await in_thread(lambda: config.load(self._start.config_file))
        except ConfigError as error:
            for mistake in error.mistakes:
                log.error("configuration: %s", mistake)
            data: dict[str, object] = {"file": name, "mistakes": list(error.mistakes[:20])}
            self._decide(AgentReading("config_rejected", data))
            return
        await self._use(with_mode(loaded, self._start.mode))
        self._decide(AgentReading("config_reloaded", {"file": name}))

    async def _use(self, settings: Settings) -> None:
        before, self._context = self._context.settings, replace(self._context, settings=settings)
        if (settings.site, settings.node) != (before.site, before.node):
            log.warning("site and node stay as they are until the next start")
        if settings.outbox != before.outbox or settings.mqtt.fleet != before.mqtt.fleet:
            self._keeper.configure(settings.outbox, fleet=bool(settings.mqtt.fleet))
        if replace(settings.mqtt, local=before.mqtt.local) != before.mqtt:
            await self._stop_fleet("the configuration changed")
            self._start_fleet()
        if settings.mqtt.local != before.mqtt.local:
            await self._stop_local()
            self._start_local()
        if watch_of(settings) != watch_of(before):
            self._watcher.set_watch(watch_of(settings))
        self._keepers.configure(settings)

    # Stopping.

    def stop(self, reason: str) -> None:
        """End soon, as if a signal had come."""
        self._reason = reason
        self._stopping.set()

    async def _stop(self) -> None:
        self._service.stopping()
        self._decide(AgentReading("stopping", {"reason": self._reason}))
        if self._timer is not None:
            self._timer.cancel()
        self._details.stop()
        await self._keepers.stop()
        await self._stop_fleet(self._reason)
        await self._stop_local()
        await self._control.stop()
        await in_thread(lambda: self._keeper.stop(STORE_STOP_S))
        self._watcher.stop()

    async def _stop_fleet(self, reason: str) -> None:
        fleet, self._publisher.fleet = self._publisher.fleet, None
        if fleet is not None:
            await in_thread(lambda: fleet.stop(reason, FLEET_STOP_S))

    async def _stop_local(self) -> None:
        local, self._publisher.local = self._publisher.local, None
        if local is not None:
            await local.stop()
