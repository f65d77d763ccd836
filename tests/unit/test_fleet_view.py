"""The picture of a fleet, its rows and what is drawn of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from linkhold.fleet_view.details import details
from linkhold.fleet_view.keys import decode
from linkhold.fleet_view.line import BrokerNews
from linkhold.fleet_view.paint import changes
from linkhold.fleet_view.picture import Fleet, Heard
from linkhold.fleet_view.plain import listing
from linkhold.fleet_view.rows import Level, Row, Rows, arranged, counts, row_of
from linkhold.fleet_view.screen import LEAST_WHY, Sight, Size, columns_of, draw
from linkhold.fleet_view.ui import Mode, Ui, press
from linkhold.fleet_view.words import ago, lasted, printable
from linkhold.wire import from_rfc3339
from support.terminal import Screen
from support.world import World, bonded, single

if TYPE_CHECKING:
    from linkhold.fleet_view.picture import Key

NOW_S = 1_800_002_000.0
HOSTILE = st.text(max_size=40)
NAMES = st.text("abcdefgh-0123456789", min_size=1, max_size=40)


def document(kind: str = "ok", node: str = "n1", **changes: Any) -> dict[str, Any]:
    """Return a real state document: ok, degraded or down."""
    world = World()
    world.look(bonded() if kind != "down" else single(), after_s=1)
    if kind == "degraded":
        world.look(bonded(second=False), after_s=100)
    if kind == "down":
        world.look(single(up=False), after_s=100)
    world.sleep(30)
    return {**world.document(), "site": "lab", "node": node, **changes}


DOCUMENTS = {kind: document(kind) for kind in ("ok", "degraded", "down")}


def heard(
    leaf: str, payload: bytes, *, node: str = "n1", broker: str = "a", retained: bool = True
) -> Heard:
    """Return a message of a node."""
    return Heard(broker, f"linkhold/v1/lab/{node}/{leaf}", payload, retained, NOW_S)


def fleet_of(*messages: Heard) -> Fleet:
    """Return the picture after messages."""
    fleet = Fleet()
    for message in messages:
        fleet.take(message)
    return fleet


def state(kind: str = "ok", **changes: Any) -> bytes:
    """Return a state as it is published."""
    return json.dumps({**DOCUMENTS[kind], **changes}).encode()


def row(kind: str = "ok", status: bytes = b"online", **changes: Any) -> Row:
    """Return the row of one node."""
    fleet = fleet_of(heard("status", status), heard("state", state(kind, **changes)))
    return row_of(fleet.nodes["lab", "n1"], NOW_S)


@pytest.mark.parametrize(
    ("made", "level"),
    [
        (row(), Level.OK),
        (row("degraded"), Level.WARNING),
        (row("down"), Level.DOWN),
        (row(power="battery"), Level.POWER),
        (row(network="unknown"), Level.UNSURE),
        (row("down", b"offline"), Level.OFFLINE),
    ],
)
def test_what_is_worse(made: Row, level: Level) -> None:
    """Offline is worse than down, down than power, power than a warning, and that than unknown."""
    assert level is made.level


def test_a_stop_on_purpose_is_no_fault() -> None:
    """A node that said why it stops counts as stopped, and shows the reason."""
    birth = json.dumps({"started": "2026-01-01T00:00:00Z", "planned_stop": "reboot by root"})
    fleet = fleet_of(heard("birth", birth.encode()), heard("status", b"offline"))
    found = row_of(fleet.nodes["lab", "n1"], NOW_S)

    assert (found.level, found.why) == (Level.PLANNED, "reboot by root")


def test_planned_work_wakes_nobody_until_its_end() -> None:
    """A node in maintenance ranks as planned, with who and why, and no longer than that."""
    work = {"id": "1", "why": "new switch", "by": "anna", "until": "2027-01-15T09:00:00Z"}
    fleet = fleet_of(heard("status", b"offline"), heard("state", state("down", maintenance=work)))
    until_s = from_rfc3339(str(work["until"]))
    rows = Rows()
    before, after = (rows.of(fleet, until_s + seconds)[0] for seconds in (-600, 1))

    assert Level.PLANNED is before.level
    assert "planned work, 10 min left: new switch (by anna)" in before.why
    assert Level.OFFLINE is after.level
    assert "new switch" in str(details(fleet.nodes["lab", "n1"], NOW_S))


def test_work_that_a_wrong_clock_announced_ends_too() -> None:
    """A node whose clock is years ahead ranks as planned for as long as was announced."""
    work = {"id": "1", "why": "x", "by": "y", "until": "2035-01-01T00:00:00Z"}
    timed = {**work, "until_mono_ns": DOCUMENTS["ok"]["mono_ns"] + 600 * 10**9}
    fleet = fleet_of(heard("status", b"online"), heard("state", state(maintenance=timed)))
    assert row_of(fleet.nodes["lab", "n1"], NOW_S + 590).level is Level.PLANNED
    assert row_of(fleet.nodes["lab", "n1"], NOW_S + 610).level is not Level.PLANNED


def test_an_old_birth_does_not_excuse_a_new_fault() -> None:
    """The birth of an earlier session, retained by another broker, changes nothing."""
    old = json.dumps({"started": "2026-01-01T00:00:00Z", "planned_stop": "reboot"}).encode()
    new = json.dumps({"started": "2026-01-02T00:00:00Z", "planned_stop": None}).encode()
    fleet = fleet_of(heard("birth", new), heard("birth", old), heard("status", b"offline"))

    assert fleet.nodes["lab", "n1"].presence == "offline"


def test_the_newest_state_of_all_brokers_counts() -> None:
    """In whatever order brokers tell, the state of the later epoch and boot stays."""
    first = state("down", epoch=5)
    second = state("ok", epoch=6)
    reboot = state("degraded", boot_id="boot-2", at="2027-02-01T00:00:00Z", epoch=1)
    orders = ([first, second, reboot], [reboot, second, first], [second, reboot, first])
    for order in orders:
        fleet = fleet_of(*(heard("state", one, broker=str(n)) for n, one in enumerate(order)))
        present = fleet.nodes["lab", "n1"].present

        assert present is not None
        assert present.network == "degraded"


def test_an_older_state_of_another_broker_changes_nothing() -> None:
    """Within a boot the order of epochs decides, whoever comes last."""
    new, old = state("ok", epoch=6), state("down", epoch=5)
    fleet = fleet_of(heard("state", new), heard("state", old, broker="b", retained=False))
    present = fleet.nodes["lab", "n1"].present

    assert present is not None
    assert present.network == "ok"


def test_a_node_is_there_while_one_broker_has_it() -> None:
    """The will on the broker that a node left does not take it off the other one."""
    fleet = fleet_of(heard("status", b"online", broker="b"), heard("status", b"offline"))
    assert fleet.nodes["lab", "n1"].presence == "online"

    fleet.broker_lost("b")
    assert fleet.nodes["lab", "n1"].presence == "offline"

    fleet.broker_lost("a")
    assert fleet.nodes["lab", "n1"].presence == "unseen"


def test_a_node_that_was_cleared_is_gone() -> None:
    """Empty retained messages take a node off the list."""
    fleet = fleet_of(heard("status", b"online"), heard("state", state()))
    fleet.take(heard("state", b""))
    fleet.take(heard("status", b""))

    assert fleet.nodes == {}


@given(st.binary(max_size=200), st.sampled_from(["state", "status", "birth", "event/x", "cmd/x"]))
def test_nothing_that_comes_breaks_the_picture(payload: bytes, leaf: str) -> None:
    """Whatever is published, a good state stays, and a row and details can be made."""
    fleet = fleet_of(heard("state", state("down")), heard(leaf, payload, broker="b"))
    for node in fleet.nodes.values():
        assert row_of(node, NOW_S)
        assert details(node, NOW_S)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | HOSTILE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(HOSTILE, inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(DOCUMENTS["down"])), JSON, st.sampled_from(["", "detail"]))
def test_a_state_of_another_version_is_shown_as_far_as_it_goes(
    field: str, value: Any, where: str
) -> None:
    """Any field may hold anything: the node is shown, and no line holds a control character."""
    changed = dict(DOCUMENTS["down"])
    if where:
        names = sorted(changed["detail"])
        changed["detail"] = {**changed["detail"], names[len(field) % len(names)]: value}
    else:
        changed[field] = value
    fleet = fleet_of(heard("status", b"online"), heard("state", json.dumps(changed).encode()))
    node = fleet.nodes["lab", "n1"]
    lines = details(node, NOW_S)

    assert all(text.isprintable() for line in lines for text, _ in line)
    assert row_of(node, NOW_S).why.isprintable()


@given(HOSTILE, st.integers(3, 30))
def test_texts_from_outside_cannot_steer_a_terminal(text: str, most: int) -> None:
    """No escape, no control character and no mark of direction comes through, nor too much."""
    shown = printable(text, most)

    assert shown.isprintable()
    assert len(shown) <= most


@given(st.floats(0, 1e9))
def test_an_age_changes_once_a_minute_at_most(seconds: float) -> None:
    """Two moments of one minute of age are drawn alike, so that a slow line stays quiet."""
    assert ago(seconds) == ago(seconds // 60 * 60 + 59.9)


def test_lengths_of_time() -> None:
    """Two units are enough."""
    assert [lasted(seconds) for seconds in (0, 0.2, 59, 185, 7800, 8 * 86400)] == [
        "0 s",
        "<1 s",
        "59 s",
        "3 min 5 s",
        "2 h 10 min",
        "8 d",
    ]


ROWS = st.lists(
    st.builds(
        lambda name, level, since_s, why: Row(
            ("lab", name),
            level,
            "online",
            "ok",
            "ok",
            "go",
            "go",
            since_s,
            since_s,
            sure_of_time=True,
            why=printable(why),
            text=f"lab/{name} {printable(why)}".lower(),
        ),
        NAMES,
        st.sampled_from(list(Level)),
        st.floats(1.7e9, NOW_S),
        HOSTILE,
    ),
    max_size=30,
    unique_by=lambda row: row.key,
)


@given(ROWS, st.text("ab!- ", max_size=6))
def test_filtering_keeps_what_matches_and_nothing_else(rows: list[Row], wanted: str) -> None:
    """All words must occur, none behind ``!`` may; the worst stand first; nothing doubles."""
    shown = arranged(rows, wanted)
    levels = [row.level for row in shown]

    assert sorted(levels, reverse=True) == levels
    assert len({row.key for row in shown}) == len(shown)
    for found in rows:
        fits = all(
            word[1:] not in found.text if word[0] == "!" and word[1:] else word in found.text
            for word in wanted.split()
        )
        assert fits == (found in shown)


def test_counts_name_the_worst_first() -> None:
    """The summary adds up to the number of nodes."""
    rows = [row(), row("down"), row("down"), row("degraded")]

    assert counts(rows) == [(Level.DOWN, 2), (Level.WARNING, 1), (Level.OK, 1)]


KEYS = st.sampled_from(
    ["up", "down", "page up", "page down", "home", "end", "enter", "escape", "/", "a", "n", "b"]
)
SIZES = st.builds(Size, st.integers(1, 130), st.integers(1, 40))


@settings(max_examples=200, deadline=None)
@given(ROWS, SIZES, st.lists(KEYS, max_size=12), st.sampled_from(["", "n1 has no room; " * 9]))
def test_a_screen_is_never_larger_than_the_terminal(
    rows: list[Row], size: Size, keys: list[str], why: str
) -> None:
    """After any keys there are as many lines as rows, none too wide, the mark among them."""
    sight = Sight(rows, {"a:1": BrokerNews("a:1", up=False, reason="no route")}, NOW_S, 1, why)
    ui, room = Ui(), 1
    known: list[Key] = []
    for key in ["", *keys]:
        ui = press(ui, key, known, room) or ui
        lines, ui, known, room = draw(sight, ui, size)

        assert size.rows == len(lines)
        for line in lines:
            assert sum(cell_len(text) for text, _ in line) <= max(0, size.columns - 1)
    marked = [line for line in lines if any("reverse" in style for _, style in line[:1])]
    if ui.mode is Mode.LIST and known and size.columns > 1 and size.rows > 8:
        assert len(marked) == 1


def test_long_names_do_not_cost_the_reason() -> None:
    """However long names are, the reason keeps its room, and what tells least gives way first."""
    long = [replace(row("down"), key=("lab", "x" * 60))]
    for width in (39, 59, 79, 99, 159):
        columns = columns_of(long, width)
        assert sum(cells for _, cells in columns) == width
        least = min(LEAST_WHY, width - columns[0][1] - columns[1][1])
        assert columns[-1][0] == "why"
        assert columns[-1][1] >= least
    names = [name for name, _ in columns_of(long, 79)]
    assert names == ["node", "network", "for", "power", "why"]
    (title, *_), *_ = draw(Sight(long, {}, 0.0), Ui(), Size(40, 10))[0]
    assert title[0] == "1 node"


def test_a_name_without_room_is_said_above_the_list() -> None:
    """Who looks for a node that is not there reads why, before the brokers."""
    why = "n1: nodes of this name are followed at 1024 sites and no more"
    lines = draw(Sight([row()], {}, NOW_S, 7, why), Ui(), Size(100, 10))[0]
    assert "7 messages of more nodes left out" in "".join(text for text, _ in lines[0])
    assert lines[1] == ((why, "red"),)


def test_the_mark_stays_with_its_node() -> None:
    """A node that was marked stays marked when the list is sorted anew."""
    nodes = [replace(row(), key=("lab", name)) for name in "abc"]
    _, ui, keys, room = draw(Sight(nodes, {}, NOW_S), Ui(), Size(80, 20))
    ui = press(ui, "down", keys, room) or ui
    worse = [*nodes[:2], replace(nodes[2], level=Level.DOWN)]
    _, ui, keys, _ = draw(Sight(worse, {}, NOW_S), ui, Size(80, 20))

    assert ui.chosen == ("lab", "b")
    assert keys == [("lab", "c"), ("lab", "a"), ("lab", "b")]


LINES = st.lists(st.text("ab c", max_size=9).map(str.rstrip), max_size=6)


@given(LINES, LINES)
def test_painting_changes_gives_the_same_screen(before: list[str], after: list[str]) -> None:
    """What was drawn before plus the changes is what is to be drawn; equal lines cost nothing."""
    screen = Screen(20, 6)
    screen.feed(changes(None, before))
    screen.feed(changes(before, after))

    assert [*after, *([""] * (6 - len(after)))] == screen.lines
    assert changes(after, after) == ""


PRESSED = st.lists(
    st.sampled_from(["\x1b[A", "\x1bOB", "\x1b[5~", "q", "ü", "\r", "\x7f", "\x1b[1;5C"]),
    max_size=8,
)


@given(PRESSED, st.integers(0, 60))
def test_keys_survive_being_cut(pressed: list[str], cut: int) -> None:
    """Keys are the same wherever a read ends in the middle of one."""
    data = "".join(pressed).encode()
    whole, rest = decode(data, ended=False)
    first, left = decode(data[:cut], ended=False)
    second, end = decode(left + data[cut:], ended=False)

    assert whole == first + second
    assert b"" == rest == end


@given(st.binary(max_size=40))
def test_any_bytes_are_keys_or_nothing(data: bytes) -> None:
    """Noise on the line neither fails nor stays."""
    keys, rest = decode(data, ended=True)

    assert rest == b""
    assert all(keys)


def test_a_lone_escape_is_a_key_once_nothing_follows() -> None:
    """Escape alone is told apart from the begin of an arrow by the time that passes."""
    assert decode(b"\x1b", ended=False) == ([], b"\x1b")
    assert decode(b"\x1b", ended=True) == (["escape"], b"")
    assert decode(b"\x1bq", ended=False) == (["escape", "q"], b"")


def test_a_plain_listing_has_every_node_and_no_escape() -> None:
    """A pipe gets one line for each node, under a heading."""
    fleet = fleet_of(*(heard("state", state("down"), node=f"n{n}") for n in range(50)))
    lines = list(listing(arranged(Rows().of(fleet, NOW_S)), NOW_S))

    assert len(lines) == 51
    assert all(line.isprintable() for line in lines)
    assert "eth1 lost carrier" in lines[1]


def test_a_row_is_made_once_for_a_node_that_stays() -> None:
    """With a thousand nodes, only those that changed cost anything."""
    fleet = fleet_of(heard("state", state(), node="a"), heard("state", state(), node="b"))
    rows = Rows()
    before = {one.key: one for one in rows.of(fleet, NOW_S)}
    fleet.take(heard("status", b"online", node="b"))
    after = {one.key: one for one in rows.of(fleet, NOW_S)}

    assert after["lab", "a"] is before["lab", "a"]
    assert after["lab", "b"] is not before["lab", "b"]
