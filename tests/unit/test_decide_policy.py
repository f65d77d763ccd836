"""The policy table, row by row, with its timers and its precedence."""

from __future__ import annotations

import pytest

from linkhold.config.settings import PolicySettings, Settings
from linkhold.decide.readings import PowerReading
from linkhold.model import Moment, Power, PowerState, Training, Uploads
from linkhold.model.power_view import Deadline, PowerView
from support.world import World, bonded, single, types


@pytest.fixture
def world() -> World:
    """Return a node that is well."""
    world = World()
    world.look(single())
    return world


def test_network_degraded_changes_nothing_for_training() -> None:
    """Degraded: uploads go, training goes."""
    world = World()
    world.look(bonded(second=False))
    world.sleep(100)

    assert world.advice.uploads is Uploads.GO
    assert world.advice.training is Training.GO


def test_flapping_holds_uploads_until_a_quiet_minute(world: World) -> None:
    """Three downs in ten minutes hold uploads until 60 s passed without one."""
    for losses in (1, 2, 3):
        world.look(single(up=False, losses=losses), after_s=20)
        world.look(single(losses=losses), after_s=1)
    world.sleep(58)

    assert world.advice.uploads is Uploads.HOLD
    assert "link.flapping" in types(world.events)

    world.sleep(2)

    assert world.advice.uploads is Uploads.GO
    assert types(world.events).count("link.steady") == 1


def test_downs_that_are_far_apart_are_no_flapping(world: World) -> None:
    """Three downs in more than ten minutes are three outages."""
    for losses in (1, 2, 3):
        world.look(single(up=False, losses=losses), after_s=400)
        world.look(single(losses=losses), after_s=1)
    world.sleep(11)

    assert world.advice.uploads is Uploads.GO
    assert "link.flapping" not in types(world.events)


def test_flap_after_repair_alarms_again(world: World) -> None:
    """A link that flapped, was quiet and flaps again is told again."""
    losses = 0
    for _round in range(2):
        for _ in range(3):
            losses += 1
            world.look(single(up=False, losses=losses), after_s=5)
            world.look(single(losses=losses), after_s=1)
        world.sleep(3600)

    assert types(world.events).count("link.flapping") == 2
    assert [e.data["alert"] for e in world.events if e.type == "alert.closed"].count(
        "link.flapping"
    ) == 2


def test_on_battery_asks_for_checkpoints_at_once(world: World) -> None:
    """On battery: checkpoint now and every quarter of the runtime; uploads go on."""
    world.power(PowerState.BATTERY, runtime_s=1200.0)

    assert world.advice.checkpoint is not None
    assert world.advice.checkpoint.every_s == 300.0
    assert world.advice.uploads is Uploads.GO
    assert world.advice.stop is None
    assert world.alerts == ["power.battery"]


def test_mains_must_be_back_for_a_while(world: World) -> None:
    """The request lasts until mains were back for 30 s, and keeps its id all the time."""
    world.power(PowerState.BATTERY)
    first = world.advice.checkpoint
    world.sleep(60)
    world.power(PowerState.OK)
    world.sleep(10)
    assert world.advice.checkpoint is not None
    world.sleep(21)

    assert first is not None
    assert world.advice.checkpoint is None


def test_battery_low_stops_before_it_is_empty(world: World) -> None:
    """Battery low: newest upload only, a new checkpoint, stop before the runtime is over."""
    world.power(PowerState.BATTERY, runtime_s=600.0)
    asked = world.advice.checkpoint
    world.sleep(300)
    world.power(PowerState.LOW, runtime_s=120.0)

    advice = world.advice
    assert advice.uploads is Uploads.NEWEST
    assert asked is not None
    assert advice.checkpoint is not None
    assert advice.checkpoint.id != asked.id
    assert advice.stop is not None
    assert advice.stop.deadline_mono_ns == world.now.mono_ns + int(90e9)


def test_forced_shutdown_is_as_low_battery(world: World) -> None:
    """FSD means: this machine goes down, whatever the battery says."""
    world.power(PowerState.BATTERY, forced_shutdown=True)

    assert world.advice.stop is not None


def test_one_sensor_alone_never_stops(world: World) -> None:
    """A single unconfirmed witness may ask for a checkpoint, never for a stop."""
    world.power(PowerState.LOW, confirmed=False)

    assert world.advice.checkpoint is not None
    assert world.advice.stop is None


def test_unknown_power_is_neither_fine_nor_dark(world: World) -> None:
    """A sensor that cannot tell changes no advice."""
    world.power(PowerState.UNKNOWN)

    assert world.advice.checkpoint is None
    assert world.alerts == []


@pytest.mark.parametrize("action", ["freeze", "migrate"])
def test_harmless_notices_change_nothing(world: World, action: str) -> None:
    """A freeze or live migration needs nothing from training."""
    world.notices(world.notice("maintenance", action, 60))

    assert world.advice.checkpoint is None
    assert world.advice.stop is None


@pytest.mark.parametrize("action", ["terminate", "preempt", "stop", "hibernate"])
def test_ending_notices_checkpoint_and_stop(world: World, action: str) -> None:
    """A notice that ends the machine: newest upload, checkpoint now, stop by its deadline."""
    notice = world.notice("spot", action, 120)
    world.notices(notice)

    advice = world.advice
    assert advice.uploads is Uploads.NEWEST
    assert advice.checkpoint is not None
    assert advice.stop is not None
    assert notice.deadline is not None
    assert advice.stop.deadline_mono_ns == notice.deadline.mono_ns


def test_save_that_does_not_fit_stays_local(world: World) -> None:
    """With less time than one and a half saves the checkpoint is local only."""
    world.notices(world.notice("spot", "preempt", 30))

    assert world.advice.checkpoint is not None
    assert world.advice.checkpoint.local_only


def test_rebalance_saves_and_goes_on(world: World) -> None:
    """A rebalance recommendation asks for a checkpoint, not for a stop."""
    world.notices(world.notice("rebalance", "rebalance"))

    assert world.advice.checkpoint is not None
    assert world.advice.stop is None


def test_scheduled_event_acts_only_near_its_time(world: World) -> None:
    """A reboot tomorrow acts two saves and five minutes before it, not today."""
    world.notices(world.notice("maintenance", "reboot", 86400))
    assert world.advice.stop is None

    world.sleep(86400 - 421)
    assert world.advice.stop is None

    world.sleep(2)
    assert world.advice.stop is not None
    assert world.advice.checkpoint is not None


def test_withdrawn_notice_withdraws_its_requests(world: World) -> None:
    """A notice that is gone is an event and takes stop and checkpoint back."""
    world.notices(world.notice("spot", "terminate", 120))
    events = world.notices()

    assert "notice.withdrawn" in types(events)
    assert world.advice.stop is None
    assert world.advice.checkpoint is None


def test_uploads_never_go_while_nothing_carries(world: World) -> None:
    """Dead network beats everything that would let uploads go."""
    world.look(single(up=False, losses=1))
    world.sleep(3)
    world.power(PowerState.BATTERY, runtime_s=600.0)

    assert world.advice.uploads is Uploads.HOLD
    assert world.advice.checkpoint is not None


def test_battery_beats_flapping(world: World) -> None:
    """On battery everything is pushed while something carries, flapping or not."""
    for losses in (1, 2, 3):
        world.look(single(up=False, losses=losses), after_s=20)
        world.look(single(losses=losses), after_s=1)
    world.sleep(15)
    world.power(PowerState.BATTERY)

    assert world.advice.uploads is Uploads.GO


def test_timers_come_from_the_configuration() -> None:
    """A longer settle_s holds later."""
    world = World(Settings(policy=PolicySettings(settle_s=20.0)))
    world.look(single())
    world.look(single(up=False, losses=1))
    world.sleep(19)
    assert world.advice.uploads is Uploads.GO
    world.sleep(2)
    assert world.advice.uploads is Uploads.HOLD


def test_mains_coming_back_ask_for_no_further_checkpoint(world: World) -> None:
    """The request keeps its id from the power failure until it is over, so it is served once."""
    world.power(PowerState.BATTERY)
    asked = world.advice.checkpoint
    world.sleep(60)
    world.power(PowerState.OK)

    assert asked is not None
    assert world.advice.checkpoint is not None
    assert world.advice.checkpoint.id == asked.id
    assert world.advice.checkpoint.reason == "was on battery"


def test_local_only_follows_the_time_that_is_left(world: World) -> None:
    """A notice that left time for a remote save says local only once it does not any more."""
    world.notices(world.notice("spot", "terminate", 200))
    assert world.advice.checkpoint is not None
    assert not world.advice.checkpoint.local_only

    world.sleep(111)

    assert world.advice.checkpoint is not None
    assert world.advice.checkpoint.local_only


def test_a_stop_in_two_weeks_stops_nothing_today(world: World) -> None:
    """An instance that retires in days is acted on shortly before; its time can be set."""
    world.notices(world.notice("maintenance", "stop", 14 * 86400))
    assert world.advice.checkpoint is None
    world.sleep(14 * 86400 - 419)
    assert world.advice.stop is not None

    patient = World(Settings(policy=PolicySettings(notice_lead_s=3600.0)))
    patient.look(single())
    patient.notices(patient.notice("maintenance", "reboot", 3700))
    assert patient.advice.stop is None
    patient.sleep(101)
    assert patient.advice.stop is not None


@pytest.mark.parametrize("action", ["redeploy", "terminate", "reboot", "maintenance", "unknown"])
def test_maintenance_with_a_time_stops_before_it(world: World, action: str) -> None:
    """Whatever it is called: with a time close by it is believed to end processes then."""
    world.notices(world.notice("maintenance", action, 300))

    assert world.advice.checkpoint is not None
    assert world.advice.stop is not None
    assert (world.advice.uploads is Uploads.NEWEST) is (action in {"redeploy", "terminate"})


@pytest.mark.parametrize(
    ("action", "stops"),
    [("terminate", True), ("reboot", True), ("maintenance", False), ("unknown", False)],
)
def test_maintenance_without_a_time(world: World, action: str, stops: bool) -> None:  # noqa: FBT001
    """What nobody knows the meaning of asks for a checkpoint and for no more."""
    world.notices(world.notice("maintenance", action))

    assert world.advice.checkpoint is not None
    assert (world.advice.stop is not None) is stops


@pytest.mark.parametrize("action", ["freeze", "migrate"])
def test_a_pause_needs_nothing(world: World, action: str) -> None:
    """A freeze or live migration is told and asks for nothing."""
    events = world.notices(world.notice("maintenance", action, 60))

    assert types(events) == ["notice.maintenance", "alert.opened"]
    assert world.advice.checkpoint is None
    assert world.state.deadline is None


def test_a_planned_shutdown_is_no_alert(world: World) -> None:
    """What somebody orders on this machine stops training in time and wakes nobody."""
    events = world.notices(world.notice("shutdown", "reboot", 60))

    assert world.advice.stop is not None
    assert world.alerts == []
    assert types(events) == ["notice.shutdown", "advice.changed"]
    assert events[0].data["planned"] is True


def test_the_earliest_end_is_shown_with_its_source(world: World) -> None:
    """Battery and notices have one deadline: the earliest."""
    battery = PowerView(deadline=Deadline(Moment(world.now_ns + int(600e9), 0.0), "ups1"))
    world.take(PowerReading(Power(PowerState.BATTERY, runtime_s=600.0), battery))
    world.notices(world.notice("spot", "terminate", 120))
    assert world.document()["deadline"]["source"] == "test"

    world.notices()
    assert world.document()["deadline"]["source"] == "ups1"
