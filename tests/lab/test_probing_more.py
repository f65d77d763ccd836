"""Probes on a real bond: observe, FDB, filtered MACs, VLAN, a loose contact, and the cost."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.guarded import LINKHOLD, Guarded, alerts_of, guarded, tell
from support.lab import Box, scenario
from support.topology import GATEWAY_4, NODE_4, NODE_MACS, ip, ip_batch

if TYPE_CHECKING:
    from support.lab.host import Lab


def promiscuous() -> list[str]:
    """Return the members that the kernel has made promiscuous."""
    flags = {n: Path(f"/sys/class/net/{n}/flags").read_text("ascii") for n in ("eth0", "eth1")}
    return [name for name, value in flags.items() if int(value, 16) & 0x100]


@scenario(timeout_s=60)
def observed(box: Box) -> dict[str, Any]:
    """Kill the active member's switch under an agent that only observes."""
    with guarded(box, mode="observe") as node:
        node.settle(seconds=4)
        node.net.kill_switch(0)
        node.wait("down", lambda s: s["network"] == "down")
        down = node.state
        node.net.revive_switch(0)
        node.wait("ok", lambda s: s["network"] == "ok")
        return {
            "cause": down["cause"],
            "active": node.bond.active,
            "events": tell(node),
            "promiscuous": promiscuous(),
        }


def test_observe_says_what_it_would_do_and_does_nothing(lab: Lab) -> None:
    """In mode observe a dead path is an event that names the member which would carry.

    And no NIC is left promiscuous for the sake of probes.
    """
    value = lab.run(observed).value
    print("observe:", value)

    dead = [data for kind, data in value["events"] if kind == "bond.path_dead"]
    assert [data["would"] for data in dead] == ["eth1"]
    assert value["active"] == "eth0"
    assert "bond.moved" not in [kind for kind, _ in value["events"]]
    assert value["promiscuous"] == []


@scenario(timeout_s=60)
def quiet_fdb(box: Box) -> dict[str, Any]:
    """Look where the switches believe the bond's MAC is while eth0, its owner, is standby."""
    with guarded(box, more=", primary: eth1") as node:
        node.settle(seconds=2)
        node.net.pull_cable(0)
        node.bond.wait_active("eth1")
        node.net.plug_cable(0)
        node.settle(seconds=3)
        mac = Path("/sys/class/net/bond0/address").read_text(encoding="ascii").strip()
        ports = []
        for _ in range(20):
            shown = subprocess.run(
                ["bridge", "-n", node.net.core, "fdb", "show", "br", "br0"],
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            ports += [line.split()[2] for line in shown.splitlines() if line.startswith(mac)]
            time.sleep(0.2)
        return {"active": node.bond.active, "ports": sorted(set(ports)), "paths": node.paths}


def test_standby_probes_do_not_move_the_bonds_mac(lab: Lab) -> None:
    """A standby never sends with the bond's MAC, not even the one that the MAC came from."""
    value = lab.run(quiet_fdb).value
    print("FDB:", value)

    assert value["active"] == "eth1"
    assert value["ports"] == ["d1"]
    assert value["paths"] == {"eth0": "alive", "eth1": "alive"}


@scenario(timeout_s=60)
def filtered_standby(box: Box) -> dict[str, Any]:
    """Let the standby's switch drop every MAC but the bond's, as a host does with a VF."""
    net = box.two_switches()
    command = ["nft", "-f", "-"]
    rules = (
        "table bridge spoof { chain c { type filter hook prerouting priority 0; "
        f'iifname "p" ether saddr != {NODE_MACS[0]} drop; }}; }}\n'
    )
    inside = ["ip", "netns", "exec", net.switches[1]]
    subprocess.run([*inside, *command], input=rules, text=True, check=True)
    with guarded(box, net=net) as node:
        node.wait("eth0 alive", lambda _: node.paths["eth0"] == "alive")
        time.sleep(8)
        before = dict(node.paths)
        node.net.kill_switch(0)
        time.sleep(4)
        stayed = node.bond.active
        node.net.pull_cable(0)
        node.bond.wait_active("eth1")
        node.wait("eth1 alive", lambda _: node.paths["eth1"] == "alive")
        return {"before": before, "stayed": stayed, "events": [kind for kind, _ in tell(node)]}


def test_standby_whose_probes_are_filtered_is_unknown_and_not_dead(lab: Lab) -> None:
    """A VF under spoof check gets no blame and no move by probes, and works when it must."""
    value = lab.run(filtered_standby).value
    print("filtered standby:", value)

    assert value["before"] == {"eth0": "alive", "eth1": "unknown"}
    assert value["stayed"] == "eth0"
    assert "bond.standby_dead" not in value["events"]


@scenario(timeout_s=60)
def tagged(box: Box) -> dict[str, Any]:
    """Put the node's address on a VLAN on the bond, and kill a switch."""
    net = box.two_switches()
    ip_batch(
        [
            "link add link g0 name g0.5 type vlan id 5",
            "link set g0.5 up",
            "addr flush dev g0",
            f"addr add {GATEWAY_4}/24 dev g0.5",
        ],
        ns=net.gateway,
    )
    bond = net.make_bond(miimon_ms=50, primary_reselect="failure", addresses=False)
    ip_batch(
        [
            "link add link bond0 name bond0.5 type vlan id 5",
            "link set bond0.5 up",
            f"addr add {NODE_4}/24 dev bond0.5",
            f"route add default via {GATEWAY_4} dev bond0.5",
        ]
    )
    with guarded(box, net=net, bond=bond) as node:
        node.settle(seconds=4)
        node.net.kill_switch(0)
        node.bond.wait_active("eth1")
        return {"paths": node.paths, "events": tell(node)}


def test_gateway_on_a_vlan_is_asked_with_its_tag(lab: Lab) -> None:
    """The default route may lie on a VLAN on the bond: both members ask there."""
    value = lab.run(tagged).value
    print("VLAN:", value)

    assert [data["reason"] for kind, data in value["events"] if kind == "bond.moved"] == [
        "path_dead"
    ]


@scenario(timeout_s=90)
def loose_contact(box: Box) -> dict[str, Any]:
    """Pull and plug the primary's cable over and over, with primary_reselect always."""
    net = box.two_switches()
    bond = net.make_bond(miimon_ms=50, primary_reselect="always")
    ip("link", "set", "bond0", "type", "bond", "primary", "eth0")
    with guarded(box, net=net, bond=bond) as node:
        node.settle(seconds=2)
        for _ in range(5):
            node.net.pull_cable(0)
            node.bond.wait_active("eth1")
            time.sleep(0.2)  # the kernel's own monitor must have seen it too
            node.net.plug_cable(0)
            node.bond.wait_active("eth0")
        node.wait("an alert", lambda s: "bond.flapping" in alerts_of(s))
        alerts = {alert["type"]: alert["text"] for alert in node.state["alerts"]}
        return {"events": [kind for kind, _ in tell(node)], "alerts": alerts}


def test_flapping_primary_is_one_event_and_one_alert_with_advice(lab: Lab) -> None:
    """Ten failovers are one bond.flapping and one alert, which says what to do."""
    value = lab.run(loose_contact).value
    print("flapping:", value)

    assert value["events"].count("bond.failover") >= 8
    assert value["events"].count("bond.flapping") == 1
    assert "switch port of eth0" in value["alerts"]["bond.flapping"]
    assert "set it to failure" in value["alerts"]["bond.flapping"]


@scenario(timeout_s=90)
def moved_by_order(box: Box) -> dict[str, Any]:
    """Test the bond twice by command beside an agent that prefers eth0 and may move."""
    with guarded(box) as node:
        node.settle(seconds=6)  # long enough for a return at once
        runs = [
            subprocess.run(
                [LINKHOLD, "bond", "test", "bond0", "--json"],
                capture_output=True,
                text=True,
                check=False,
            )
            for _ in range(2)
        ]
        told, state = tell(node), node.state
        node.bond.wait_active("eth0")
        ip("link", "set", "g0", "down", ns=node.net.gateway)
        dead = subprocess.run(
            [LINKHOLD, "bond", "test", "bond0"], capture_output=True, text=True, check=False
        )
        return {
            "promiscuous": promiscuous(),
            "runs": [(run.returncode, json.loads(run.stdout or "null")) for run in runs],
            "told": told,
            "alerts": alerts_of(state),
            "dead": [dead.returncode, dead.stderr],
        }


def test_agent_leaves_an_ordered_test_alone(lab: Lab) -> None:
    """The standby carries for the whole test; its moves are information that nobody is woken for.

    With a dead gateway the test is refused, and the standby is not blamed.
    """
    value = lab.run(moved_by_order).value
    print("bond test:", value)

    for code, [outcome] in value["runs"]:
        assert (code, outcome["moved"], outcome["stayed"], outcome["returned"]) == (0, *[True] * 3)
    moves = [data for kind, data in value["told"] if kind == "bond.failover"]
    assert [(data["active"], data["ordered"]) for data in moves] == [
        ("eth1", "test"),
        ("eth0", "test"),
    ] * 2
    assert {"bond.moved", "bond.flapping"}.isdisjoint(kind for kind, _ in value["told"])
    assert value["alerts"] == ["bond.drift"]  # linkhold did not make it
    assert value["promiscuous"] == ["eth0", "eth1"]  # veth has no filter for a second MAC
    assert value["dead"][0] == 1
    assert "not eth1 that is at fault" in value["dead"][1]


@scenario(timeout_s=120)
def cost(box: Box, detect: str, rate_hz: float) -> dict[str, float]:
    """Read the agent's CPU time over half a minute, with traffic or without."""
    with guarded(box, more=f", detect: {detect}") as node:
        time.sleep(5)
        with node.net.probe(rate_hz=rate_hz):
            before, sent = _cpu_s(node), node.counters().get("probes_sent", 0)
            time.sleep(20)
            used, probes = _cpu_s(node) - before, node.counters().get("probes_sent", 0) - sent
        return {"cpu_ms_a_minute": used * 3000, "probes_a_second": probes / 20}


def _cpu_s(node: Guarded) -> float:
    fields = Path(f"/proc/{node.agent.pid}/stat").read_text(encoding="ascii").split(") ")[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("rate_hz", [0.1, 100])
def test_probing_costs_little(lab: Lab, rate_hz: float) -> None:
    """Probing sends two probes a second at most, busy or not; the CPU time is printed."""
    plain = lab.run(cost, detect="mii", rate_hz=rate_hz).value
    value = lab.run(cost, detect="probe", rate_hz=rate_hz).value
    print("cost at", rate_hz, "Hz:", value, "without probes:", plain)

    assert plain["probes_a_second"] == 0
    assert value["probes_a_second"] < 3
