"""Power in the agent's loop: the kernel's supplies and their events, files, reloads, restarts."""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from linkhold.config import Settings
from linkhold.config.power import PowerSettings, SensorSettings, UpsSettings
from linkhold.daemon.power import PowerKeeper
from linkhold.daemon.power_sources import KernelPlace, upsds
from linkhold.decide.power.recall import recall
from linkhold.decide.power.wanted import matches, said
from linkhold.decide.readings import PowerReading
from linkhold.model import NodeState, PowerState
from linkhold.model.power_sources import SensorMessage
from linkhold.wire.stored import parse_node_state
from support.power_place import BATTERY, SECOND, UPS, Place, one
from support.supplies import Poke, write
from support.world import World, single

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path


class Kept:
    """A keeper and what it reported."""

    def __init__(self, root: Path) -> None:
        self.poke = Poke()
        self.told: list[PowerReading] = []
        place = KernelPlace(root, self.poke)  # type: ignore[arg-type]
        self.keeper = PowerKeeper(self._take, place)
        self.keeper.begin(NodeState())

    def _take(self, reading: Any) -> None:
        self.told.append(reading)

    def poked(self) -> None:
        """Let an event of the kernel come."""
        os.write(self.poke.outer, b"!")

    async def until(self, check: Callable[[PowerReading], object]) -> PowerReading:
        """Return the newest reading when it passes, within 5 s."""
        end = time.monotonic() + 5
        while not self.told or not check(self.told[-1]):
            assert time.monotonic() < end, self.told
            await asyncio.sleep(0.005)
        return self.told[-1]


def play(root: Path, scene: Callable[[Kept], Awaitable[None]]) -> None:
    """Run ``scene`` with a keeper of the supplies in ``root``."""

    async def run() -> None:
        kept = Kept(root)
        try:
            await scene(kept)
        finally:
            kept.keeper.stop()
            await asyncio.sleep(0)

    asyncio.run(run())


def test_a_feed_that_goes_is_told_with_its_event(tmp_path: Path) -> None:
    """Two feeds: one lost is degraded, both lost with a battery is an outage, at once."""
    write(tmp_path, "AC0", type="Mains", online="1")
    write(tmp_path, "AC1", type="Mains", online="1")
    write(tmp_path, "BAT0", type="Battery", status="Full", capacity="100")

    async def scene(kept: Kept) -> None:
        kept.keeper.configure(Settings())
        await kept.until(lambda r: r.power.state is PowerState.OK)
        write(tmp_path, "AC1", online="0")
        kept.poked()
        told = await kept.until(lambda r: r.view.degraded)
        assert told.view.degraded == ("kernel: feed lost: AC1",)
        assert told.power.state is PowerState.OK
        write(tmp_path, "AC0", online="0")
        write(tmp_path, "BAT0", status="Discharging")
        kept.poked()
        told = await kept.until(lambda r: r.power.state is PowerState.BATTERY)
        assert [news.type for news in told.news][:1] == ["power.mains_lost"]
        assert kept.keeper.counters["supply_events"] == 2
        assert time.monotonic_ns() - kept.keeper.heard["kernel"] < SECOND

    play(tmp_path, scene)


def test_a_kernel_that_knows_no_supply_is_no_source(tmp_path: Path) -> None:
    """Most servers: nothing is shown and nothing unknown is told; a supply that comes is heard."""
    write(tmp_path, "hid-mouse", type="Battery", scope="Device", status="Discharging")

    async def scene(kept: Kept) -> None:
        kept.keeper.configure(Settings())
        await asyncio.sleep(0.1)
        assert all(not reading.view.sources for reading in kept.told)
        write(tmp_path, "AC", type="Mains", online="1")
        kept.poked()
        await kept.until(lambda r: r.power.state is PowerState.OK)

    play(tmp_path, scene)


def test_a_password_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    """The UPS is unknown and says why; the agent goes on, and a reload without it forgets it."""
    ups = UpsSettings("a", ups="u", user="x", password_file=str(tmp_path / "none"))

    async def scene(kept: Kept) -> None:
        kept.keeper.configure(Settings(power=PowerSettings(kernel=False, nut=(ups,))))
        told = await kept.until(lambda r: r.view.sources and "files" in r.view.sources[0].detail)
        assert "password or TLS files: No such file" in told.view.sources[0].detail
        kept.keeper.configure(Settings(power=PowerSettings(kernel=False)))
        await kept.until(lambda r: not r.view.sources)

    play(tmp_path, scene)


def test_one_connection_serves_all_upses_of_a_server() -> None:
    """UPSes that are asked in the same way share a sensor; another user is another connection."""
    a, b = UpsSettings("a", ups="u1"), UpsSettings("b", ups="u2")
    c = UpsSettings("c", ups="u1", user="x", password_file="/p")
    found = [upsd.names for upsd in upsds(PowerSettings(nut=(a, b, c)))]

    assert found == [{"u1": ("a",), "u2": ("b",)}, {"u1": ("c",)}]


def restarted(place: Place) -> Place:
    """Return the power of an agent that begins with the stored state of the one before."""
    world = World()
    world.now_ns = place.now_ns
    world.look(single())
    outcome = place.take(None)
    world.take(PowerReading(outcome.power, outcome.view))
    state = parse_node_state(world.document())
    return Place(place.rules, recall(state, place.now), place.now_ns)


def test_a_restart_goes_on_with_the_outage() -> None:
    """Battery, deadline and the event that was told outlive the agent; OL ends it as ever."""
    place = one()
    place.ups("OL")
    place.ups("OB DISCHRG", runtime_s=600.0, charge=80.0)
    after = restarted(place)

    after.now_ns += 8 * SECOND
    assert after.take(None).power.state is BATTERY
    assert after.take(None).view.deadline is not None
    assert after.sleep(60) is BATTERY
    after.ups("OL")
    for _ in range(12):
        after.sleep(3)
        after.ups("OL")
    assert after.news == ["restored"]


def test_a_restart_believes_no_good_news_of_before() -> None:
    """What was fine is not known to be fine: it is waited for, then unknown; no event at first."""
    place = one()
    place.ups("OL")
    after = restarted(place)
    first = after.take(None)

    assert first.report is False
    assert first.power.state is PowerState.UNKNOWN
    after.sleep(5)
    assert after.news == []
    after.sleep(6)
    assert after.news == ["unknown"]


def test_a_fault_that_was_told_is_not_told_again() -> None:
    """RB before the restart and after it is one event."""
    place = one()
    place.ups("OL RB")
    after = restarted(place)
    after.ups("OL RB")

    assert after.news == []


LEVELS = st.lists(st.sampled_from(["a", "b", "", "$SYS"]), min_size=1, max_size=4)


@given(LEVELS, st.sets(st.integers(0, 3)), st.integers(0, 5))
def test_filters_cover_what_they_cover(levels: list[str], plus: set[int], cut: int) -> None:
    """A topic is covered by itself, with any level as +, and from any level on as #."""
    topic = "/".join(levels)
    shown = ["+" if n in plus else level for n, level in enumerate(levels)]
    if cut < len(levels):
        shown = [*shown[:cut], "#"]
    hidden = levels[0] == "$SYS" and shown[0] in {"+", "#"}

    assert matches("/".join(shown), topic) is not hidden
    assert not matches("/".join([*levels, "c"]), topic)
    assert not matches(topic + "x", topic)


@given(st.binary(max_size=60), st.sampled_from(["m", "w", "cmnd/m", "#"]), st.booleans())
def test_any_message_is_judged(payload: bytes, topic: str, retained: bool) -> None:  # noqa: FBT001
    """Whatever is published on whichever topic is a meaning, never an error."""
    sensor = SensorSettings("s", ("#",), status_topic="w", pattern="x(y)?", invert=True)
    found = said(sensor, SensorMessage(topic, payload, retained))

    assert found.source == "s"
    assert found.retained is retained
    assert UPS.name != found.source
