"""The agent itself: one event loop, in which readings become decisions become publications.

Sensors and legs report; :func:`linkhold.decide.node.step` decides; the publisher hands out.
Whatever may block (name lookups, disks, TLS, ethtool) happens in threads of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from linkhold import __version__, config
from linkhold.config.settings import Role
from linkhold.control import ControlServer
from linkhold.daemon import host
from linkhold.daemon.details import LinkDetails
from linkhold.daemon.log import log, log_event
from linkhold.daemon.publisher import Publisher
from linkhold.daemon.questions import Questions
from linkhold.decide.node import Context, Memory, step
from linkhold.decide.readings import AgentReading, LegReading, OutboxReading, Tick
from linkhold.decide.restore import restore
from linkhold.decide.watch import Watch
from linkhold.legs.fleet import FleetLeg
from linkhold.legs.local import LocalLeg
from linkhold.model import ConfigError, Unavailable, WireError
from linkhold.paths import CONTROL_SOCKET, STATE_FILE
from linkhold.sensors.rtnetlink import RtnetlinkSensor
from linkhold.store.keeper import Keeper
from linkhold.threads import in_thread
from linkhold.wire import load_json, node_prefix

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from linkhold.config.settings import Mode, Settings
    from linkhold.decide.readings import Reading
    from linkhold.store.outbox_file import OpenedStore

HEARTBEAT_S = 5.0
STORE_WAIT_S = 2.0
SENSOR_RETRY_S = 1.0
FLEET_STOP_S = 0.8
STORE_STOP_S = 0.4


@dataclass(frozen=True, slots=True)
class Start:
    """How an agent is started: what the command line says."""

    settings: Settings
    config_file: Path | None
    run_dir: Path
    state_dir: Path
    mode: Mode | None = None


class Agent:
    """One running agent. Everything here belongs to the loop's thread."""

    def __init__(self, start: Start) -> None:
        self._start = start
        settings = _with_mode(start.settings, start.mode)
        identity = host.identify(settings, config.node_name(settings))
        self._context = Context(settings, identity)
        self._prefix = node_prefix(identity.site, identity.node)
        self._memory = Memory()
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = asyncio.Event()
        self._reason = ""
        self._loop = asyncio.get_running_loop()
        self._sensor = RtnetlinkSensor(watch_of(settings))
        self._keeper = Keeper(
            start.state_dir, settings.outbox, self._report, fleet=bool(settings.mqtt.fleet)
        )
        self._questions = Questions(self._keeper, self._document)
        self._control = ControlServer(start.run_dir / CONTROL_SOCKET, self._questions.handlers())
        self._publisher = Publisher(
            identity,
            start.run_dir / STATE_FILE,
            self._keeper,
            self._control.tell,
            self._counters,
        )
        self._details = LinkDetails(self._sensor, self._take_network)
        self._previous: tuple[str, int] | None = None
        self._early: list[Reading] | None = []

    async def run(self) -> None:
        """Run until SIGTERM or SIGINT. Raises :class:`Unavailable` when no sensor works."""
        self._catch_signals()
        self._begin(await in_thread(lambda: self._keeper.start(STORE_WAIT_S)))
        await self._control.start()
        self._start_legs()
        log.info("ready: %s, state in %s", self._prefix, self._start.run_dir / STATE_FILE)
        beat = self._loop.create_task(self._beat())
        await self._stopping.wait()
        beat.cancel()
        await self._stop()

    # Starting.

    def _catch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self.stop, signal.Signals(number).name)
        self._loop.add_signal_handler(signal.SIGHUP, self._on_hangup)

    def _begin(self, opened: OpenedStore) -> None:
        """Compare with what was stored, take the first look, write the first state."""
        now = host.now()
        if opened.problem:
            log.warning("outbox: %s", opened.problem)
        stored = _stored_state(opened.baseline)
        self._memory = restore(self._context, stored, now)
        self._previous = opened.position
        if opened.position and opened.position[0] == self._context.identity.session:
            self._previous = None
        self._decide(AgentReading("started", self._started(opened, stored)))
        first = self._sensor.open()
        self._loop.add_reader(self._sensor.fileno(), self._on_netlink)
        self._take_network(first)
        early, self._early = self._early or [], None
        for reading in early:
            self._report_here(reading)

    def _started(self, opened: OpenedStore, stored: Mapping[str, Any] | None) -> dict[str, object]:
        identity = self._context.identity
        absent_s = None
        if stored and stored.get("boot_id") == identity.boot_id:
            with contextlib.suppress(KeyError, TypeError):
                absent_s = round((identity.started.mono_ns - stored["mono_ns"]) / 1e9, 1)
        return {
            "version": __version__,
            "mode": self._context.settings.mode.value,
            "previous_session": opened.position[0] if opened.position else None,
            "previous_seq": opened.position[1] if opened.position else None,
            "absent_s": absent_s,
        }

    def _start_legs(self) -> None:
        settings = self._context.settings
        if settings.mqtt.local:
            local = LocalLeg(self._start.run_dir, self._prefix, self._report_here)
            self._publisher.local = local
            local.start()
        else:
            self._decide(LegReading("a", "off", "mqtt.local is false"))
        self._start_fleet()
        self._publish_now()

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
        if isinstance(reading, LegReading) and reading.status == "unavailable":
            log.warning("leg %s: %s", reading.leg, reading.reason)
        self._decide(reading)

    def _take_network(self, reading: Reading) -> None:
        before = self._memory.state.host
        self._decide(reading)
        after = self._memory.state.host
        if after is not None and after is not before:
            self._details.look(after)
            if self._publisher.fleet is not None and _came_up(before, after):
                self._publisher.fleet.hurry()

    def _decide(self, reading: Reading) -> None:
        now = host.now()
        decision = step(self._context, self._memory, reading, now)
        self._memory = decision.memory
        if decision.changed or decision.events:
            self._publisher.publish(
                decision.memory.state, decision.events, now, self._memory.next_seq
            )
        self._arm(decision.wake_ns, now.mono_ns)
        for event in decision.events:
            log_event(event)

    def _arm(self, wake_ns: int | None, now_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ns is not None:
            delay_s = max(0.0, (wake_ns - now_ns) / 1e9)
            self._timer = self._loop.call_later(delay_s, self._decide, Tick())

    def _on_netlink(self) -> None:
        try:
            reading = self._sensor.read()
        except Unavailable as error:
            log.error("link sensor: %s; trying again in %g s", error, SENSOR_RETRY_S)
            self._loop.remove_reader(self._sensor.fileno())
            self._loop.call_later(SENSOR_RETRY_S, self._reopen_sensor, str(error))
            return
        if reading is not None:
            self._take_network(reading)

    def _reopen_sensor(self, why: str) -> None:
        try:
            reading = self._sensor.open()
        except Unavailable:
            self._loop.call_later(SENSOR_RETRY_S, self._reopen_sensor, why)
            return
        self._loop.add_reader(self._sensor.fileno(), self._on_netlink)
        self._take_network(replace(reading, resynced=why))

    # While running.

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            health = self._keeper.status()
            if not _same_health(health, self._memory.state.agent.outbox):
                self._decide(health)
            self._publisher.heartbeat(self._memory.state, host.now())

    def _publish_now(self) -> None:
        self._publisher.publish(self._memory.state, (), host.now(), self._memory.next_seq)

    def _document(self) -> bytes:
        return self._publisher.document(self._memory.state, host.now())

    def _counters(self) -> dict[str, int]:
        counters = {**self._sensor.counters, **self._control.counters}
        if self._publisher.local is not None:
            counters |= self._publisher.local.counters
        if self._publisher.fleet is not None:
            counters |= self._publisher.fleet.counters()
        counters["state_file_failures"] = self._publisher.file_failures
        return counters

    def _on_hangup(self) -> None:
        self._loop.create_task(self._reload())

    async def _reload(self) -> None:
        """Read the configuration again; a bad one changes nothing."""
        name = str(self._start.config_file or config.DEFAULT_PATH)
        try:
            loaded = await in_thread(lambda: config.load(self._start.config_file))
        except ConfigError as error:
            for mistake in error.mistakes:
                log.error("configuration: %s", mistake)
            data: dict[str, object] = {"file": name, "mistakes": list(error.mistakes[:20])}
            self._decide(AgentReading("config_rejected", data))
            return
        await self._use(_with_mode(loaded, self._start.mode))
        self._decide(AgentReading("config_reloaded", {"file": name}))

    async def _use(self, settings: Settings) -> None:
        before, self._context = self._context.settings, replace(self._context, settings=settings)
        if (settings.site, settings.node) != (before.site, before.node):
            log.warning("site and node stay as they are until the next start")
        if settings.outbox != before.outbox or settings.mqtt.fleet != before.mqtt.fleet:
            self._keeper.configure(settings.outbox, fleet=bool(settings.mqtt.fleet))
        if settings.mqtt != before.mqtt:
            await self._stop_fleet("the configuration changed")
            self._start_fleet()
        if settings.links != before.links:
            reading = self._sensor.set_watch(watch_of(settings))
            if reading is not None:
                self._take_network(reading)

    # Stopping.

    def stop(self, reason: str) -> None:
        """End soon, as if a signal had come."""
        self._reason = reason
        self._stopping.set()

    async def _stop(self) -> None:
        self._decide(AgentReading("stopping", {"reason": self._reason}))
        if self._timer is not None:
            self._timer.cancel()
        self._details.stop()
        await self._stop_fleet(self._reason)
        if self._publisher.local is not None:
            await self._publisher.local.stop()
        await self._control.stop()
        await in_thread(lambda: self._keeper.stop(STORE_STOP_S))
        self._sensor.close()

    async def _stop_fleet(self, reason: str) -> None:
        fleet, self._publisher.fleet = self._publisher.fleet, None
        if fleet is not None:
            await in_thread(lambda: fleet.stop(reason, FLEET_STOP_S))


def watch_of(settings: Settings) -> Watch:
    """Return which links the sensor watches besides those it watches by itself."""
    ignored = frozenset(n for n, entry in settings.links.items() if entry.role is Role.IGNORE)
    return Watch(forced=frozenset(settings.links) - ignored, ignored=ignored)


def _with_mode(settings: Settings, mode: Mode | None) -> Settings:
    return settings if mode is None else replace(settings, mode=mode)


def _stored_state(baseline: bytes | None) -> Mapping[str, Any] | None:
    try:
        document = load_json(baseline) if baseline else None
    except WireError:
        return None
    return document if isinstance(document, dict) else None


def _came_up(before: Any, after: Any) -> bool:
    return before is not None and any(
        link.carrier and not (index in before.links and before.links[index].carrier)
        for index, link in after.links.items()
    )


def _same_health(reading: OutboxReading, shown: str) -> bool:
    status = f"{reading.status}: {reading.reason}" if reading.reason else reading.status
    return status == shown
