"""Power in the agent's loop: every source heard, judged, put together and told."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.config.power_contradictions import FEEDS, KERNEL
from linkhold.daemon.host import now
from linkhold.daemon.log import log
from linkhold.daemon.power_sources import KernelPlace, kernel_sensor, mqtt_sensors, upsds
from linkhold.decide.power import Memory, Rules, repeated, step
from linkhold.decide.power.feeds import of_feeds
from linkhold.decide.power.meaning import What
from linkhold.decide.power.recall import first_until_ns, recall
from linkhold.decide.power.reports import of_supplies, of_ups
from linkhold.decide.power.wanted import rules
from linkhold.decide.readings import PowerReading
from linkhold.model.power_sources import UpsReport
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from typing import Any

    from linkhold.config.settings import Settings
    from linkhold.daemon.power_sources import Upsd
    from linkhold.decide.power.values import Said
    from linkhold.decide.readings import Reading
    from linkhold.model import NodeState
    from linkhold.model.power_sources import PsuInput, Supply
    from linkhold.sensors.mqtt_power import MqttPowerSensor
    from linkhold.sensors.nut import NutSensor
    from linkhold.sensors.power_supply import PowerSupplySensor

FILES_S = 30.0
"""How often files of a source that cannot be read are looked at again."""


class PowerKeeper:
    """Follows the sources of power. Belongs to the loop's thread.

    ``kernel`` says where the kernel's supplies are.
    """

    def __init__(
        self,
        report: Callable[[Reading], None],
        kernel: KernelPlace = KernelPlace(),  # noqa: B008
    ) -> None:
        self._report = report
        self._kernel_place = kernel
        self._loop = asyncio.get_running_loop()
        self._settings: Settings | None = None
        self._memory = Memory()
        self._rules = Rules(())
        self._kernel_tells = False
        self._feeds_tell = False
        self._heard: dict[str, int] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sensors: list[NutSensor | PowerSupplySensor | MqttPowerSensor] = []
        self._listeners: list[MqttPowerSensor] = []

    def begin(self, state: NodeState) -> None:
        """Take in what the agent before this one knew in this boot: battery is not forgotten."""
        self._memory = recall(state, now())
        self._kernel_tells = any(one.source == KERNEL for one in state.power_view.sources)

    def configure(self, settings: Settings) -> None:
        """Use this configuration from now on."""
        before, self._settings = self._settings, settings
        if before is not None and before.policy.mains_back_s != settings.policy.mains_back_s:
            self._set_rules()
        if before is not None and _asked(before) == _asked(settings):
            return
        self.stop()
        self._kernel_tells = self._kernel_tells and settings.power.kernel
        self._feeds_tell = self._feeds_tell and settings.power.kernel
        self._set_rules()
        self._memory = replace(self._memory, first_until_ns=first_until_ns(now()))
        self._tasks = [self._loop.create_task(self._guarded(self._start(settings)))]

    @property
    def counters(self) -> dict[str, int]:
        """What the sensors count."""
        total: Counter[str] = Counter()
        for sensor in self._sensors:
            total.update(sensor.counters)
        return dict(total)

    @property
    def heard(self) -> Mapping[str, int]:
        """When each source last gave a sign of life, in CLOCK_MONOTONIC nanoseconds."""
        return self._heard

    def stop(self) -> None:
        """Hear nobody any more."""
        for task in self._tasks:
            task.cancel()
        for listener in self._listeners:
            listener.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._tasks, self._sensors, self._listeners, self._timer = [], [], [], None

    # Sources.

    async def _start(self, settings: Settings) -> None:
        """Start a sensor for each server, each broker and the kernel."""
        self._step(None)
        if settings.power.kernel:
            kernel = kernel_sensor(self._kernel_place)
            self._sensors.append(kernel)
            self._run(kernel.run(self._take_supplies, self._take_feeds))
        for upsd in upsds(settings.power):
            self._run(self._follow(upsd))
        for listener in mqtt_sensors(settings, self._loop, self._step):
            self._sensors.append(listener)
            self._listeners.append(listener)
            listener.start()

    async def _follow(self, upsd: Upsd) -> None:
        """Ask one upsd for ever; while its files cannot be read, say so and look again."""
        while True:
            try:
                sensor = await in_thread(upsd.sensor)
                break
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "no text"
                for ups in upsd.names:
                    self._take_ups(upsd, UpsReport(ups, error=f"password or TLS files: {why}"))
                await asyncio.sleep(FILES_S)
        self._sensors.append(sensor)
        await sensor.run(lambda report: self._take_ups(upsd, report))

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(self._loop.create_task(self._guarded(work)))

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run one source; its fault ends it alone, and is told."""
        try:
            await work
        except Exception as error:  # noqa: BLE001 -- the others go on
            log.error("power: a source ended: %s: %s", type(error).__name__, error)

    def _take_ups(self, upsd: Upsd, report: UpsReport) -> None:
        for name in upsd.names.get(report.ups, ()):
            self._step(of_ups(name, report))

    def _take_supplies(self, supplies: tuple[Supply, ...]) -> None:
        said = of_supplies(KERNEL, supplies)
        if not self._kernel_tells:
            # Most servers have no supply in /sys, or one that never says where power comes from.
            if said.meaning.what is What.UNKNOWN:
                return
            self._kernel_tells = True
            self._set_rules()
        self._step(said)

    def _take_feeds(self, inputs: tuple[PsuInput, ...]) -> None:
        said = of_feeds(FEEDS, inputs)
        if said is None:
            return
        if not self._feeds_tell:
            self._feeds_tell = True
            self._set_rules()
        self._step(said)

    # Decisions.

    def _set_rules(self) -> None:
        if self._settings is not None:
            policy = self._settings.policy
            self._rules = rules(
                self._settings.power,
                policy.mains_back_s,
                kernel=self._kernel_tells,
                feeds=self._feeds_tell,
            )

    def _step(self, said: Said | None) -> None:
        at = now()
        if said is not None:
            same = repeated(self._rules, self._memory, said, at)
            if same is not None:  # the timer stands: it finds that nothing is old yet
                self._memory, self._heard[said.source] = same, at.mono_ns
                return
        done = step(self._rules, self._memory, said, at)
        if said is not None and said.source in done.memory.sources:
            heard_ns = done.memory.sources[said.source].heard_ns
            if heard_ns is not None:
                self._heard[said.source] = heard_ns
        self._memory = done.memory
        if done.report:
            self._report(PowerReading(done.power, done.view, done.news))
        self._arm(done.wake_ns)

    def _arm(self, wake_ns: int | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if wake_ns is not None and self._tasks:
            delay_s = max(0.0, (wake_ns - time.monotonic_ns()) / 1e9)
            self._timer = self._loop.call_later(delay_s, self._step, None)


def _asked(settings: Settings) -> object:
    """Return what the sensors depend on."""
    of_fleet = any(one.broker is None for one in settings.power.mqtt)
    return settings.power, settings.mqtt.fleet if of_fleet else ()
