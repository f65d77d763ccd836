"""The keeper of uplinks when the kernel does not answer."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

from linkhold.actuators import uplink_routes
from linkhold.actuators.uplink_routes import Front
from linkhold.config.settings import Settings, UplinkSettings
from linkhold.daemon.uplinks import UplinkKeeper
from linkhold.model import HostError, HostNetwork

if TYPE_CHECKING:
    import pytest

    from linkhold.decide.readings import Reading


def test_look_that_fails_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an answer from rtnetlink nothing is withdrawn, and another look is planned."""

    def refuse() -> None:
        raise HostError("rtnetlink does not answer")

    monkeypatch.setattr(uplink_routes, "look", refuse)

    async def look() -> bool:
        keeper = UplinkKeeper(lambda _: None, "machine")
        keeper._running = True
        await keeper._look()
        planned = keeper._again is not None
        await keeper.stop()
        return planned

    assert asyncio.run(look())


def test_nothing_is_said_before_the_first_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """News of a link before it may not tell that traffic goes where an agent before led it away."""
    looked = threading.Event()

    def look() -> Front:
        looked.wait(10)
        return Front()

    monkeypatch.setattr(uplink_routes, "look", look)

    async def begin() -> bool:
        told: asyncio.Queue[Reading] = asyncio.Queue()
        keeper = UplinkKeeper(told.put_nowait, "machine")
        keeper.configure(Settings(uplinks=(UplinkSettings("bond0"), UplinkSettings("usb0"))))
        await asyncio.sleep(0)
        keeper.see(HostNetwork())
        await asyncio.sleep(0.05)
        silent = told.empty()
        looked.set()
        await told.get()
        await keeper.stop()
        return silent

    assert asyncio.run(begin())
