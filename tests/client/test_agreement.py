"""Ranks that hold, save and stop at the same step: real torch, real gloo, real processes."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from client.ranks import Ranks
from support import netns

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None,
    reason="torch is not installed (pip install torch --index-url .../whl/cpu)",
)
BATTERY = {"checkpoint": {"id": "power-1", "reason": "on battery"}}


@pytest.fixture(scope="module")
def ranks() -> Iterator[Ranks]:
    """The process that loads torch once and forks every rank."""
    ranks = Ranks()
    yield ranks
    ranks.close()


def values(found: list[dict[str, Any]]) -> list[Any]:
    """Return what the ranks returned; all must have ended well."""
    assert [rank["code"] for rank in found] == [0] * len(found), found
    return [rank["value"] for rank in found]


def said(rank: dict[str, Any], text: str) -> int:
    """Count the lines of a rank's log that contain ``text``."""
    return sum(text in line for line in rank["log"])


@pytest.mark.parametrize("world", [1, 2, 4, 8])
def test_all_hold_at_one_step_and_leave_together(ranks: Ranks, tmp_path: Path, world: int) -> None:
    """One node's network is down: every rank holds at the same step, and all go on together."""
    found = ranks.run("hold_together", world, tmp_path)

    held = values(found)
    assert {tuple(rank["held_at"]) for rank in held} == {tuple(held[0]["held_at"])}
    assert len(held[0]["held_at"]) == 1
    assert held[0]["ranks"] == world
    left = [rank["marks"]["resumed"] for rank in found]
    assert max(left) - min(left) < 0.5
    assert said(found[-1], "training on hold: network down (eth0 lost carrier)") == 1
    if world > 1:
        assert said(found[0], "training on hold: the network of another node is down") == 1


def test_one_request_one_checkpoint(ranks: Ranks, tmp_path: Path) -> None:
    """Ranks of one node hear of the battery at different steps: all save once, at one step."""
    script = {str(rank): [[5 + 7 * rank, BATTERY]] for rank in range(3)}

    saved = values(ranks.run("saves", 3, tmp_path, script=script))

    assert saved == [saved[0]] * 3
    assert len(saved[0]["saved"]) == 1


def test_only_rank_0_asks(ranks: Ranks, tmp_path: Path) -> None:
    """``if rank == 0 and hold.checkpoint_due(step)``: one save, nobody waits or asks on."""
    script = {"1": [[5, BATTERY]]}

    found = ranks.run("saves", 2, tmp_path, script=script, only_first=True)

    first, second = values(found)
    assert (len(first["saved"]), second["saved"]) == (1, [])
    assert said(found[0], "another node is on battery") == 1


def test_seconds_are_common(ranks: Ranks, tmp_path: Path) -> None:
    """Seconds pass differently in each rank: a schedule in seconds is agreed."""
    found = ranks.run("saves", 2, tmp_path, script={}, checkpoint_every_s=0.1, steps=150)

    saved = values(found)
    assert saved[0] == saved[1]
    assert len(saved[0]["saved"]) > 1


def test_a_failed_save_is_repeated_by_all(ranks: Ranks, tmp_path: Path) -> None:
    """One rank's disk is full: every rank saves again, at one step, as a save is a collective."""
    saved = values(
        ranks.run("saves", 2, tmp_path, script={}, checkpoint_every_steps=20, fails_at=20)
    )

    assert saved[0] == saved[1]
    first, second, *rest = saved[0]["saved"]
    assert (first, rest) == (20, [40])
    assert 20 < second < 40


def test_a_rank_that_cannot_save_delays_all(ranks: Ranks, tmp_path: Path) -> None:
    """With saves over the network, no rank is due while one has its uploads on hold."""
    script = {"0": [[5, BATTERY]], "1": [[2, {"uploads": "hold"}], [45, {}]]}

    found = ranks.run(
        "saves", 2, tmp_path, script=script, checkpoint_to="remote", checkpoint_every_steps=20
    )

    saved = values(found)
    assert saved[0] == saved[1]
    assert len(saved[0]["saved"]) == 1
    assert saved[0]["saved"][0] >= 45
    assert said(found[0], "no checkpoint although one is asked for (on battery)") == 1


@pytest.mark.parametrize("seed", range(2))
def test_random_agents(ranks: Ranks, tmp_path: Path, seed: int) -> None:
    """Whatever the agents say and when: all ranks do the same at the same steps."""
    did = values(ranks.run("random_agents", 4, tmp_path, seed=seed, steps=100))

    assert did == [did[0]] * 4
    assert len({what[0] for what in did[0]}) >= 2


@pytest.mark.parametrize("shape", ["ddp", "fsdp"])
def test_models(ranks: Ranks, tmp_path: Path, shape: str) -> None:
    """With four micro-batches a step, a collective save and a hold; ranks compute the same."""
    done = values(ranks.run("models", 2, tmp_path, shape=shape))

    assert done[0] == done[1]
    assert (len(done[0]["saved"]), done[0]["held"]) == (1, True)


@pytest.mark.parametrize("join", [False, True])
def test_uneven_batches(ranks: Ranks, tmp_path: Path, join: bool) -> None:  # noqa: FBT001
    """A rank that is done closes its Hold; the others are told, and train to their end."""
    found = ranks.run("uneven", 2, tmp_path, join=join)

    assert [rank["steps"] for rank in values(found)] == [40, 25]
    assert said(found[0], "another rank has closed its Hold") == 1


def test_a_cable_is_pulled_between_two_nodes(ranks: Ranks, tmp_path: Path) -> None:
    """A link down for 3 s stalls training by itself; then all hold and go on together."""
    if netns.missing():
        pytest.skip(netns.missing())
    with netns.Namespace() as one, netns.Namespace() as two:
        one.veth("eth0", "eth0", other=two)
        one.ip("addr add 10.0.0.1/24 dev eth0")
        two.ip("addr add 10.0.0.2/24 dev eth0")
        found = ranks.run(
            "cable_pulled",
            2,
            tmp_path,
            down_s=3.0,
            env={"GLOO_SOCKET_IFNAME": "eth0"},
            namespaces=[one.path, two.path],
        )

    first, second = values(found)
    assert first["held_at"] == second["held_at"] != []
    assert [first["steps"], second["steps"]] == [120, 120]
    assert all(3.0 < rank["longest_s"] < 10.0 for rank in (first, second)), (first, second)


def test_a_late_rank(ranks: Ranks, tmp_path: Path) -> None:
    """Ranks that start earlier wait for the last one."""
    held = values(ranks.run("late", 2, tmp_path))

    assert held[0]["held_at"] == held[1]["held_at"]


def test_all_give_up_at_once(ranks: Ranks, tmp_path: Path) -> None:
    """The rank with the shortest limit ends the hold for all, with the resumable exit code."""
    found = ranks.run("give_up", 3, tmp_path, max_hold_s=1.0)

    assert [rank["code"] for rank in found] == [75] * 3
    assert all(rank["error"].startswith("GiveUp: on hold for") for rank in found)
    ends = [rank["ended_s"] for rank in found]
    assert max(ends) - min(ends) < 0.5


def test_give_up_and_exit(ranks: Ranks, tmp_path: Path) -> None:
    """A loop that catches GiveUp may end by exit(): ranks wait for each other, markers are left."""
    found = ranks.run("give_up", 2, tmp_path, max_hold_s=0.5, leave=True)

    assert [rank["error"] for rank in found] == ["SystemExit: 75"] * 2
    assert all((tmp_path / f"stop-{rank}").exists() for rank in range(2))
    assert not any("before the others" in line for rank in found for line in rank["log"])


def test_a_forked_child_is_no_rank(ranks: Ranks, tmp_path: Path) -> None:
    """A data worker that inherits the Hold enters no agreement, and disturbs none."""
    found = values(ranks.run("forks", 2, tmp_path))

    assert found == [{"ranks": 2, "child": 1}] * 2


def test_a_hold_made_before_the_ranks(ranks: Ranks, tmp_path: Path) -> None:
    """Where torch.distributed comes later, the first step() begins to agree."""
    found = values(ranks.run("hold_together", 2, tmp_path, begin=False))

    assert [rank["ranks"] for rank in found] == [2, 2]
    assert found[0]["held_at"] == found[1]["held_at"] != []


def test_a_hold_ends_before_the_timeout(ranks: Ranks, tmp_path: Path) -> None:
    """max_hold_s beyond what the process group bears is cut, and one rank says so."""
    found = ranks.run("give_up", 2, tmp_path, max_hold_s=600.0, timeout_s=2.0)

    assert [rank["code"] for rank in found] == [75, 75]
    assert said(found[0], "a hold ends after 1.6 s, not after max_hold_s = 600 s") == 1
    assert said(found[1], "a hold ends after") == 0


@pytest.mark.parametrize("how", ["dies", "freezes"])
def test_a_peer_goes_during_a_hold(ranks: Ranks, tmp_path: Path, how: str) -> None:
    """It ends as in a collective of training: at once when it died, at the group's timeout."""
    found = ranks.run("peer_goes", 3, tmp_path, how=how, timeout_s=3.0)

    gone_s = float((tmp_path / "gone").read_text())
    assert found[-1]["code"] == -9
    for rank in found[:-1]:
        assert rank["error"].startswith("RuntimeError: "), rank
        assert said(rank, "the ranks could not agree: one has ended or hangs") == 1
        assert rank["ended_s"] - gone_s < (1.5 if how == "dies" else 4.5)


def test_a_step_left_out_on_one_rank(ranks: Ranks, tmp_path: Path) -> None:
    """Where no collective of training shows it, every rank says so once, and at its end nothing."""
    found = ranks.run("leaves_out", 2, tmp_path, at=7)

    values(found)
    for rank in found:
        assert said(rank, "one rank is at step") == 1
        assert said(rank, "every rank must call hold.step() for each of its steps") == 1


def test_an_exception_on_one_rank(ranks: Ranks, tmp_path: Path) -> None:
    """A Hold that is left by an exception makes nobody wait for the timeout."""
    first, last = ranks.run("one_fails", 2, tmp_path)

    assert last["error"] == "ValueError: bad batch"
    assert first["error"].startswith("RuntimeError: ")
    assert first["ended_s"] - last["ended_s"] < 2.0


def test_exit_waits_for_the_one_that_saves(ranks: Ranks, tmp_path: Path) -> None:
    """No rank ends, which would make torchrun end the others, while rank 0 is saving."""
    found = ranks.run("slow_save", 3, tmp_path, left_s=60.0)

    assert [rank["code"] for rank in found] == [75] * 3
    assert all(rank["ended_s"] >= found[0]["marks"]["saved"] for rank in found)
    assert all((tmp_path / f"stop-{rank}").exists() for rank in range(3))


def test_exit_ends_before_the_deadline(ranks: Ranks, tmp_path: Path) -> None:
    """A rank that never comes to its end keeps the others no longer than the time that is left."""
    found = ranks.run("slow_save", 2, tmp_path, left_s=7.0, never=True)

    assert found[1]["code"] == 75
    assert 1.0 < found[1]["ended_s"] - found[1]["marks"]["told"] < 4.0
    assert said(found[1], "the time is up, and other ranks have not come to their end") == 1


@pytest.mark.parametrize("held", [False, True])
def test_a_signal_stops_all_ranks(ranks: Ranks, tmp_path: Path, held: bool) -> None:  # noqa: FBT001
    """One rank's handler asks: all save once and stop, at one step, out of a hold too."""
    found = ranks.run("signalled", 3, tmp_path, held=held)

    first, *others = values(found)
    assert [len(steps) for steps in first] == [1, 1]
    assert others == [first, first]
    assert said(found[-1], "asked to stop: SIGTERM") == 1
    assert said(found[0], "asked to stop: the program asks for it on another rank") == 1


def test_a_stop_that_is_withdrawn(ranks: Ranks, tmp_path: Path) -> None:
    """All ranks see the stop and its end at the same steps, and training goes on."""
    found = ranks.run("stop_withdrawn", 2, tmp_path)

    first, second = values(found)
    assert first == second
    assert [True in first["seen"], first["seen"][-1]] == [True, False]
    assert said(found[1], "asked to stop no more: training goes on") == 1


@pytest.mark.parametrize(("left_s", "local_only"), [(0.25, True), (20.0, False)])
def test_the_slowest_save_and_the_shortest_time(
    ranks: Ranks,
    tmp_path: Path,
    left_s: float,
    local_only: bool,  # noqa: FBT001
) -> None:
    """One rank's save takes 0.2 s, another one's node ends: 1.5 saves must fit, on all ranks."""
    found = values(ranks.run("fits", 2, tmp_path, left_s=left_s))

    assert [rank["local_only"] for rank in found] == [local_only] * 2
    assert found[0]["step"] == found[1]["step"]
    assert all(rank["left"] <= left_s for rank in found)


def test_watchdogs_are_fed_while_ranks_wait(ranks: Ranks, tmp_path: Path) -> None:
    """A rank that waits at an agreement for a slow one gives a sign of life twice a second."""
    found = ranks.run("beats", 2, tmp_path)

    beats = values(found)[1]
    began_s = found[1]["marks"]["began"]
    assert len(beats) >= 3
    pairs = zip([began_s, *beats], [*beats, began_s + 2.0], strict=True)
    assert max(after - before for before, after in pairs) < 0.75


def test_without_agree_nothing_is_held(ranks: Ranks, tmp_path: Path) -> None:
    """A lone hold would end the job at the group's timeout: it is not made, and it says why."""
    found = ranks.run("alone", 2, tmp_path)

    assert [rank["held_s"] for rank in values(found)] == [0.0, 0.0]
    assert said(found[0], 'write Hold.connect(agree="torch") on every rank') == 1


def test_torch_distributed_is_ended_first(ranks: Ranks, tmp_path: Path) -> None:
    """destroy_process_group() before close(): nobody waits, nothing is raised."""
    assert values(ranks.run("destroyed_first", 2, tmp_path)) == [1, 1]


def test_with_debug_mode_of_torch(ranks: Ranks, tmp_path: Path) -> None:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL wraps each group: agreement works, its timeout is found."""
    found = ranks.run(
        "in_debug_mode", 2, tmp_path, env={"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}, timeout_s=100.0
    )

    assert values(found) == [80.0, 80.0]
