"""Which member carries, and what probes prove: under a simulated clock."""

from __future__ import annotations

import random

import pytest

from linkhold.decide.probing import Rules, Sights, Target
from support.probing import GATEWAY, MS, SECOND, BondNode, sight


def settled(seconds: float = 40, **fields: object) -> BondNode:
    """Return a node whose paths are known and whose records are long."""
    node = BondNode(**fields)  # type: ignore[arg-type]
    node.run(seconds)
    assert {member.verdict for member in node.paths_told.members} == {"alive"}
    assert node.moves == []
    return node


@pytest.mark.parametrize("offset_ms", range(0, 1000, 170))
def test_dead_switch_under_traffic_is_left_within_250_ms(offset_ms: int) -> None:
    """Sent and nothing received starts a trial; the standby's answers decide it."""
    node = settled(tx=200, rx=200)
    node.run(offset_ms / 1000)
    died_ns = node.now_ns
    node.paths["eth0"] = 1.0
    node.run(2)

    [(at_ns, move)] = node.moves
    assert at_ns - died_ns <= 250 * MS
    assert (move.member, move.previous, move.reason) == ("eth1", "eth0", "path_dead")
    assert node.active == "eth1"
    assert node.path("eth0").verdict == "dead"
    assert node.path("eth0").died_active
    assert node.outcomes[0].active == "eth1"


def test_dead_switch_of_a_quiet_node_is_left_within_two_seconds() -> None:
    """Where nothing is sent slow probes find it."""
    node = settled()
    died_ns = node.now_ns
    node.paths["eth0"] = 1.0
    node.run(5)

    assert node.moves[0][0] - died_ns < 2 * SECOND


def test_chatter_behind_a_dead_switch_is_no_life() -> None:
    """What others say behind the dead switch delays the move but does not prevent it."""
    node = settled(tx=200, rx=200, chatter=50)
    died_ns = node.now_ns
    node.paths["eth0"] = 1.0
    node.run(5)

    assert node.moves[0][0] - died_ns < 3.5 * SECOND


def test_rest_costs_two_probes_a_second_at_most() -> None:
    """A busy node sends 1.5 probes a second, a quiet one 2, a one-way sender hardly more."""
    for fields, most in (({"tx": 500, "rx": 500}, 1.6), ({}, 2.2), ({"tx": 50}, 3.0)):
        node = settled(**fields)
        since_ns = node.now_ns
        node.run(60)
        assert node.probes_since(since_ns) / 60 < most, fields


def test_dead_gateway_moves_nothing_and_probes_ease() -> None:
    """Silence through every member is the target's; it is told once, and asked less and less."""
    node = settled(tx=50)
    died_ns = node.now_ns
    node.gateway = lambda _now_ns: False
    node.run(3)
    assert node.paths_told.silent == "10.0.0.1 does not answer"
    node.run(600)

    assert node.moves == []
    assert "dead" not in node.verdicts("eth0") + node.verdicts("eth1")
    assert sum(at >= died_ns and bool(paths.silent) for at, paths in node.told) == 1
    assert node.probes_since(node.now_ns - 60 * SECOND) / 60 < 1

    node.gateway = lambda _now_ns: True
    node.run(6)
    assert node.paths_told.silent == ""
    assert node.moves == []


def test_gateway_that_comes_back_behind_one_member_only_is_reached() -> None:
    """When the silent target answers through the standby alone, the standby takes over."""
    node = settled(tx=50)
    node.gateway = lambda _now_ns: False
    node.run(30)
    node.paths["eth0"] = 1.0
    node.gateway = lambda _now_ns: True
    node.run(8)

    assert node.active == "eth1"


def test_gateway_that_ignores_probes_while_traffic_flows_is_alive() -> None:
    """A target that stops to answer while traffic flows both ways is not called silent."""
    node = settled(tx=200, rx=200)
    node.gateway = lambda _now_ns: False
    node.run(300)

    assert node.moves == []
    assert node.paths_told.silent == ""
    assert node.path("eth0").verdict == "alive"


def test_traffic_both_ways_overrules_a_silent_target() -> None:
    """A target was called silent on a quiet node; traffic both ways withdraws that."""
    node = settled()
    node.gateway = lambda _now_ns: False
    node.run(10)
    assert node.paths_told.silent
    node.tx = node.rx = 100
    node.run(4)

    assert node.paths_told.silent == ""


def test_floods_and_chatter_do_not_overrule_a_silent_target() -> None:
    """What others send while we get nothing through does not make a silent target alive."""
    node = settled(tx=2)
    node.gateway = lambda _now_ns: False
    node.run(10)
    assert node.paths_told.silent
    node.chatter = 100
    node.run(30)

    assert node.paths_told.silent


def test_dead_standby_is_told_before_it_is_needed() -> None:
    """A standby whose probes are lost while the active member's are answered is dead."""
    node = settled(tx=200, rx=200)
    died_ns = node.now_ns
    node.paths["eth1"] = 1.0
    node.run(6)

    assert node.path("eth1").verdict == "dead"
    assert not node.path("eth1").died_active
    assert node.told[-1][0] - died_ns < 4 * SECOND
    assert node.moves == []

    node.paths["eth1"] = 0.0
    node.run(4)
    assert node.path("eth1").verdict == "alive"


def test_nothing_moves_to_a_dead_standby() -> None:
    """With both paths dead the bond stays where it is."""
    node = settled(tx=200, rx=200)
    node.paths["eth1"] = 1.0
    node.run(6)
    node.paths["eth0"] = 1.0
    node.run(60)

    assert node.moves == []


def test_standby_that_never_answered_is_unknown() -> None:
    """A VF whose probes are filtered is neither dead nor trusted."""
    node = BondNode(tx=200, rx=200, paths={"eth1": 1.0})
    node.run(120)

    assert node.path("eth1").verdict == "unknown"
    node.paths["eth0"] = 1.0
    node.run(30)
    assert node.moves == []


def test_lost_carrier_is_a_reflex() -> None:
    """The move for a lost carrier is asked for in the same step, and prefers a proven path."""
    node = settled(bond=sight(3))
    node.paths["eth1"] = 1.0
    node.run(10)
    node.carrier("eth0", up=False)

    assert [(move.member, move.reason) for _, move in node.moves] == [("eth2", "carrier")]
    assert node.moves[0][0] == node.now_ns


def test_owners_downdelay_stops_the_reflex() -> None:
    """Who wishes a member to be left later gets that."""
    node = settled(bond=sight(reflex=False))
    node.carrier("eth0", up=False)

    assert node.moves == []


def test_observe_tells_and_moves_nothing() -> None:
    """In mode observe a dead path names the member that would carry, a lost carrier is watched."""
    node = settled(tx=200, rx=200, rules=Rules(enforce=False))
    node.paths["eth0"] = 1.0
    node.run(5)

    assert node.moves == []
    assert node.path("eth0").verdict == "dead"
    assert node.paths_told.would == "eth1"

    node.paths["eth0"] = 0.0
    node.run(5)
    assert node.path("eth0").verdict == "alive"
    assert node.paths_told.would == ""


def test_fail_back_waits_for_a_path_that_answers() -> None:
    """A primary with carrier carries again only after its path answered for five seconds."""
    node = settled(tx=200, rx=200)
    node.carrier("eth0", up=False)
    node.run(2)
    assert node.active == "eth1"
    node.paths["eth0"] = 1.0
    node.carrier("eth0", up=True)
    node.run(30)
    assert node.active == "eth1"
    node.paths["eth0"] = 0.0
    began_ns = node.now_ns
    node.run(20)

    assert node.active == "eth0"
    back = node.moves[-1]
    assert back[1].reason == "fail_back"
    assert 5 * SECOND < back[0] - began_ns < 10 * SECOND


def test_flapping_primary_is_given_ever_longer() -> None:
    """A primary that dies again soon after it came back must answer four times as long."""
    node = settled(tx=200, rx=200)
    waits = []
    for _ in range(3):
        node.paths["eth0"] = 1.0
        node.run(5)
        assert node.active == "eth1"
        node.paths["eth0"] = 0.0
        began_ns = node.now_ns
        while node.active != "eth0":
            node.run(1)
        waits.append((node.now_ns - began_ns) / SECOND)
        node.run(30)

    assert waits[0] < 10
    assert waits[1] > 20
    assert waits[2] > 80


def test_limit_locks_out_for_a_minute() -> None:
    """After moves_per_minute moves the bond stays, says so, and goes on a minute later."""
    node = settled(tx=200, rx=200, bond=sight(preferred="", moves_per_minute=2))
    began_ns = node.now_ns
    for number in range(4):
        dying = node.active
        node.paths = {dying: 1.0}
        node.run(5)
        assert (node.active != dying) is (number < 2)
    assert node.paths_told.locked
    assert len(node.moves) == 2
    node.run(60)

    assert len(node.moves) == 3
    assert node.moves[2][0] - began_ns > 60 * SECOND
    assert not node.paths_told.locked


def test_refused_move_is_told_and_tried_again_within_the_limit() -> None:
    """A kernel that refuses is asked again, but not more often than the limit allows."""
    node = settled(tx=200, rx=200, refuses="Operation not supported")
    node.paths["eth0"] = 1.0
    node.run(30)

    assert node.active == "eth0"
    assert {report.error for report in node.outcomes} == {"Operation not supported"}
    assert len(node.moves) == 4
    assert node.paths_told.locked


def test_new_mac_of_the_gateway_is_found() -> None:
    """A gateway that was replaced is asked for by broadcast before anything is blamed."""
    node = settled(tx=200, rx=200)
    node.gateway_mac = "02:00:00:00:00:77"
    node.rx = 0
    node.run(3)

    assert node.moves == []
    assert node.paths_told.silent == ""
    assert node.path("eth0").verdict == "alive"


def test_standby_probes_never_carry_the_bonds_mac() -> None:
    """Each probe through a standby has the standby's own MAC."""
    node = settled(tx=200, rx=200)
    node.paths["eth0"] = 1.0
    node.run(5)
    node.paths["eth0"] = 0.0
    node.run(30)

    macs = {(probe.standby, probe.source_mac) for _, probe in node.sent}
    assert {mac for standby, mac in macs if not standby} == {"02:00:00:00:01:00"}
    assert not {mac for standby, mac in macs if standby} & {"02:00:00:00:01:00"}


def test_second_target_stands_in_for_a_dead_first_one() -> None:
    """With the first target dead and the second alive nothing is silent and nothing moves."""
    other = Target("10.0.0.3", "10.0.0.2")
    node = settled(tx=50, bond=sight(targets=(GATEWAY, other)))
    dead = {"10.0.0.1"}
    ask = node._ask
    node._ask = lambda probe: None if probe.target.address in dead else ask(probe)  # type: ignore[method-assign]
    node.run(120)

    assert node.moves == []
    assert node.paths_told.silent == ""
    since_ns = node.now_ns
    node.run(30)
    assert node.probes_since(since_ns) / 30 < 4
    node.paths["eth0"] = 1.0
    node.run(3)
    assert node.active == "eth1"


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("tx", [0, 20])
def test_gateway_that_drops_probes_at_random_makes_no_bond_flap(share: float, tx: int) -> None:
    """Eight nodes for three minutes: no bond moves more than once, whatever share is dropped."""
    for seed in range(8):
        dice = random.Random(seed)
        node = BondNode(rules=Rules(enforce=True, seed=seed + 1), random=dice, tx=tx)
        node.run(30)
        node.gateway = lambda _now_ns, dice=dice: dice.random() > share  # type: ignore[misc]
        since_ns = node.now_ns
        node.run(180)
        assert len([move for _, move in node.moves if move.reason == "path_dead"]) <= 1
        assert node.probes_since(since_ns) / 180 < 3


def test_bond_without_targets_is_not_probed() -> None:
    """Nobody to ask: no probe, no verdict, and the reason is told."""
    node = BondNode(bond=sight(targets=(), problem="no gateway over bond0"), tx=100)
    node.run(60)

    assert node.sent == []
    assert node.path("eth0").reason == "no gateway over bond0"
    assert node.path("eth0").verdict == "unknown"


def test_bond_that_is_gone_is_forgotten() -> None:
    """A bond that is no longer seen is neither probed nor told."""
    node = settled()
    node.take(Sights(()))
    assert node.memory.bonds == {}
    since_ns = node.now_ns
    node.run(10)

    assert node.probes_since(since_ns) == 0
