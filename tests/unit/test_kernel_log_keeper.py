"""The kernel's log in the agent: records become incidents, events and alerts, once each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from linkhold.daemon import kernel_log
from linkhold.daemon.kernel_log import KernelLogKeeper
from linkhold.decide.readings import KernelLogNews
from linkhold.model.kernel_log import KernelLogReading, Position, Record
from linkhold.store.log_position import LogPosition
from linkhold.wire.incidents import kernel_log_document, parse_kernel_log
from support.world import World, single

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from linkhold.decide.readings import Reading
    from linkhold.model import NodeState

HANG = "NETDEV WATCHDOG: eth1 (e1000e): transmit queue 0 timed out"
MORE = "e1000e 0000:00:19.0 eth1: Reset adapter unexpectedly"


def reading(*texts: str, first: int = 1, lost: int = 0) -> KernelLogReading:
    """Return a turn with these lines."""
    records = tuple(Record(first + n, 1000 * n, 4, 0, text) for n, text in enumerate(texts))
    return KernelLogReading(records, Position("boot", first + len(texts) - 1), lost)


def fed(tmp_path: Path, world: World, *turns: KernelLogReading) -> list[Reading]:
    """Feed turns to a keeper that begins with the world's state; return what it reports."""
    told: list[Reading] = []

    async def run() -> None:
        keeper = KernelLogKeeper(told.append, tmp_path)
        keeper.begin(world.state, new_boot=False)
        keeper.see(single())
        for turn in turns:
            keeper._take(turn)
        keeper.stop()

    asyncio.run(run())
    return told


def test_lines_of_one_fault_are_one_incident_and_one_alert(tmp_path: Path) -> None:
    """A transmit timeout opens it, what follows joins it; the state and an alert show it."""
    world = World()
    world.look(single())
    told = fed(tmp_path, world, reading(HANG), reading(MORE, first=2))
    events = [event for one in told for event in world.take(one)]
    world.sleep(10)

    assert [event.type for event in events if event.type.startswith("nic.")] == ["nic.incident"]
    alerts = [alert for alert in world.state.alerts if alert.type == "nic.incident"]
    assert [alert.subject for alert in alerts] == ["eth1"]
    assert "e1000e" in alerts[0].text


def test_a_restart_opens_no_incident_again(tmp_path: Path) -> None:
    """Lines that are read again after a crash join the incident that was stored."""
    world = World()
    world.look(single())
    for one in fed(tmp_path, world, reading(HANG)):
        world.take(one)
    again = fed(tmp_path, world, reading(HANG))

    assert all(isinstance(one, KernelLogNews) and not one.news for one in again)


def test_what_was_told_is_read_no_more(tmp_path: Path) -> None:
    """The place in the log is stored with the events: also what began and ended is told once."""
    world = World()
    world.look(single())
    told = fed(tmp_path, world, reading(HANG, "e1000e 0000:00:19.0 eth1: NIC Link is Up", first=7))
    events = [event.type for one in told for event in world.take(one)]

    assert [one for one in events if one.startswith("nic.")]
    assert parse_kernel_log(kernel_log_document(world.state.kernel_log)).position == (
        Position("boot", 8)
    )


def test_reading_goes_on_where_it_came_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newer of file and stored state counts; with neither a new boot is read from its start."""
    monkeypatch.setattr(kernel_log, "boot_id", lambda: "boot")
    world = World()
    world.look(single())

    async def begins(state: NodeState, *, new_boot: bool = False) -> Position | None:
        keeper = KernelLogKeeper(lambda _: None, tmp_path)
        keeper.begin(state, new_boot=new_boot)
        return keeper._begin_at()

    assert asyncio.run(begins(world.state)) is None
    assert asyncio.run(begins(world.state, new_boot=True)) == Position("")
    for one in fed(tmp_path / "other", world, reading(HANG, first=5)):
        world.take(one)
    assert asyncio.run(begins(world.state)) == Position("boot", 5)
    LogPosition(tmp_path / kernel_log.POSITION).save(Position("boot", 9))
    assert asyncio.run(begins(world.state)) == Position("boot", 9)
    LogPosition(tmp_path / kernel_log.POSITION).save(Position("before", 99))
    assert asyncio.run(begins(world.state)) == Position("boot", 5)


def test_incidents_survive_their_journey_as_json(tmp_path: Path) -> None:
    """What is stored is what was seen."""
    world = World()
    world.look(single())
    for one in fed(tmp_path, world, reading(HANG), reading(MORE, first=2)):
        world.take(one)
    found = world.state.kernel_log

    assert found.incidents
    assert parse_kernel_log(kernel_log_document(found)) == found
    assert parse_kernel_log(None).incidents == ()


def test_records_that_were_overwritten_are_shown(tmp_path: Path) -> None:
    """Whoever looks for a cause must know that lines are missing."""
    world = World()
    told = fed(tmp_path, world, reading(lost=7))

    assert isinstance(told[0], KernelLogNews)
    assert told[0].kernel_log.lost == 7


def test_the_log_is_the_cause_of_what_netlink_tells(tmp_path: Path) -> None:
    """A link that went down with a fault of its NIC is one alert, which says why."""
    world = World()
    world.look(single())
    for one in fed(tmp_path, world, reading(HANG)):
        world.take(one)
    world.look(single(up=False))
    world.sleep(10)

    assert world.alerts == ["network.down"]
    assert "the kernel's log says: eth1 (e1000e)" in world.state.alerts[0].text
