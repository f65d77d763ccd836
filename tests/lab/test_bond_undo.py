"""When undoing would take away what works: the bond stays until the NIC is back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support import furnish, host_state
from support.bond_change import Host
from support.lab import Box, scenario
from support.topology import ip, wait_until

if TYPE_CHECKING:
    from support.lab.host import Lab


@scenario(timeout_s=120)
def cable_goes_before_the_confirmation(box: Box) -> dict[str, Any]:
    """Apply, pull the old NIC's cable, and let nobody confirm; plug it in again later."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.give_address("eth0")
    furnish.settle()
    host = Host(box.tmp)
    before = host_state.take()
    made = host.apply("--manual", brief=True, guard_s=8)
    net.pull_cable(0)
    wait_until(lambda: _state(box) == "failed", "the guard has tried", timeout_s=30, every_s=0.2)
    answers, links = net.answers(), ip("-br", "link", "show", "bond0")
    told = host.run("rollback")
    net.plug_cable(0)
    host.wait_for_guard()
    return {
        "made": made.code,
        "answers": answers,
        "links": links,
        "told": [told.code, told.said],
        "left": host_state.wait_equal(before),
    }


def _state(box: Box) -> str:
    found = list(box.tmp.rglob("journal.json"))
    return str(json.loads(found[0].read_bytes())["state"]) if found else ""


def test_a_bond_that_carries_is_not_undone_onto_a_dead_nic(lab: Lab) -> None:
    """The old NIC lost its cable: the bond stays over the other one, and goes when it is back."""
    value = lab.run(cable_goes_before_the_confirmation).value

    assert value["made"] == 3
    assert value["answers"], value
    assert "UP" in value["links"]
    assert value["told"][0] == 1
    assert "eth0 has no link, while bond0 carries" in value["told"][1]
    assert value["left"] == []


@scenario(timeout_s=120)
def cable_goes_and_it_is_confirmed(box: Box) -> dict[str, Any]:
    """Apply, pull the old NIC's cable as a trial of the failover, and confirm."""
    net = box.two_switches()
    furnish.quiet_dad()
    net.give_address("eth0")
    furnish.settle()
    host = Host(box.tmp)
    host.apply("--manual", brief=True)
    net.pull_cable(0)
    confirmed = host.run("confirm")
    return {"code": confirmed.code, "said": confirmed.said, "answers": net.answers()}


def test_a_lost_member_is_no_reason_to_refuse_the_bond(lab: Lab) -> None:
    """Who tries the failover before confirming can confirm what worked."""
    value = lab.run(cable_goes_and_it_is_confirmed).value

    assert value["code"] == 0, value
    assert value["answers"]
