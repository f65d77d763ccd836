"""From events to what a report says: intervals, outages and what they cost."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from linkhold.fleet_view.picture import Fleet, Heard
from linkhold.model import WireError
from linkhold.report.costs import covered_s, outages, total
from linkhold.report.follow import follow
from linkhold.report.records import Record, collate, read_record
from linkhold.report.rules import BEGINS, ENDS, MARKS
from linkhold.report.sources import Collected
from linkhold.report.spans import Kind, Level, Period, Span
from linkhold.report.story import Story, tell
from linkhold.wire import CATALOGUE, dumps
from support.days import Day, random_day
from support.world import bonded

KEY = ("lab", "n1")
PERIOD = Period(1_000_000.0, 1_100_000.0)


def record(seq: int, type_: str, subject: str, at_s: float, **data: Any) -> Record:
    """Return an event, ``at_s`` seconds after the begin of the period."""
    boot, mono_ns = data.pop("boot", "b"), data.pop("mono_ns", 0)
    at_s += PERIOD.from_s
    identity = f"{boot}-s-{seq}"
    return Record(KEY, identity, boot, "s", seq, at_s, mono_ns, type_, subject, "info", data)


def spans_of(*records: Record, period: Period = PERIOD) -> list[Span]:
    """Return the spans that events make."""
    return follow(collate(records)[KEY], period)[0]


def told(*records: Record) -> list[tuple[str, str, float, float]]:
    """Return subject, word, begin and end of spans, in seconds of the period."""
    return [
        (span.subject, span.word, span.start_s - PERIOD.from_s, span.end_s - PERIOD.from_s)
        for span in spans_of(*records)
    ]


def story_of(day: Day, until_s: float | None = None) -> Story:
    """Return the story of a day up to its end."""
    collected = Collected()
    collected.add_lines(day.lines())
    end_s = until_s or day.world.now.wall_s
    stories = tell(collate(collected.records), {}, Period(end_s - 86400, end_s))
    return stories[0]


def test_every_rule_is_of_an_event_that_exists() -> None:
    """The tables name types of the catalogue, and fields that these events carry."""
    assert set() == (BEGINS.keys() | ENDS.keys() | MARKS.keys()) - CATALOGUE.keys()
    for type_, end in ENDS.items():
        assert not end.field or end.field in CATALOGUE[type_].fields


def test_a_fault_lasts_from_its_begin_to_its_end() -> None:
    """The state changes at each event, with the cause that the first one told."""
    found = spans_of(
        record(1, "network.degraded", "network", 10, cause=["eth2 lost carrier"]),
        record(2, "network.down", "network", 20, cause=["eth1 lost carrier", "bond0: 0 of 2"]),
        record(3, "network.ok", "network", 50),
    )

    assert [(span.word, span.seconds) for span in found] == [("degraded", 10.0), ("down", 30.0)]
    assert found[1].cause == "eth1 lost carrier; bond0: 0 of 2"


def test_what_has_not_ended_lasts_to_the_end_of_the_period() -> None:
    """An open fault is drawn to now and marked as lasting."""
    found = spans_of(record(1, "link.down", "eth0", 99_000))

    assert (found[0].seconds, found[0].lasting) == (1000.0, True)


def test_what_began_before_anything_is_known() -> None:
    """The first event of a subject tells how it was before, and for how long."""
    found = told(
        record(1, "network.ok", "network", 100, previous="down", previous_s=40.0),
        record(2, "link.up", "eth0", 100, previous_s=60.0),
        record(3, "power.restored", "power", 200, lasted_s=150.0),
    )

    assert sorted(found, key=lambda one: one[2]) == [
        ("eth0", "down", 40.0, 100.0),
        ("power", "on battery", 50.0, 200.0),
        ("network", "down", 60.0, 100.0),
    ]


def test_before_the_period_is_cut_off() -> None:
    """A fault that began earlier is cut to the period and says so."""
    found = spans_of(
        record(1, "network.down", "network", -500), record(2, "network.ok", "network", 30)
    )

    assert (found[0].seconds, found[0].earlier) == (30.0, True)


def test_a_port_that_never_carried_is_no_fault() -> None:
    """First sight of a link without carrier is nothing, also when it comes up later."""
    assert (
        told(
            record(1, "link.down", "eth7", 5, initial=True),
            record(2, "link.up", "eth7", 5000, previous_s=4995.0),
        )
        == []
    )


def test_another_boot_ends_what_was_open() -> None:
    """A machine that started again has no fault of before; it was away between."""
    found = told(
        record(1, "network.down", "network", 100),
        record(2, "agent.started", "agent", 400, boot="b2", absent_s=200.0),
    )

    assert found == [("network", "down", 100.0, 200.0), ("agent", "away", 200.0, 400.0)]


def test_nobody_was_away_while_he_spoke() -> None:
    """An absence that is longer than the silence before it is cut to that silence."""
    assert told(
        record(1, "link.up", "eth0", 100),
        record(2, "agent.started", "agent", 150, absent_s=5000.0),
    ) == [("agent", "away", 100.0, 150.0)]


def test_what_is_known_is_not_guessed() -> None:
    """Only the first event of a subject tells how it was before."""
    assert told(
        record(1, "link.down", "eth0", 5),
        record(2, "link.up", "eth0", 10),
        record(3, "link.up", "eth0", 40, previous_s=35.0),
    ) == [("eth0", "down", 5.0, 10.0)]


def test_a_planned_stop_is_no_outage() -> None:
    """An agent that said that it stops was not away without a word."""
    found = told(
        record(1, "agent.stopping", "agent", 100, reason="upgrade"),
        record(2, "agent.started", "agent", 130, absent_s=30.0),
    )

    assert found == [("agent", "stopped", 100.0, 130.0)]


def test_an_event_that_comes_twice_counts_once() -> None:
    """Files that overlap, and replays, change nothing."""
    once = [record(1, "link.down", "eth0", 1), record(2, "link.up", "eth0", 2)]

    assert told(*once) == told(*once, *reversed(once))


def test_a_clock_that_was_set_later() -> None:
    """Events before the clock was set lie where they were on the right clock."""
    wrong = record(1, "link.down", "eth0", -900_000, mono_ns=100 * 10**9)
    right = record(2, "link.up", "eth0", 60, mono_ns=150 * 10**9)
    history = collate([wrong, right])[KEY]

    assert history.stepped == 1
    assert told(wrong, right) == [("eth0", "down", 10.0, 60.0)]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'{"id":"a-b-1","type":"x","time":"2026-01-01T00:00:00Z","source":"other"}',
        b'{"id":"x","type":"x","time":"2026-01-01T00:00:00Z","source":"linkhold/a/b"}',
        b'{"id":"a-b-1","type":"x","time":"yesterday","source":"linkhold/a/b"}',
    ],
)
def test_what_is_no_event_is_refused(line: bytes) -> None:
    """Lines of something else are counted, with the reason of the first."""
    with pytest.raises(WireError):
        read_record(line)


VALUES = st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.lists(st.text())
NAMES = ("previous_s", "lasted_s", "previous", "cause", "absent_s", "status", "uploads", "holds")
EVENTS = st.lists(
    st.builds(
        lambda seq, type_, subject, at_s, data, boot: replace(
            record(seq, type_, subject, at_s, boot=boot), data=data
        ),
        st.integers(1, 10_000),
        st.sampled_from(sorted(CATALOGUE)),
        st.sampled_from(["network", "power", "eth0", "agent"]),
        st.floats(-5000, 105_000),
        st.dictionaries(st.sampled_from([*NAMES, "initial"]), VALUES, max_size=4),
        st.sampled_from(["b", "b2"]),
    ),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(EVENTS)
def test_whatever_happened_the_intervals_are_sound(records: list[Record]) -> None:
    """In any order and with any data: inside the period, and no track overlaps itself."""
    if not records:
        return
    found = spans_of(*records)
    tracks: dict[tuple[Kind, str, str], list[Span]] = {}
    for span in found:
        assert PERIOD.from_s <= span.start_s < span.end_s <= PERIOD.until_s
        tracks.setdefault((span.kind, span.subject, span.track), []).append(span)
    for spans in tracks.values():
        for one, other in pairwise(spans):
            assert one.end_s <= other.start_s


SPANS = st.lists(
    st.builds(
        lambda kind, start, seconds, level: Span(
            KEY, kind, kind.value, "x", level, start, start + seconds
        ),
        st.sampled_from([Kind.NETWORK, Kind.POWER, Kind.UPLOADS, Kind.TRAINING, Kind.BOND]),
        st.floats(0, 1000),
        st.floats(0.001, 500),
        st.sampled_from([Level.BAD, Level.WARN, Level.HELD]),
    ),
    max_size=12,
)


@given(SPANS)
def test_no_held_second_is_counted_twice(spans: list[Span]) -> None:
    """What outages cost, and what none explains, is exactly what was held."""
    found, unexplained = outages(spans)
    sums = total((*(one.cost for one in found), unexplained))
    uploads_s, training_s = (
        sum(span.seconds for span in spans if span.kind is kind and span.level is Level.HELD)
        for kind in (Kind.UPLOADS, Kind.TRAINING)
    )
    bonds = [one for one in found if one.span.kind is Kind.BOND]

    assert sums.uploads_s == pytest.approx(uploads_s)
    assert sums.training_s == pytest.approx(training_s)
    assert all(one.cost.weight == 0 for one in bonds)


def test_a_hold_with_two_causes_is_shared() -> None:
    """What began last and still lasts is why; before that it was the other one."""
    uploads = Span(KEY, Kind.UPLOADS, "uploads", "held", Level.HELD, 2, 100)
    first = Span(KEY, Kind.NETWORK, "network", "down", Level.BAD, 0, 90)
    second = Span(KEY, Kind.PATH, "s3", "storage unreachable", Level.BAD, 60, 95)
    found, unexplained = outages([first, uploads, second])

    assert [one.cost.uploads_s for one in found] == [58.0, 40.0]
    assert unexplained.uploads_s == 0.0


@given(SPANS)
def test_time_that_is_covered(spans: list[Span]) -> None:
    """Overlapping spans count once: not more than their sum, not less than the longest."""
    covered = covered_s(spans)

    assert covered <= sum(span.seconds for span in spans) + 1e-6
    assert covered >= max((span.seconds for span in spans), default=0.0) - 1e-6


@pytest.mark.parametrize("seed", range(40))
def test_a_real_day_is_told_as_it_was(seed: int) -> None:
    """The agent's own core lives through a day; the report finds each fault and its length."""
    day = random_day(seed)
    story = story_of(day)
    wanted = {
        name: sum(end_s - begin_s for kind, begin_s, end_s in day.faults if kind == name)
        for name in ("down", "degraded", "battery")
    }

    assert story.down_s == pytest.approx(wanted["down"], abs=0.01)
    assert story.degraded_s == pytest.approx(wanted["degraded"], abs=0.01)
    battery_s = sum(one.span.seconds for one in story.outages if one.span.kind is Kind.POWER)
    count = sum(kind == "battery" for kind, _, _ in day.faults)
    assert battery_s == pytest.approx(wanted["battery"] + 30 * count, abs=0.01)  # mains_back_s


def test_what_an_outage_costs() -> None:
    """Uploads are held from 2 s after the loss to 10 s after the return, and the loss is why."""
    day = Day()
    day.wait(1000)
    day.lose_network(300)
    day.wait(1000)
    story = story_of(day)

    assert len(story.outages) == 1
    assert pytest.approx(story.outages[0].cost.uploads_s, abs=0.1) == 308.0
    assert story.unexplained.uploads_s == 0.0


def test_a_present_state_tells_what_no_event_does() -> None:
    """A node that is down since before its history shows so, by its retained state."""
    day = Day("n1")
    day.wait(100)
    day.world.look(bonded(first=False, second=False))
    day.wait(100)
    document = day.world.document()
    now_s = day.world.now.wall_s
    fleet = Fleet()
    topic = "linkhold/v1/default/node1/state"
    fleet.take(Heard("b", topic, dumps(document), retained=True, at_s=now_s))
    period = Period(now_s - 3600, now_s)
    story = tell({}, {node.key: node for node in fleet.select(())}, period)[0]

    assert story.down_s == pytest.approx(100, abs=1)


def test_the_order_of_lines_does_not_matter() -> None:
    """Files are read in any order."""
    day = random_day(7)
    lines = list(day.lines())
    random.Random(1).shuffle(lines)
    shuffled = Collected()
    shuffled.add_lines(lines)
    end_s = day.world.now.wall_s
    other = tell(collate(shuffled.records), {}, Period(end_s - 86400, end_s))[0]

    assert story_of(day) == other
