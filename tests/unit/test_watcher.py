"""The link sensor in the loop: it may fail, and must be opened again."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from linkhold.daemon import watcher
from linkhold.daemon.watcher import NetworkWatcher
from linkhold.decide.readings import NetworkReading, SensorReading
from linkhold.model import Unavailable
from support.world import single

if TYPE_CHECKING:
    import pytest

    from linkhold.decide.readings import Reading


class FailingSensor:
    """A sensor on a pipe that closes itself when it fails, as the real one does."""

    def __init__(self, failures_to_open: int) -> None:
        self.failures_to_open = failures_to_open
        self.opened = 0
        self.ends: tuple[int, int] | None = None

    def open(self) -> NetworkReading:
        """Open, or fail as often as asked after the first time."""
        self.opened += 1
        if 1 < self.opened <= 1 + self.failures_to_open:
            raise Unavailable(f"failure {self.opened}")
        self.ends = os.pipe()
        return NetworkReading(single())

    def fileno(self) -> int:
        """Return the readable end, -1 when closed."""
        return self.ends[0] if self.ends else -1

    def read(self) -> NetworkReading | None:
        """Fail, and be closed."""
        self.close()
        raise Unavailable("the kernel does not answer")

    def close(self) -> None:
        """Close both ends."""
        for end in self.ends or ():
            os.close(end)
        self.ends = None

    def event(self) -> None:
        """Make the descriptor readable."""
        assert self.ends is not None
        os.write(self.ends[1], b"x")


def test_sensor_that_fails_is_said_and_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blind is told with its reason until the sensor sees again, however often opening fails."""
    monkeypatch.setattr(watcher, "RETRY_S", 0.01)
    taken: list[Reading] = []
    sensor: Any = FailingSensor(failures_to_open=2)

    async def scene() -> None:
        seen = asyncio.Event()

        def take(reading: Reading) -> None:
            taken.append(reading)
            if isinstance(reading, NetworkReading):
                seen.set()

        watched = NetworkWatcher(sensor, take)
        watched.start()
        for _ in range(2):  # the second time on a descriptor whose number was used before
            seen.clear()
            sensor.event()
            await seen.wait()
        watched.stop()

    asyncio.run(asyncio.wait_for(scene(), 10))

    assert taken[-3] == SensorReading("blind", "the kernel does not answer")
    assert taken[-2] == SensorReading("ok")
    last = taken[-1]
    assert isinstance(last, NetworkReading)
    assert last.resynced == "the kernel does not answer"
    assert sensor.ends is None
