"""Messages of the fleet's topics are read strictly, and real states as their agent meant them."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.model import Alert, Moment, NodeState, Severity, WireError
from linkhold.model.maintenance import Maintenance
from linkhold.mqtt import Received
from linkhold.relay.decide.values import Cleared, Report, Status
from linkhold.relay.messages import read
from linkhold.wire import wrap_state
from linkhold.wire.state import StateEncoder
from support.outbox import IDENTITY
from support.swarm import SwarmNode

PREFIX = f"linkhold/v1/{IDENTITY.site}/{IDENTITY.node}"


def message(topic: str, payload: bytes, *, retained: bool = False) -> Received:
    """Return a message as the connection gives it."""
    return Received(topic, payload, retained, None, 1)


@given(
    st.sampled_from(["status", "birth", "state", "event/link.up", "cmd/replay", "x"]),
    st.one_of(st.binary(max_size=200), st.from_regex(rb"\{[\x20-\x7e]{0,80}\}", fullmatch=True)),
)
def test_whatever_comes_is_read_or_refused(kind: str, payload: bytes) -> None:
    """Bytes from outside are a message or a WireError, and nothing else."""
    with suppress(WireError):
        read(message(f"linkhold/v1/lab/n1/{kind}", payload), "b")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), json_values)
def test_a_damaged_document_is_read_or_refused(way: list[int], value: Any) -> None:
    """Whatever stands in the place of any part of a state, the relay reads or refuses it."""
    node = SwarmNode("lab", "n1")
    node.alert("link.down", "eth0")
    node.extra = {"maintenance": {"until": "2026-11-30T00:00:00Z", "id": "m"}}
    document = json.loads(node.state())
    place: Any = document
    for step in way:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = keys[step % len(keys)]
        if step is way[-1] or not isinstance(place[key], (dict, list)):
            place[key] = value
            break
        place = place[key]
    with suppress(WireError):
        read(message("linkhold/v1/lab/n1/state", json.dumps(document).encode()), "b")


@pytest.mark.parametrize(
    "topic", ["linkhold/v1/lab/n1", "linkhold/v2/lab/n1/status", "a/b", "linkhold/v1/-/n/status"]
)
def test_other_topics_are_refused(topic: str) -> None:
    """What is no topic of a node is refused."""
    with pytest.raises(WireError):
        read(message(topic, b"online"), "b")


def test_a_node_speaks_for_itself_only() -> None:
    """A state or event under another node's topic is refused, whoever lets it through."""
    node = SwarmNode("lab", "n1")
    for topic, payload in (
        ("state", node.state()),
        ("birth", node.birth()),
        ("event/link.up", node.event("link.up", "eth0")),
    ):
        assert read(message(f"linkhold/v1/lab/n1/{topic}", payload), "b") is not None
        with pytest.raises(WireError, match="another node"):
            read(message(f"linkhold/v1/lab/n2/{topic}", payload), "b")


def test_a_cleared_topic_says_nothing() -> None:
    """An empty message clears a topic; the status topic's tells that the node is gone for good."""
    assert read(message(f"{PREFIX}/state", b"", retained=True), "b") is None
    cleared = read(message(f"{PREFIX}/status", b""), "b")
    assert cleared is not None
    assert cleared.body == Cleared()
    heard = read(message(f"{PREFIX}/status", b"offline", retained=True), "b")
    assert heard is not None
    assert heard.body == Status(online=False)


def test_a_real_state_is_read_whole() -> None:
    """What the agent's encoder writes, the relay reads: alerts, planned work, order."""
    began = Moment(5, 1_000.0)
    alert = Alert("f1", "link.down", Severity.WARNING, "eth0", began, "eth0 lost carrier")
    work = Maintenance("m1", "new optic", "me", began, Moment(10**9, 2_000.0))
    state = NodeState(epoch=3, alerts=(alert,), maintenance=work)
    now = Moment(9 * 10**9, 1_009.0)
    document = StateEncoder(IDENTITY).encode(state, now, clock_synced=True)
    heard = read(message(f"{PREFIX}/state", wrap_state(IDENTITY, 3, now, document)), "b")

    assert heard is not None
    report = heard.body
    assert isinstance(report, Report)
    assert [(one.type, one.since_s) for one in report.alerts] == [("link.down", 1_000.0)]
    assert (report.maintenance_until_s, report.maintenance_id) == (2_000.0, "m1")
    assert report.maintenance_left_s == 0  # its end has passed by the monotonic clock
    assert report.order == (IDENTITY.started.mono_ns, 3, now.mono_ns)
    assert report.boot_s == pytest.approx(1_000.0)


def test_what_still_carries_is_said() -> None:
    """The text of what protects a node names the bond's members and the way out."""
    node = SwarmNode("lab", "n1")
    node.links["eth0"] = False
    heard = read(message("linkhold/v1/lab/n1/state", node.state()), "b")

    assert heard is not None
    assert isinstance(heard.body, Report)
    assert heard.body.protection == ("bond0 has 1 of 2 members, eth1 carries; ways out over bond0")
    assert heard.body.dark == {"eth0"}
    assert heard.body.lost == (("bond0", ("eth0",)),)


def test_what_is_kept_of_a_state_has_a_bound() -> None:
    """Of a state of most of a megabyte, all in names and texts, the relay keeps 250 kB."""
    node = SwarmNode("lab", "n1")
    document = json.loads(node.state())
    data = document["data"]
    long = "x" * 1200
    members = {f"{number}{long}": {"good": False} for number in range(40)}
    data |= {"boot_id": long * 20, "session": long * 20}
    data["alerts"] = [
        {"fingerprint": long, "type": long, "severity": long, "subject": long, "text": long * 2}
        for _ in range(50)
    ]
    data["detail"] = {
        "links": {f"{number}{long}": {"carrier": False} for number in range(200)},
        "bonds": {
            f"{number}{long}": {"active": long, "members": members if number < 3 else {}}
            for number in range(60)
        },
        "paths": {"w": {"carries": True, "link": long}},
    }
    payload = json.dumps(document).encode()
    assert len(payload) > 800_000
    heard = read(message("linkhold/v1/lab/n1/state", payload), "b")

    assert heard is not None
    assert isinstance(heard.body, Report)
    assert len(repr(heard.body)) < 250_000
    assert max(map(len, heard.body.links)) == 64
    assert {len(lost) for _, lost in heard.body.lost} == {16}
