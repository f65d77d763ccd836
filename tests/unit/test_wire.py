"""What goes over the wire: documents, their parsers, topics, and what docs/events.md says."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold import wire
from linkhold.model import Event, Identity, Moment, Severity, WireError
from linkhold.wire.state import StateEncoder
from support import readme
from support.world import World, bonded, single

IDENTITY = Identity("site", "node", "machine", "boot", "session", Moment(5, 1e9))
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def _document() -> dict[str, object]:
    world = World()
    world.look(bonded(second=False))
    return world.document()


def test_the_page_names_every_event_type() -> None:
    """docs/events.md has the catalogue as a table (tests/support/readme.py writes it)."""
    assert readme.current("events") == readme.events_block()


def test_state_is_read_from_file_and_from_topic() -> None:
    """The bare document and its CloudEvent give the same view."""
    document = wire.dumps(_document())
    event = wire.wrap_state(IDENTITY, 7, Moment(8, 1e9), document)

    assert wire.parse_state(document) == wire.parse_state(event)
    assert json.loads(event)["data"] == json.loads(document)


def test_state_event_is_a_cloudevent() -> None:
    """The published state has every attribute that CloudEvents 1.0 requires."""
    event = json.loads(wire.wrap_state(IDENTITY, 7, Moment(8, 1e9), b"{}"))

    assert event["specversion"] == "1.0"
    assert event["id"] == "boot-session-state-7-8"
    assert event["source"] == "linkhold/site/node"
    assert event["type"] == wire.STATE_TYPE


def test_event_document_round_trip() -> None:
    """An event is read back with its id, type, subject, severity and data."""
    event = Event(3, "link.down", "eth0", Severity.WARNING, Moment(9, 1.5), {"downs": 1})
    view = wire.parse_event(wire.dumps(wire.event_document(IDENTITY, event)))

    assert (view.id, view.type, view.subject) == ("boot-session-3", "link.down", "eth0")
    assert view.severity is Severity.WARNING
    assert view.document["data"] == {"downs": 1}


@given(st.binary())
def test_any_bytes_are_a_document_or_an_error(payload: bytes) -> None:
    """Bytes from outside raise WireError and nothing else."""
    for parse in (wire.parse_state, wire.parse_event, wire.load_json):
        try:
            parse(payload)
        except WireError:
            continue


@given(JSON)
def test_any_json_is_a_document_or_an_error(value: object) -> None:
    """Valid JSON of any shape raises WireError and nothing else."""
    for parse in (wire.parse_state, wire.parse_event):
        try:
            parse(wire.dumps(value))
        except WireError:
            continue


@given(st.data())
def test_state_with_any_field_replaced_is_a_document_or_an_error(data: st.DataObject) -> None:
    """A state in which one field is anything at all raises WireError and nothing else."""
    document = _document()
    advice = document["advice"]
    assert isinstance(advice, dict)
    target = data.draw(st.sampled_from([document, advice]))
    target[data.draw(st.sampled_from(sorted(target)))] = data.draw(JSON)
    try:
        wire.parse_state(wire.dumps(document))
    except WireError:
        return


def test_deep_and_huge_json_is_an_error() -> None:
    """Nesting that would exhaust the stack, and states above the limit, are refused."""
    with pytest.raises(WireError):
        wire.load_json("[" * 100_000)
    with pytest.raises(WireError, match="at most"):
        wire.parse_state(b" " * (1 << 21))


def test_unknown_fields_are_ignored() -> None:
    """An older reader reads the state of a newer agent."""
    document = _document() | {"new": 1}

    assert wire.parse_state(wire.dumps(document)).node == "node1"


def test_newer_state_sorts_after_older() -> None:
    """Session start, then epoch, then heartbeat decide which state of a boot is newer."""
    world = World()
    world.look(single())
    first = wire.parse_state(wire.dumps(world.document()))
    world.sleep(5)
    beat = wire.parse_state(wire.dumps(world.document()))
    world.look(single(up=False, losses=1))
    change = wire.parse_state(wire.dumps(world.document()))

    assert first.order < beat.order < change.order


def test_numbers_that_json_lacks_are_refused() -> None:
    """NaN and infinity neither leave this program nor enter it."""
    with pytest.raises(ValueError, match="JSON"):
        wire.dumps({"x": math.nan})
    for number in ("NaN", "Infinity", "-Infinity"):
        with pytest.raises(WireError):
            wire.load_json(number)


def test_numbers_of_more_than_64_bits_are_refused() -> None:
    """A time of 25 digits in a damaged state would end each decision that reckons with it."""
    assert wire.load_json(str(1 << 63)) == 1 << 63
    for number in ("9" * 21, "-" + "9" * 25, "1" + "0" * 5000, "1e20", "-1e300", "1e999"):
        with pytest.raises(WireError, match="out of range"):
            wire.load_json(number)


def test_a_text_that_is_none_is_refused() -> None:
    """Half a pair of UTF-16 cannot be written again; a whole one is a letter like others."""
    assert wire.load_json(rb'"\ud83d\ude00"') == "\U0001f600"
    for payload in (rb'{"a": "\ud800"}', rb'{"\udfff": 1}', b'"\xed\xa0\x80"'):
        with pytest.raises(WireError, match="no JSON"):
            wire.load_json(payload)


@given(st.floats(0, 4e9))
def test_times_round_trip_to_the_millisecond(wall_s: float) -> None:
    """A printed time is read back within a millisecond."""
    assert abs(wire.from_rfc3339(wire.rfc3339(wall_s)) - wall_s) < 0.0011


@given(st.text())
def test_any_name_becomes_one_topic_level(name: str) -> None:
    """A host name of any shape becomes a name that can be a topic level."""
    assert wire.is_topic_safe(wire.topic_safe(name))


def test_catalogue_is_closed() -> None:
    """An unknown type, or data that the catalogue does not name, is found."""
    for kind, data in (("link.gone", {}), ("link.up", {"colour": 1})):
        event = Event(1, kind, "eth0", Severity.INFO, Moment(0, 0.0), data)
        with pytest.raises(WireError):
            wire.check_event(event)


def test_links_that_did_not_change_are_encoded_as_before() -> None:
    """An encoder that saw other states before gives the same document as a fresh one."""
    world = World()
    used = StateEncoder(world.context.identity)
    hosts = [single(), bonded(), bonded(first=False, active=2, losses=(1, 0)), single(losses=4)]
    for host in hosts:
        world.look(host, after_s=1)
        fresh = StateEncoder(world.context.identity)
        encoded = [one.encode(world.state, world.now, clock_synced=None) for one in (used, fresh)]

        assert encoded[0] == encoded[1]

    world.sleep(5)
    health = {"counters": {"messages": 1}}
    fresh = StateEncoder(world.context.identity)
    for agent in (None, health, {"counters": {"messages": 2}}, None):
        encoded = [
            one.encode(world.state, world.now, clock_synced=True, agent=agent)
            for one in (used, fresh)
        ]

        assert encoded[0] == encoded[1]
        assert json.loads(encoded[0])["at"] == wire.rfc3339(world.now.wall_s)
