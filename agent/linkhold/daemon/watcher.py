"""The link sensor in the agent's loop: read when something waits, opened again when it fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from linkhold.decide.readings import NetworkReading, SensorReading
from linkhold.model import Unavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.readings import Reading
    from linkhold.decide.watch import Watch
    from linkhold.sensors.rtnetlink import RtnetlinkSensor

RETRY_S = 1.0


class NetworkWatcher:
    """Hands what the sensor reads to ``take``, and says when it is blind and sees again."""

    def __init__(self, sensor: RtnetlinkSensor, take: Callable[[Reading], None]) -> None:
        self._sensor = sensor
        self._take = take
        self._registered = -1
        self._retry: asyncio.TimerHandle | None = None

    def start(self) -> NetworkReading:
        """Take the first look; raises :class:`Unavailable` where rtnetlink does not work."""
        first = self._sensor.open()
        self._register()
        return first

    def _register(self) -> None:
        self._registered = self._sensor.fileno()
        asyncio.get_running_loop().add_reader(self._registered, self._readable)

    def _readable(self) -> None:
        try:
            reading = self._sensor.read()
        except Unavailable as error:
            # The sensor has closed its descriptor: it is known here only.
            asyncio.get_running_loop().remove_reader(self._registered)
            self._blind(str(error))
            return
        if reading is not None:
            self._take(reading)

    def _blind(self, reason: str) -> None:
        self._take(SensorReading("blind", reason))
        self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._reopen, reason)

    def _reopen(self, reason: str) -> None:
        try:
            reading = self._sensor.open()
        except Unavailable as error:
            self._blind(str(error))
            return
        self._register()
        self._take(SensorReading("ok"))
        self._take(replace(reading, resynced=reason))

    def set_watch(self, watch: Watch) -> None:
        """Look at other interfaces from now on."""
        reading = self._sensor.set_watch(watch)
        if reading is not None:
            self._take(reading)

    def stop(self) -> None:
        """Look no more."""
        if self._retry is not None:
            self._retry.cancel()
        self._sensor.close()
