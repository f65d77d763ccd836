"""The topology's faults do to a real bond what they do in a machine room."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING

import pytest

from support.lab import Box, scenario
from support.topology import GATEWAY_6, TwoSwitches, ip, wait_until

if TYPE_CHECKING:
    from support.lab import Outcome
    from support.lab.host import Lab


@scenario()
def pulled_cable(box: Box) -> dict[str, object]:
    """Pull the cable of the active member under traffic, and plug it again."""
    net = box.two_switches()
    bond = net.make_bond(miimon_ms=50, primary_reselect="failure")
    before = bond.active
    with net.probe(rate_hz=200) as probe:
        time.sleep(0.3)
        net.pull_cable(0)
        bond.wait_active("eth1")
        time.sleep(0.3)
    net.plug_cable(0)
    wait_until(lambda: net.carrier("eth0"), "carrier is back")
    return {
        "members": [before, bond.active],
        "outage_ms": probe.traffic.outage_ms,
        "sent": probe.traffic.out.sent,
        "lost": probe.traffic.lost,
    }


@scenario()
def dead_switch(box: Box) -> dict[str, object]:
    """Let the active member's switch forward nothing for a second under traffic."""
    net = box.two_switches()
    bond = net.make_bond(miimon_ms=50)
    with net.probe(rate_hz=100) as probe:
        time.sleep(0.2)
        net.kill_switch(0)
        time.sleep(1)
        active, carrier = bond.active, net.carrier("eth0")
        net.revive_switch(0)
        time.sleep(0.2)
    return {"active": active, "carrier": carrier, "outage_ms": probe.traffic.outage_ms}


@scenario()
def dead_switch_with_arp_monitor(box: Box) -> float:
    """Let the kernel's ARP monitor find the dead switch; return the seconds it took."""
    net = box.two_switches()
    bond = net.make_bond(
        miimon_ms=0, arp_interval=100, arp_ip_target="10.0.0.1", arp_validate="all"
    )
    time.sleep(0.5)
    active = bond.active
    number = ("eth0", "eth1").index(active)
    net.kill_switch(number)
    return bond.wait_active(f"eth{1 - number}")


@scenario()
def lossy_path(box: Box) -> dict[str, object]:
    """Lose a third of the frames each way, then none."""
    net = box.two_switches()
    net.give_address("eth0")
    assert net.answers()
    net.loss(0, 33, delay_ms=20)
    with net.probe(rate_hz=400) as lossy:
        time.sleep(1)
    net.loss(0, 0)
    with net.probe(rate_hz=400, family=6) as whole:
        time.sleep(0.5)
    rate = [stream.lost / stream.sent for stream in (lossy.traffic.out, lossy.traffic.back)]
    return {"rate": rate, "lost_after": whole.traffic.lost, "sent_after": whole.traffic.out.sent}


@scenario()
def two_ways_to_the_gateway(box: Box) -> dict[str, list[bool]]:
    """Ask the gateway through each NIC, with both switches alive and with one dead."""
    net = box.two_switches()
    for number, nic in enumerate(("eth0", "eth1")):
        ip("addr", "add", f"10.0.0.1{number}/24", "dev", nic)
        ip("addr", "add", f"fd00::1{number}/64", "dev", nic, "nodad")

    def ways() -> list[bool]:
        return [net.answers(via=nic) for nic in ("eth0", "eth1")]

    both = [*ways(), net.answers(GATEWAY_6, via="eth0"), net.answers(GATEWAY_6, via="eth1")]
    net.kill_switch(0)
    one = ways()
    net.revive_switch(0)
    net.kill_switch(1)
    return {"both": both, "sw1 only": one, "sw0 only": ways()}


@scenario()
def node_in_a_namespace(box: Box) -> list[object]:
    """Build two topologies side by side around named nodes, and remove one."""
    for name in ("n1", "n2"):
        ip("netns", "add", name)
    with TwoSwitches.create(node="n1") as first, TwoSwitches.create(node="n2") as second:
        bond = first.make_bond()
        second.give_address("eth0")
        first.pull_cable(0)
        bond.wait_active("eth1")
        with second.probe() as probe:
            time.sleep(0.2)
        answers = [first.answers(), second.answers(), probe.traffic.lost]
    return [*answers, ip("netns").split(), [n for _, n in socket.if_nameindex()]]


def _shown(outcome: Outcome) -> str:
    return f"{outcome.value}\n{outcome.describe()}"


def test_pulled_cable_fails_over(lab: Lab) -> None:
    """A cable pulled from the active member moves the bond to the standby within 0.3 s."""
    outcome = lab.run(pulled_cable)

    assert outcome.value["members"] == ["eth0", "eth1"]
    assert outcome.value["outage_ms"] < 300, _shown(outcome)
    assert outcome.value["sent"] > 20, _shown(outcome)
    assert any("making interface the new active one" in line for line in outcome.kernel_log)


def test_dead_switch_is_never_noticed_by_miimon(lab: Lab) -> None:
    """With miimon alone a dead switch behind a live link is an outage for as long as it lasts."""
    outcome = lab.run(dead_switch)

    assert (outcome.value["active"], outcome.value["carrier"]) == ("eth0", True)
    assert outcome.value["outage_ms"] >= 900, _shown(outcome)


def test_arp_monitor_notices_a_dead_switch(lab: Lab) -> None:
    """The kernel's ARP monitor fails over from a dead switch within a second."""
    assert lab.run(dead_switch_with_arp_monitor).value < 1


def test_loss_is_what_was_asked_for(lab: Lab) -> None:
    """A path with 33 % loss each way loses about that; made whole again it loses nothing."""
    value = lab.run(lossy_path).value

    assert value["rate"] == [pytest.approx(0.33, abs=0.2)] * 2
    assert value["sent_after"] > 20
    assert value["lost_after"] == 0


def test_gateway_answers_through_live_switches_only(lab: Lab) -> None:
    """The gateway answers through exactly those NICs whose switch forwards."""
    assert lab.run(two_ways_to_the_gateway).value == {
        "both": [True] * 4,
        "sw1 only": [False, True],
        "sw0 only": [True, False],
    }


def test_node_can_be_a_namespace(lab: Lab) -> None:
    """Topologies around named nodes stand side by side and go without a trace."""
    *answers, namespaces, links = lab.run(node_in_a_namespace).value

    assert answers == [True, True, 0]
    assert sorted(name for name in namespaces if name[0] == "n") == ["n1", "n2"]
    assert not [name for name in namespaces if name.startswith(("sw", "core", "gw"))]
    assert links == ["lo"]


def test_topology_never_builds_on_the_machine_itself() -> None:
    """Outside the lab a topology needs a named namespace for its node."""
    with pytest.raises(ValueError, match="the machine's own"):
        TwoSwitches.create()
