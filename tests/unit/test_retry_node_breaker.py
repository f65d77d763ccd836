"""The breaker that the processes of a node share, with real files and processes."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.client.boot import boot_id
from linkhold.client.retry import files, keep, standing
from linkhold.client.retry.breaker import Breaker, State, file_kind
from linkhold.client.retry.keep import Shared
from linkhold.client.retry.policy import Limits
from linkhold.client.retry.sealed import Damaged
from linkhold.client.retry.standing import Permit, Rules, Standing
from linkhold.client.voice import Memo

if TYPE_CHECKING:
    import threading
    from multiprocessing.connection import Connection
    from pathlib import Path

RULES = Rules(failures=3, open_s=0.4, longest_open_s=20.0)
SPAWN = multiprocessing.get_context("spawn")
FORK = multiprocessing.get_context("fork")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(files.FOLDER_VARIABLE, str(tmp_path / "shared"))


def breaker(lines: list[str] | None = None, name: str = "s3") -> Breaker:
    """Return a breaker object of its own on the file of a dependency."""
    return Breaker(
        failures=RULES.failures,
        open_s=RULES.open_s,
        longest_open_s=RULES.longest_open_s,
        share=lambda: 1.0,
        keep=Shared(name, file_kind(RULES), Memo([] if lines is None else lines)),
    )


def fail(one: Breaker) -> None:
    """Make a call that fails."""
    permit = one.admit()
    assert permit is not None
    one.failed(permit)


def test_processes_learn_from_each_other() -> None:
    """Three failures of three processes open it for a fourth; others' dependencies are others."""
    for _ in range(3):
        fail(breaker())

    assert (breaker().state, breaker().admit()) == (State.OPEN, None)
    assert breaker(name="tracker").state is State.CLOSED


def test_one_probe_for_the_node() -> None:
    """Half-open, one process probes; its success lets all of them through."""
    for _ in range(3):
        fail(breaker())
    time.sleep(RULES.open_s)
    one, other = breaker(), breaker()
    probe = one.admit()

    assert probe is not None
    assert probe.probe
    assert other.admit() is None
    one.succeeded(probe)
    assert other.state is State.CLOSED


def test_one_probe_for_the_node_after_a_link_event() -> None:
    """Each process hears that the link is back; only the first lets a probe through."""
    ranks = [breaker() for _ in range(8)]
    for rank in ranks:
        rank.trip()
    probes = []
    for rank in ranks:
        rank.recover()
        probes.append(rank.admit())

    assert [bool(probe) for probe in probes] == [True] + [False] * 7
    assert probes[0] is not None
    ranks[0].failed(probes[0])
    assert {rank.state for rank in ranks} == {State.OPEN}


def test_a_late_process_does_not_open_what_works() -> None:
    """One that hears of the recovery after another's success sends no probe and stops nobody."""
    early, late = breaker(), breaker()
    early.trip()
    late.trip()
    early.recover()
    probe = early.admit()
    assert probe is not None
    early.succeeded(probe)
    late.recover()

    assert (early.state, late.state) == (State.CLOSED, State.CLOSED)


def _ask(answers: Connection, begin: threading.Event) -> None:
    mine = breaker()
    begin.wait()
    answers.send(sum(mine.admit() is not None for _ in range(50)))


def test_many_processes_get_one_probe() -> None:
    """Six processes ask 50 times each at once: one of 300 gets leave."""
    for _ in range(3):
        fail(breaker())
    time.sleep(RULES.open_s)
    begin = SPAWN.Event()
    pipes = [SPAWN.Pipe(duplex=False) for _ in range(6)]
    workers = [SPAWN.Process(target=_ask, args=(end, begin)) for _, end in pipes]
    for worker in workers:
        worker.start()
    begin.set()
    found = [ours.recv() for ours, _ in pipes]
    for worker in workers:
        worker.join()

    assert sum(found) == 1


@pytest.mark.parametrize("content", [b"x", b"garbage" * 100, standing.pack(Standing(row=2))[:-1]])
def test_a_damaged_file_begins_anew(content: bytes) -> None:
    """It is closed, works on, and one line says so."""
    path = files.path_of("s3", "breaker")
    path.parent.mkdir(mode=0o700)
    path.write_bytes(content)
    lines: list[str] = []
    one = breaker(lines)

    assert one.state is State.CLOSED
    for _ in range(3):
        fail(one)
    assert breaker().state is State.OPEN
    assert len(lines) == 1
    assert "starts anew" in lines[0]


def test_what_another_boot_left_is_not_believed() -> None:
    """Its clock has begun anew since: closed, however near its moments look."""
    path = files.path_of("s3", "breaker")
    path.parent.mkdir(mode=0o700)
    now_s = time.monotonic()
    for ahead_s, boot in ((1e6, boot_id()), (100.0, "another boot")):
        opened = Standing(row=3, phases=1, until_s=now_s + ahead_s)
        path.write_bytes(standing.pack(opened, boot))

        assert breaker().state is State.CLOSED
    path.write_bytes(standing.pack(replace(opened, until_s=now_s + 100.0), boot_id()))
    assert breaker().state is State.OPEN


def test_without_a_folder_it_is_the_process_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it knew stays known, other processes do not know, one line says so; later it is used."""
    files.folder().mkdir()
    files.folder().chmod(0o777)
    lines: list[str] = []
    one = breaker(lines)
    for _ in range(3):
        fail(one)

    assert (one.state, breaker().state) == (State.OPEN, State.CLOSED)
    assert len(lines) == 1
    assert "others may write" in lines[0]
    files.folder().chmod(0o700)
    monkeypatch.setattr(keep, "ALONE_S", 0.0)
    assert breaker().state is State.CLOSED


def test_a_child_forked_while_the_lock_is_held(tmp_path: Path) -> None:
    """The copy of the descriptor in the child keeps nobody out."""
    with files.locked(files.path_of("s3", "breaker")):
        child = FORK.Process(target=time.sleep, args=(30,))
        child.start()
    try:
        began_s = time.monotonic()
        lines: list[str] = []
        assert breaker(lines).state is State.CLOSED
        assert lines == []
        assert time.monotonic() - began_s < files.PATIENCE_S
    finally:
        child.kill()
        child.join()
    assert list((tmp_path / "shared").iterdir())


def test_whose_it_is_can_be_chosen() -> None:
    """``breaker="process"`` shares nothing; another word is refused with those allowed."""
    assert Limits().breaker == "node"
    with pytest.raises(ValueError, match="breaker: 'mine' is not one of node, process"):
        Limits(breaker="mine")


standings = st.builds(
    Standing,
    st.integers(0, 2**32 - 1),
    st.integers(0, 64),
    st.none() | st.floats(0, 1e9),
    st.integers(0, 2**63),
    st.floats(0, 1e9),
    st.floats(0, 1e9),
)


@given(standings)
def test_what_is_written_is_read(known: Standing) -> None:
    """It survives the file."""
    assert standing.unpack(standing.pack(known)) == known
    assert standing.unpack(standing.pack(known, "a"), "a") == known
    assert standing.unpack(standing.pack(known, "a"), "b") == Standing()


@given(standings, st.integers(0, 200))
def test_a_flipped_bit_is_seen(known: Standing, at: int) -> None:
    """Damage is never taken for knowledge."""
    whole = bytearray(standing.pack(known))
    whole[at % len(whole)] ^= 0x10
    with pytest.raises(Damaged):
        standing.unpack(bytes(whole))


@given(standings, st.floats(0, 1e9), st.floats(0, 1e6), st.floats(0, 1))
def test_no_phase_lasts_for_ever(
    known: Standing, now_s: float, asked_s: float, share: float
) -> None:
    """Whatever was known: a failure keeps calls away for 5 minutes at most, and is believed."""
    after = known.failed(Permit(1, probe=False), now_s, RULES, asked_s=asked_s, share=share)
    if after.until_s is not None and after.until_s != known.until_s:
        assert after.until_s - now_s <= standing.LONGEST_ASKED_S + 1e-3
        fresh = Standing(until_s=after.until_s, eased_s=min(known.eased_s, now_s))
        assert fresh.believable(now_s, RULES)
