"""The keeper of uplinks when the kernel does not answer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkhold.actuators import uplink_routes
from linkhold.daemon.uplinks import UplinkKeeper
from linkhold.model import HostError

if TYPE_CHECKING:
    import pytest


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
