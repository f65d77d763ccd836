"""Who is blamed when nobody answers, and what an order by `linkhold bond test` changes."""

from __future__ import annotations

from typing import Any

import pytest

from linkhold.decide.probing import Ordered, Rules
from support.probing import SECOND, BondNode


def settled(**fields: Any) -> BondNode:
    """Return a node whose members have answered for a while."""
    node = BondNode(**fields)
    node.run(10)
    return node


@pytest.mark.parametrize("enforce", [True, False])
def test_standby_that_was_dead_before_it_carried_is_blamed_and_not_the_gateway(
    enforce: bool,  # noqa: FBT001
) -> None:
    """With the standby known dead and the other cable out, it is the path and no silent target."""
    node = settled(rules=Rules(enforce=enforce), tx=50, rx=50)
    node.paths["eth1"] = 1.0
    node.run(20)
    node.carrier("eth0", up=False)
    if not enforce:
        node.see(active="eth1")  # by the kernel's own monitor
    node.run(60)

    assert node.active == "eth1"
    assert (node.path("eth1").verdict, node.paths_told.silent) == ("dead", "")
    assert node.path("eth1").reason == "no answer from 10.0.0.1 through it"

    node.paths["eth1"] = 0.0
    node.run(40)
    assert node.path("eth1").verdict == "alive"


@pytest.mark.parametrize("tx", [0, 5, 200])
def test_dead_gateway_is_blamed_on_no_member(tx: int) -> None:
    """Whenever it dies between two probes: no member is called dead, and the target is silent."""
    for phase in range(10):
        node = BondNode(rules=Rules(enforce=True, seed=phase + 1), tx=tx, rx=tx)
        node.run(10 + phase * 0.137)
        node.gateway, node.rx = (lambda _now_ns: False), 0
        node.run(30)

        assert "dead" not in {*node.verdicts("eth0"), *node.verdicts("eth1")}
        assert node.paths_told.silent == "10.0.0.1 does not answer"


def test_member_that_somebody_moved_away_from_must_answer_anew() -> None:
    """A move by hand is not taken back at once: the preferred one answers for five seconds."""
    node = settled(tx=200, rx=200)
    node.see(active="eth1")
    began_ns = node.now_ns
    node.run(20)

    assert node.moves[0][1].reason == "fail_back"
    assert 5 * SECOND < node.moves[0][0] - began_ns < 8 * SECOND


def test_ordered_test_is_not_taken_back_until_it_ends() -> None:
    """While `linkhold bond test` is at work nothing returns, and no later return is put off."""
    node = settled(tx=200, rx=200)
    node.see(active="eth1")
    node.run(20)  # a return of our own, after which a loss would count as soon
    assert node.active == "eth0"
    count = len(node.moves)

    node.take(Ordered("bond0", node.now_ns + 20 * SECOND))
    node.see(active="eth1")
    began_ns = node.now_ns
    node.run(19)
    assert len(node.moves) == count
    node.run(10)

    assert node.active == "eth0"
    assert 20 * SECOND <= node.moves[-1][0] - began_ns < 23 * SECOND


def test_path_that_dies_during_an_ordered_test_is_left() -> None:
    """Whoever tests wants no outage: a proven dead path is left all the same."""
    node = settled(tx=200, rx=200)
    node.take(Ordered("bond0", node.now_ns + 20 * SECOND))
    node.see(active="eth1")
    node.run(1)
    node.paths["eth1"] = 1.0
    node.run(2)

    assert (node.active, node.moves[-1][1].reason) == ("eth0", "path_dead")
