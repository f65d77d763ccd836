"""Restarts, alerts over time, clocks that jump, and properties of the whole core."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.decide.debounce import Debounced, Delays
from linkhold.decide.readings import (
    AgentReading,
    LegReading,
    NetworkReading,
    OutboxReading,
    OverflowReading,
    ParkedReading,
    ReplayReading,
    Tick,
)
from linkhold.decide.restore import restore
from linkhold.model import Network, PowerState, Training, Uploads
from linkhold.wire.stored import parse_node_state
from support.world import World, bonded, single, types


def test_restart_without_change_says_nothing() -> None:
    """A start that finds what was stored gives no event about the network."""
    world = World()
    world.look(bonded())
    again = world.restart()

    assert types(again.look(bonded())) == []


def test_restart_reports_the_difference() -> None:
    """What happened while the agent was away is told at its start, marked and with counts."""
    world = World()
    world.look(single())
    again = world.restart(absent_s=30)
    events = again.look(single(up=False, losses=5))

    assert types(events)[0] == "link.down"
    assert events[0].data["while_absent"] is True
    assert (events[0].data["downs"], events[0].data["bounces"]) == (5, 4)


def test_outage_that_came_and_went_unseen_is_told() -> None:
    """The kernel's counters tell of an outage that began and ended while nobody looked."""
    world = World()
    world.look(single())
    events = world.restart().look(single(losses=1))

    assert types(events) == ["link.bounced"]
    assert events[0].data["while_absent"] is True


def test_new_boot_starts_from_nothing() -> None:
    """A stored state of another boot is not compared with: indexes and clocks began anew."""
    world = World()
    world.look(single())
    events = world.restart(boot_id="boot-2").look(single(up=False))

    assert types(events) == ["link.down", "network.down"]
    assert all(event.data["initial"] for event in events)


def test_open_alert_survives_a_restart() -> None:
    """An alert that is open keeps its beginning and is not opened again."""
    world = World()
    world.look(single())
    world.look(single(up=False, losses=1))
    world.sleep(10)
    since = world.state.alerts[0].since
    again = world.restart()
    events = again.look(single(up=False, losses=1))

    assert "alert.opened" not in types(events)
    assert again.state.alerts[0].since == since
    assert again.advice.uploads is Uploads.HOLD


def test_alert_that_ended_while_away_is_closed() -> None:
    """A fault that was repaired while the agent was away closes after close_after_s."""
    world = World()
    world.look(single())
    world.look(single(up=False, losses=1))
    world.sleep(10)
    again = world.restart()
    again.look(single(losses=1))
    again.sleep(31)

    assert again.alerts == []
    assert types(again.events).count("alert.closed") == 1


def test_lost_default_route_is_still_known_after_a_restart() -> None:
    """A node that lost its default route is down, not unknown, also for the next agent."""
    world = World()
    world.look(single())
    world.look(replace(single(), routes=frozenset()))
    again = world.restart()
    again.look(replace(single(), routes=frozenset()))

    assert again.state.network is Network.DOWN


def test_node_that_starts_on_battery_alarms() -> None:
    """Alerts and advice come from the state, so first sight of a fault alarms as a change does."""
    world = World()
    world.power(PowerState.BATTERY)
    world.look(single())

    assert world.alerts == ["power.battery"]
    assert world.advice.checkpoint is not None


def test_alert_waits_and_closes_with_its_length() -> None:
    """An alert opens after 3 s of down, closes after 30 s of up and says how long it lasted."""
    world = World()
    world.look(single())
    world.look(single(up=False, losses=1))
    world.sleep(2.9)
    assert world.alerts == []
    world.sleep(0.2)
    assert world.alerts == ["network.down"]
    world.look(single(losses=1), after_s=96.9)
    world.sleep(29.9)
    assert world.alerts == ["network.down"]
    assert world.state.alerts[0].text.endswith("(over; closes if it stays so)")
    closed = [event for event in world.sleep(0.2) if event.type == "alert.closed"]

    assert [event.data["lasted_s"] for event in closed] == [100.0]


def test_alert_of_a_flapping_link_stays_one_alert() -> None:
    """A fault that comes back before its alert closed goes on in the same alert."""
    world = World()
    world.look(single())
    for losses in range(1, 20):
        world.look(single(up=False, losses=losses), after_s=10)
        world.look(single(losses=losses), after_s=10)
    opened = [e.data["alert"] for e in world.events if e.type == "alert.opened"]

    assert opened.count("network.down") == 1
    assert opened.count("link.flapping") == 1


def test_wall_clock_jumps_fire_nothing_and_stick_nothing() -> None:
    """An hour forth and back on the wall clock changes neither advice nor alerts."""
    calm, jumpy = World(), World()
    for world in (calm, jumpy):
        world.look(single())
    for step_s, jump_s in ((1, 3600), (5, -3600), (5, 7200)):
        jumpy.wall_offset_s += jump_s
        for world in (calm, jumpy):
            world.look(single(up=False, losses=step_s), after_s=step_s)
            world.look(single(losses=step_s), after_s=step_s)
            world.sleep(70)

    assert types(calm.events) == types(jumpy.events)
    assert calm.advice == jumpy.advice


def test_health_of_the_agent_is_in_its_state() -> None:
    """Legs, outbox, losses and refusals become events and fields, and alerts where they matter."""
    world = World()
    world.look(single())
    world.take(LegReading("a", "down", "the broker ended"))
    world.take(LegReading("b", "up", "mqtt1:8883"))
    world.take(OutboxReading("volatile", "disk full", 3, 1))
    world.take(OverflowReading(5, "first", "last"))
    world.take(ParkedReading("id", "not authorized"))
    world.take(ReplayReading("r1", 10, 0, "a", "b"))
    world.take(AgentReading("config_reloaded", {"file": "f"}))
    world.sleep(4)

    assert world.state.agent.leg_a == "down: the broker ended"
    assert world.document()["detail"]["agent"]["outbox"] == "volatile: disk full"
    assert set(world.alerts) == {"agent.leg_a", "agent.outbox", "agent.event_parked"}


def test_repeated_health_is_no_news() -> None:
    """The same health twice is one event."""
    world = World()
    world.look(single())
    world.take(LegReading("a", "up"))

    assert world.take(LegReading("a", "up")) == []


def test_heartbeat_does_not_move_the_epoch() -> None:
    """The epoch grows with changes only, so that readers can tell a change from a heartbeat."""
    world = World()
    world.look(single())
    epoch = world.state.epoch
    world.take(Tick())
    world.look(single(), after_s=5)

    assert world.state.epoch == epoch

    world.look(single(up=False, losses=1))

    assert world.state.epoch == epoch + 1


def test_damaged_stored_state_is_a_first_sight() -> None:
    """A stored state that cannot be read starts the agent from nothing, never ends it."""
    world = World()
    world.look(single())
    document = world.document()
    for damage in ({"detail": None}, {"schema": 99}, {"since": "yesterday"}, {"alerts": [1]}):
        memory = restore(world.context, {**document, **damage}, world.now)

        assert memory.state.host is None


HOSTS = st.one_of(
    st.builds(single, up=st.booleans(), losses=st.integers(0, 50)),
    st.builds(
        bonded,
        st.booleans(),
        st.booleans(),
        active=st.sampled_from([1, 2, None]),
        miimon_ms=st.sampled_from([0, 50]),
        losses=st.tuples(st.integers(0, 50), st.integers(0, 50)),
    ),
    st.just(replace(single(), routes=frozenset())),
    st.just(replace(single(), links={}, addresses=frozenset())),
)
STEPS = st.lists(
    st.tuples(
        st.floats(0, 700),
        st.one_of(
            HOSTS,
            st.sampled_from(list(PowerState)),
            st.sampled_from(["terminate", "freeze", "reboot", "withdrawn"]),
        ),
    ),
    max_size=30,
)


def _play(world: World, steps: list[tuple[float, object]]) -> None:
    for pause_s, what in steps:
        world.sleep(pause_s)
        if isinstance(what, PowerState):
            world.power(what)
        elif isinstance(what, str):
            standing = [] if what == "withdrawn" else [world.notice("spot", what, 100)]
            world.notices(*standing)
        else:
            world.take(NetworkReading(what))  # type: ignore[arg-type]


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_whatever_happened_quiet_ends_in_go(steps: list[tuple[float, object]]) -> None:
    """After any history, a node that is well for twenty minutes holds nothing and has no alert."""
    world = World()
    _play(world, steps)
    world.take(NetworkReading(single(losses=100)))
    world.power(PowerState.OK)
    world.notices()
    world.sleep(1200)

    assert world.advice.uploads is Uploads.GO
    assert world.advice.training is Training.GO
    assert (world.advice.holds, world.advice.checkpoint, world.advice.stop) == ((), None, None)
    assert world.alerts == []
    assert world.wake_ns is None


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_uploads_never_go_when_the_network_is_long_down(
    steps: list[tuple[float, object]],
) -> None:
    """After any history, a network that has been down for settle_s holds uploads."""
    world = World()
    world.look(single())
    _play(world, steps)
    world.take(NetworkReading(single(up=False, losses=100)))
    world.sleep(2.1)

    assert world.state.network is Network.DOWN
    assert world.advice.uploads is Uploads.HOLD


@given(STEPS)
@settings(max_examples=150, deadline=None)
def test_state_document_gives_back_what_it_was_made_from(
    steps: list[tuple[float, object]],
) -> None:
    """Host, histories, ways out and alerts survive the trip through the stored document."""
    world = World()
    world.look(single())
    _play(world, steps)
    parsed, state = parse_node_state(world.document()), world.state

    assert parsed.host == state.host
    assert parsed.histories == state.histories
    assert parsed.ways == state.ways
    assert parsed.alerts == state.alerts


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**10)), min_size=1, max_size=50))
def test_debounced_condition_follows_only_what_lasted(looks: list[tuple[bool, int]]) -> None:
    """It counts exactly when the raw value lasted on_s, and ends when it was gone off_s."""
    delays, phase, now_ns, expected, since_ns = Delays(2, 5), Debounced(), 0, False, 0
    raw = False
    for value, pause_ns in looks:
        now_ns += pause_ns
        if value != raw:
            raw, since_ns = value, now_ns
        phase = phase.observe(raw, now_ns, delays)
        if now_ns - since_ns >= (2e9 if raw else 5e9):
            expected = raw

        assert phase.active is expected


def test_restart_withdraws_no_request() -> None:
    """Stop, checkpoint and holds stand until a sensor of the new session says otherwise."""
    world = World()
    world.look(single())
    world.look(single(up=False, losses=1))
    world.sleep(5)
    world.power(PowerState.LOW, runtime_s=300.0)
    world.notices(world.notice("spot", "terminate", 100))
    before = world.advice
    again = world.restart()
    again.look(single(up=False, losses=1))

    assert again.advice == before
    assert "advice.changed" not in types(again.events)
    assert set(again.alerts) == set(world.alerts)

    again.power(PowerState.OK)
    again.notices()
    again.look(single(losses=1))
    again.sleep(60)

    assert again.advice.stop is None
    assert again.advice.checkpoint is None


def test_restart_keeps_the_wait_for_mains() -> None:
    """Mains that came back shortly before a restart still have to stay."""
    world = World()
    world.look(single())
    world.power(PowerState.BATTERY)
    world.sleep(60)
    world.power(PowerState.OK)
    world.sleep(5)
    asked = world.advice.checkpoint
    again = world.restart()
    again.look(single())

    assert again.advice.checkpoint == asked

    again.sleep(30)

    assert again.advice.checkpoint is None
