"""What rtnetlink does not say of links, asked for in a thread as the question may wait for RTNL."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkhold.sensors import ethtool
from linkhold.threads import in_thread

if TYPE_CHECKING:
    from collections.abc import Callable

    from linkhold.decide.readings import NetworkReading, Reading
    from linkhold.model import HostNetwork, Link
    from linkhold.sensors.rtnetlink import RtnetlinkSensor

PAUSE_S = 1.0
"""At most one round of questions a second, however fast links flap."""


class LinkDetails:
    """Fills in what rtnetlink does not say, once for each new link and each link up."""

    def __init__(self, sensor: RtnetlinkSensor, take: Callable[[Reading], None]) -> None:
        self._sensor = sensor
        self._take = take
        self._known: dict[int, tuple[str, bool]] = {}
        self._waiting: dict[int, Link] = {}
        self._task: asyncio.Task[None] | None = None

    def look(self, network: HostNetwork) -> None:
        """Note which links need a question; costs little when none does."""
        for index, link in network.links.items():
            mark = (link.name, link.carrier)
            if self._known.get(index) != mark:
                self._known[index] = mark
                self._waiting[index] = link
        for index in self._known.keys() - network.links.keys():
            del self._known[index]
        if self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def _work(self) -> None:
        while self._waiting:
            links, self._waiting = self._waiting, {}
            answers = await in_thread(lambda asked=links: _ask(asked))  # type: ignore[misc]
            reading: NetworkReading | None = None
            for index, (driver, speed_mbps, vf) in answers.items():
                reading = self._sensor.set_details(index, driver, speed_mbps, vf=vf) or reading
            if reading is not None:
                self._take(reading)
            await asyncio.sleep(PAUSE_S)

    def stop(self) -> None:
        """Ask nothing more."""
        if self._task is not None:
            self._task.cancel()


def _ask(links: dict[int, Link]) -> dict[int, tuple[str, int | None, bool]]:
    return {
        index: (
            ethtool.driver_and_bus(link.name)[0],
            ethtool.speed_mbps(link.name),
            ethtool.is_vf(link.name),
        )
        for index, link in links.items()
    }
