"""Holds of operators: limits, ends, restarts, and what they mean for the jobs of a node."""

from __future__ import annotations

import asyncio
import grp
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from client.states import view
from linkhold.client import decision, kin
from linkhold.client.settings import Settings
from linkhold.daemon.operator_holds import OperatorHolds, asker
from linkhold.decide import operator_hold
from linkhold.decide.operator_hold import DEFAULT_S, LEAST_S, MOST_HOLDS, MOST_S, Order
from linkhold.decide.readings import OperatorHoldsReading
from linkhold.door import Peer
from linkhold.model import (
    LinkholdError,
    Moment,
    PowerState,
    Severity,
    Training,
    Uploads,
)
from linkhold.model.holds import OperatorHold
from linkhold.model.jobs import Training as Jobs
from linkhold.model.jobs import TrainingProcess
from linkhold.survey.files import Reader
from linkhold.survey.job_members import members
from linkhold.wire.holds import holds_document, parse_holds
from support.world import World, single, types

if TYPE_CHECKING:
    from pathlib import Path

    from linkhold.decide.readings import Reading
    from linkhold.model import Event

S = 10**9
NOW = Moment(1000 * S, 1_800_000_000.0)
BOTH = Order(uploads=True, training=True, why="switch work")


def hold(world: World, order: Order = BOTH) -> list[Event]:
    """Have an operator hold something in a world."""
    holds, news = operator_hold.place(world.state.holds, order, "ann", 1000, world.now)
    return world.take(OperatorHoldsReading(holds, tuple(news)))


def held(**changes: Any) -> OperatorHold:
    """Return a hold of training and uploads of the node, for ten minutes from NOW."""
    ends = Moment(NOW.mono_ns + 600 * S, NOW.wall_s + 600)
    fields = {"job": "", "uploads": True, "training": True, "why": "w", "by": "ann", "uid": 1000}
    return OperatorHold(**{**fields, "began": NOW, "ends": ends, **changes})


# The node.


def test_a_hold_of_the_node_holds_until_its_end() -> None:
    """Advice, cause and event at once; it ends by the clock alone, with an event."""
    world = World()
    world.look(single())
    begun = hold(world)

    assert types(begun) == ["hold.started", "advice.changed"]
    assert begun[0].severity is Severity.WARNING
    assert (begun[0].subject, begun[0].data["by"]) == ("node", "ann")
    assert (world.advice.uploads, world.advice.training) == (Uploads.HOLD, Training.HOLD)
    assert "held by ann" in world.state.cause[-1]
    assert world.state.cause[-1].endswith("switch work")
    assert world.sleep(DEFAULT_S - 1) == []
    ended = world.sleep(1)
    assert types(ended) == ["hold.ended", "advice.changed"]
    assert ended[0].data["reason"] == "its time is over"
    assert ended[0].data["lasted_s"] == pytest.approx(DEFAULT_S)
    assert (world.advice.uploads, world.advice.training) == (Uploads.GO, Training.GO)
    assert (world.state.holds, world.state.cause) == ((), ())


@pytest.mark.parametrize("absent_s", [1.0, DEFAULT_S + 60])
def test_a_hold_survives_the_agent_but_not_its_end(absent_s: float) -> None:
    """A restart in the same boot goes on with it, and ends one whose time is over meanwhile."""
    world = World()
    world.look(single())
    hold(world)
    again = world.restart(absent_s=absent_s)
    seen = types(again.look(single()))

    late = absent_s > DEFAULT_S
    assert again.advice.training is (Training.GO if late else Training.HOLD)
    assert ("hold.ended" in seen) is late
    if not late:
        assert again.state.holds == world.state.holds
        assert "hold.ended" in types(again.sleep(DEFAULT_S - absent_s))


def test_a_boot_forgets_a_hold() -> None:
    """Its end is a time of the boot before."""
    world = World()
    world.look(single())
    hold(world)
    again = world.restart(boot_id="boot-2")
    again.look(single())

    assert again.state.holds == ()
    assert again.advice.training is Training.GO


def test_the_wall_clock_ends_no_hold() -> None:
    """A clock that is set forward by a day changes nothing."""
    world = World()
    world.look(single())
    hold(world)
    world.wall_offset_s = 86400.0
    world.sleep(10)

    assert world.advice.training is Training.HOLD


def test_a_failing_battery_goes_before_a_hold() -> None:
    """The newest checkpoint may leave a node that ends; stop and checkpoint are asked for."""
    world = World()
    world.look(single())
    hold(world)
    world.power(PowerState.LOW, runtime_s=60)

    assert world.advice.uploads is Uploads.NEWEST
    assert world.advice.stop is not None
    assert world.advice.checkpoint is not None


def test_a_hold_of_one_job_leaves_the_nodes_advice_alone() -> None:
    """It stands in the state, for the clients of that job."""
    world = World()
    world.look(single())
    before = world.advice
    order = Order(uploads=True, training=True, why="w", job="train.py@7", processes=((7, 70),))
    events = hold(world, order)

    assert [(event.type, event.subject) for event in events] == [("hold.started", "train.py@7")]
    assert world.advice == before
    assert world.document()["holds"][0]["processes"] == [[7, 70]]


def test_a_second_hold_takes_the_place_of_the_first() -> None:
    """One for the node and one for each job; the newest word counts, also when it is less."""
    holds, _ = operator_hold.place((), BOTH, "ann", 1000, NOW)
    job = Order(uploads=True, training=False, why="w", job="a@1")
    holds, _ = operator_hold.place(holds, job, "ann", 1000, NOW)
    shorter = Order(uploads=True, training=False, why="other", for_s=60)
    holds, news = operator_hold.place(holds, shorter, "bob", 1001, NOW)

    assert [(one.job, one.why) for one in holds] == [("a@1", "w"), ("", "other")]
    assert news[0].data["renewed"] is True
    left, ended = operator_hold.lift(holds, ("a@1",), "eve", NOW)
    assert [one.job for one in left] == [""]
    assert (ended[0].data["by"], ended[0].data["reason"]) == ("ann", "resumed by eve")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"uploads": False, "training": False}, "allowed: uploads, training or both"),
        ({"for_s": LEAST_S - 1}, "allowed: 5 s to 4 h"),
        ({"for_s": MOST_S + 1}, "allowed: 5 s to 4 h"),
        ({"for_s": float("nan")}, "out of range"),
        ({"why": "  "}, "1 to 200 printable"),
        ({"why": "x" * 201}, "1 to 200 printable"),
        ({"why": "red\x1b[31m"}, "1 to 200 printable"),
        ({"why": "two\nlines"}, "1 to 200 printable"),
    ],
)
def test_what_may_not_be_held_so(changes: dict[str, Any], says: str) -> None:
    """The error says what is allowed."""
    order = Order(**{"uploads": True, "training": True, "why": "w", **changes})
    with pytest.raises(LinkholdError, match=says):
        operator_hold.check(order)


def test_holds_are_bounded() -> None:
    """Sixteen at once; a renewal is no further one."""
    holds: operator_hold.Holds = ()
    for number in range(MOST_HOLDS):
        order = Order(uploads=True, training=True, why="w", job=f"a@{number}")
        holds, _ = operator_hold.place(holds, order, "ann", 0, NOW)
    with pytest.raises(LinkholdError, match="16 holds are in force"):
        operator_hold.place(holds, BOTH, "ann", 0, NOW)
    again = Order(uploads=True, training=False, why="w", job="a@3")
    assert len(operator_hold.place(holds, again, "ann", 0, NOW)[0]) == MOST_HOLDS


@given(
    st.builds(
        held,
        job=st.sampled_from(["", "train.py@x"]),
        uploads=st.booleans(),
        training=st.booleans(),
        why=st.text(),
        processes=st.lists(st.tuples(st.integers(1, 1 << 22), st.integers(0))).map(tuple),
    )
)
def test_what_is_written_is_read_back(one: OperatorHold) -> None:
    """The state document keeps everything that a restart and a client need."""
    assert parse_holds(holds_document([one])) == (one,)


@given(st.recursive(st.none() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["job", "uploads", "until", "processes"]), x)))  # fmt: skip
def test_a_damaged_hold_holds_nobody(value: Any) -> None:
    """Reading never raises, and what is damaged is left out."""
    assert parse_holds([value, *holds_document([held()])])[-1:] == (held(),)
    assert parse_holds(value) == ()


# The client.


def guide(*holds: OperatorHold, at_s: float = 1001, ours: bool = False, **advice: Any) -> Any:
    """Return what a state with these holds asks of a job, which job holds mean or not."""
    state = view(mono_ns=int(at_s * S), **advice)
    state = replace(state, document={**state.document, "holds": holds_document(holds)})
    return decision.guide(Settings(), state, int(at_s * S), lambda _: ours)


def test_a_client_says_who_holds_it_and_until_when() -> None:
    """The hold of the node comes with its words."""
    found = guide(held(), training="hold", uploads="hold")

    assert found.hold.startswith("held by ann until ")
    assert found.hold.endswith(": w")
    assert found.uploads is Uploads.HOLD


def test_whoever_waits_for_uploads_hears_of_the_operator() -> None:
    """Also where only the state is known: no fault of network or power explains it."""
    state = view(mono_ns=1001 * S, uploads="hold")
    document = {**state.document, "holds": holds_document([held(job="j", by="eve"), held()])}

    assert decision.why(state) == "the agent asks for it"
    assert decision.why(replace(state, document=document)).startswith("held by ann until ")


def test_only_the_job_that_is_meant_is_held() -> None:
    """Its training and its uploads, until the end, which its own clock knows."""
    one = held(job="train.py@7", processes=((7, 70),))

    assert (guide(one).hold, guide(one).uploads) == (None, Uploads.GO)
    meant = guide(one, ours=True)
    assert (meant.hold is not None, meant.uploads) == (True, Uploads.HOLD)
    assert guide(one, ours=True, uploads="newest").uploads is Uploads.NEWEST
    over = guide(one, ours=True, at_s=1600)
    assert (over.hold, over.uploads) == (None, Uploads.GO)
    uploads = guide(held(job="j", training=False), ours=True)
    assert (uploads.hold, uploads.uploads) == (None, Uploads.HOLD)


def test_a_job_is_known_by_the_processes_above() -> None:
    """A rank that was started after the hold is of the job whose launcher is held."""
    code = "from linkhold.client import kin; print(sorted(kin.family()))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    mine = kin.family()

    assert min(mine)[0] != 0
    assert all(repr(key) in out.stdout for key in mine)
    assert any(key[0] == os.getpid() for key in mine)
    launcher = next(key for key in mine if key[0] == os.getpid())
    assert kin.means_us(held(job="j", processes=(launcher,)))
    assert not kin.means_us(held(job="j", processes=((launcher[0], launcher[1] + 1),)))


def test_a_forked_child_knows_itself() -> None:
    """What the parent remembered of itself is not taken for the child's."""
    assert not kin.means_us(held(job="j", processes=((1 << 22, 1),)))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        own = next(key for key in kin.family() if key[0] == os.getpid())
        os.write(write, b"y" if kin.means_us(held(job="j", processes=(own,))) else b"n")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 1) == b"y"
    os.close(read)
    os.close(write)


def test_processes_in_a_container_are_named_as_they_know_themselves(tmp_path: Path) -> None:
    """The last pid of NSpid; ranks before their workers, for the list is bounded."""
    status = tmp_path / "proc/4711/status"
    status.parent.mkdir(parents=True)
    status.write_text("Name:\tpython\nNSpid:\t4711\t12\n")
    job = Jobs(
        (
            TrainingProcess(4709, 97, 0, "python", (), job="a@1", is_worker=True),
            TrainingProcess(4711, 99, 0, "python", (), job="a@1"),
            TrainingProcess(4712, 98, 0, "python", (), job="a@1"),
            TrainingProcess(4714, 96, 0, "python", (), job="b@2"),
        )
    )
    assert members(Reader(tmp_path), job, "a@1") == ((12, 99), (4712, 98), (4709, 97))


# Who may.


def test_others_than_root_and_the_group_are_refused() -> None:
    """By the kernel's word for user and groups; the error says what to do."""
    reported: list[Reading] = []

    def desk(group: str) -> OperatorHolds:
        return OperatorHolds(reported.append, lambda: (), group)

    async def ask(desk: OperatorHolds, peer: Peer) -> bytes:
        request = {"uploads": True, "training": True, "why": "w", "for_s": 60}
        return await desk.handlers()["hold"](request, peer)

    with pytest.raises(LinkholdError, match="no group linkhold-nobody-has"):
        asyncio.run(ask(desk("linkhold-nobody-has"), Peer(1, 12345, frozenset({1}))))
    with pytest.raises(LinkholdError, match="members of the group daemon may"):
        asyncio.run(ask(desk("daemon"), Peer(1, 12345, frozenset({7777}))))
    assert not reported
    member = Peer(1, 12345, frozenset({grp.getgrnam("daemon").gr_gid}))
    assert b'"by":"uid 12345"' in asyncio.run(ask(desk("daemon"), member))
    assert b'"by":"root"' in asyncio.run(ask(desk("linkhold-nobody-has"), Peer(1, 0)))
    assert len(reported) == 2


@pytest.mark.parametrize(
    ("login", "name"),
    [("4294967295", "root"), ("0", "root"), ("1", "root (login daemon)"), ("x", "root")],
)
def test_who_used_sudo_is_named(tmp_path: Path, login: str, name: str) -> None:
    """The kernel remembers who logged in; without that the user of the process is named."""
    folder = tmp_path / "42"
    folder.mkdir()
    (folder / "loginuid").write_text(login)

    assert asker(Peer(42, 0), tmp_path) == name
    assert asker(Peer(43, 4_000_000), tmp_path) == "uid 4000000"


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        ({"why": 1}, "is no text"),
        ({"for_s": "x"}, "is no number of seconds"),
        ({"for_s": True}, "is no number of seconds"),
        ({"job": "no-such-job-here"}, "no job 'no-such-job-here' here"),
    ],
)
def test_a_wrong_request_changes_nothing(request_: dict[str, Any], says: str) -> None:
    """Whatever a program sends is checked by the agent."""
    reported: list[Reading] = []
    desk = OperatorHolds(reported.append, lambda: ())
    request = {"uploads": True, "training": True, "why": "w", **request_}

    async def ask() -> None:
        await desk.handlers()["hold"](request, Peer(1, 0))

    with pytest.raises(LinkholdError, match=says):
        asyncio.run(ask())
    assert not reported


def test_a_resume_of_nothing_says_what_is_held() -> None:
    """Nobody believes to have ended what goes on."""
    desk = OperatorHolds(lambda _: None, lambda: (held(job="a.py@1"),))

    async def ask(**request: str) -> bytes:
        return await desk.handlers()["resume"](request, Peer(1, 0))

    with pytest.raises(LinkholdError, match=r"nothing of job 'b\.py' is held; held are: a\.py@1"):
        asyncio.run(ask(job="b.py"))
    assert b'"job":"a.py@1"' in asyncio.run(ask(job="a.py"))
    desk = OperatorHolds(lambda _: None, lambda: ())
    with pytest.raises(LinkholdError, match="nothing is held here"):
        asyncio.run(ask())
