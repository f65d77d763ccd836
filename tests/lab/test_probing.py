"""The agent in mode enforce on a real bond: dead switches, cables, gateways and standbys."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING, Any

from support.guarded import alerts_of, guarded, tell
from support.lab import Box, scenario
from support.lab.again import once_more
from support.topology import ip, ip_batch

if TYPE_CHECKING:
    from support.lab.host import Lab

PULLED_CABLE_MS, DEAD_SWITCH_MS = 60, 350


@scenario(timeout_s=60)
def dead_switch(box: Box, family: int, rounds: int) -> dict[str, Any]:
    """Kill the switch of the active member, again and again, under a stream of datagrams."""
    outages = []
    with guarded(box, family=family) as node:
        node.settle()
        for _ in range(rounds):
            active = node.bond.active
            number = int(active[-1])
            with node.net.probe(rate_hz=200, family=family or 4) as probe:
                time.sleep(0.5)
                node.net.kill_switch(number)
                node.bond.wait_active(f"eth{1 - number}")
                time.sleep(0.5)
            outages.append(probe.traffic.outage_ms)
            node.net.revive_switch(number)
            node.settle(seconds=1)
        return {"outages": outages, "events": tell(node), "counters": node.counters()}


def _is_short(value: dict[str, Any]) -> bool:
    return bool(max(value["outages"]) < DEAD_SWITCH_MS)


def test_dead_switch_behind_a_live_link_costs_less_than_350_ms(lab: Lab) -> None:
    """The active member moves away from a switch that forwards nothing though its link is up."""
    value = once_more(lambda: lab.run(dead_switch, family=4, rounds=2).value, _is_short)
    print("dead switch, IPv4:", value)

    assert _is_short(value)


def test_dead_switch_is_found_with_ipv6_alone(lab: Lab) -> None:
    """Neighbour solicitations do for a node without IPv4 what ARP does for others."""
    value = once_more(lambda: lab.run(dead_switch, family=6, rounds=2).value, _is_short)
    print("dead switch, IPv6:", value["outages"])

    assert _is_short(value)


@scenario(timeout_s=90)
def pulled_cable(box: Box, rounds: int) -> dict[str, Any]:
    """Pull the cable of the active member, again and again."""
    outages = []
    with guarded(box) as node:
        node.settle(seconds=2)
        for _ in range(rounds):
            number = int(node.bond.active[-1])
            with node.net.probe(rate_hz=200) as probe:
                time.sleep(0.3)
                node.net.pull_cable(number)
                node.bond.wait_active(f"eth{1 - number}")
                time.sleep(0.5)
            outages.append(probe.traffic.outage_ms)
            node.net.plug_cable(number)
            node.settle(seconds=1)
        return {"outages": outages, "events": tell(node)}


def test_pulled_cable_costs_less_than_60_ms(lab: Lab) -> None:
    """The agent's reflex on the netlink event moves the bond before the kernel's monitor does."""
    value = once_more(
        lambda: lab.run(pulled_cable, rounds=4).value,
        lambda found: max(found["outages"]) < PULLED_CABLE_MS,
    )
    print("pulled cable:", value["outages"])

    assert max(value["outages"]) < PULLED_CABLE_MS
    reasons = [data["reason"] for kind, data in value["events"] if kind == "bond.moved"]
    assert reasons
    assert set(reasons) == {"carrier"}


@scenario(timeout_s=90)
def rebooting_switch(box: Box) -> dict[str, Any]:
    """Let the primary's switch reboot: no link, then link without forwarding, then whole."""
    with guarded(box, more=", primary: eth0") as node:
        node.settle(seconds=2)
        node.net.pull_cable(0)
        node.bond.wait_active("eth1")
        with node.net.probe(rate_hz=200) as probe:
            node.net.kill_switch(0)
            node.net.plug_cable(0)
            time.sleep(6)
            stayed = node.bond.active
            node.net.revive_switch(0)
            back_s = node.bond.wait_active("eth0", timeout_s=20)
            time.sleep(0.5)
        return {
            "stayed": stayed,
            "back_s": back_s,
            "lost": probe.traffic.lost,
            "events": tell(node),
        }


def test_fail_back_to_a_switch_that_does_not_forward_yet_costs_nothing(lab: Lab) -> None:
    """The primary carries again only after its path has answered for a while: nothing is lost."""
    value = once_more(lambda: lab.run(rebooting_switch).value, lambda found: not found["lost"])
    print("fail-back:", value)

    assert value["stayed"] == "eth1"
    assert value["lost"] == 0
    reasons = [data["reason"] for kind, data in value["events"] if kind == "bond.moved"]
    assert reasons[-1] == "fail_back"


@scenario(timeout_s=60)
def dead_standby(box: Box) -> dict[str, Any]:
    """Kill the standby's switch, and revive it."""
    with guarded(box) as node:
        node.settle(seconds=4)
        node.net.kill_switch(1)
        found_s = node.wait("degraded", lambda s: s["network"] == "degraded")
        degraded = node.state
        node.wait("an alert", lambda s: "bond.standby_dead" in alerts_of(s))
        active = node.bond.active
        node.net.revive_switch(1)
        node.wait("ok", lambda s: s["network"] == "ok")
        return {
            "found_s": found_s,
            "cause": degraded["cause"],
            "redundant": degraded["detail"]["bonds"]["bond0"]["redundant"],
            "active": active,
            "events": [kind for kind, _ in tell(node)],
        }


def test_dead_standby_is_announced_before_it_is_needed(lab: Lab) -> None:
    """A standby whose switch is dead degrades the node, and is an event and an alert of its own."""
    value = lab.run(dead_standby).value
    print("dead standby:", value)

    assert value["found_s"] < 5
    assert value["cause"] == ["eth1: no answer from 10.0.0.1 through it"]
    assert value["redundant"] is False
    assert value["active"] == "eth0"
    assert value["events"].count("bond.standby_dead") == 1
    assert value["events"].count("bond.standby_alive") == 1
    assert "bond.failover" not in value["events"]


@scenario(timeout_s=60)
def dead_gateway(box: Box) -> dict[str, Any]:
    """Take the gateway off the network, and put it back."""
    with guarded(box) as node:
        node.settle(seconds=4)
        with node.net.probe(rate_hz=50):
            ip("link", "set", "g1", "down", ns=node.net.core)
            found_s = node.wait("down", lambda s: s["network"] == "down")
            cause = node.state["cause"]
            before = node.counters()["probes_sent"]
            time.sleep(10)
            rate = (node.counters()["probes_sent"] - before) / 10
            ip("link", "set", "g1", "up", ns=node.net.core)
            back_s = node.wait("ok", lambda s: s["network"] == "ok")
        return {
            "found_s": found_s,
            "cause": cause,
            "rate": rate,
            "back_s": back_s,
            "active": node.bond.active,
            "events": [kind for kind, _ in tell(node)],
        }


def test_dead_gateway_moves_nothing(lab: Lab) -> None:
    """Silence through every member is the gateway's: the network is down, the bond stays."""
    value = lab.run(dead_gateway).value
    print("dead gateway:", value)

    assert "10.0.0.1" in value["cause"][0]
    assert "does not answer" in value["cause"][0] or "do not answer" in value["cause"][0]
    assert value["active"] == "eth0"
    assert not {"bond.failover", "bond.moved", "bond.standby_dead"} & set(value["events"])


@scenario(timeout_s=120)
def lossy_gateway(box: Box, percent: int, seconds: float) -> dict[str, Any]:
    """Let the gateway lose some of everything at random."""
    with guarded(box) as node:
        node.settle(seconds=4)
        _tc(node.net.gateway, "g0", f"{percent}%")
        _tc(node.net.core, "g1", f"{percent}%")
        time.sleep(seconds)
        return {
            "active": node.bond.active,
            "counters": node.counters(),
            "events": [kind for kind, _ in tell(node)],
        }


def _tc(ns: str, device: str, loss: str) -> None:
    command = ["tc", "-n", ns, "qdisc", "replace", "dev", device, "root", "netem", "loss", loss]
    subprocess.run(command, check=True)


def test_gateway_that_loses_probes_at_random_does_not_make_the_bond_flap(lab: Lab) -> None:
    """A third of the frames lost each way at the gateway moves nothing."""
    value = lab.run(lossy_gateway, percent=30, seconds=45).value
    print("lossy gateway:", value)

    assert value["active"] == "eth0"
    assert not {"bond.failover", "bond.moved", "bond.flapping"} & set(value["events"])


@scenario(timeout_s=60)
def new_gateway_mac(box: Box) -> dict[str, Any]:
    """Give the gateway another MAC address without a word."""
    with guarded(box) as node:
        node.settle(seconds=4)
        ip("link", "set", "g0", "down", ns=node.net.gateway)
        ip_batch(["link set g0 address 02:00:00:00:00:77", "link set g0 up"], ns=node.net.gateway)
        time.sleep(3)
        node.wait("ok", lambda s: s["network"] == "ok")
        node.settle(seconds=0)
        return {
            "paths": node.paths,
            "network": node.state["network"],
            "active": node.bond.active,
            "events": [kind for kind, _ in tell(node)],
        }


def test_gateway_with_a_new_mac_is_no_dead_path(lab: Lab) -> None:
    """After a gateway was replaced its new MAC is found; no member moves for it."""
    value = lab.run(new_gateway_mac).value
    print("new MAC:", value)

    assert value["active"] == "eth0"
    assert value["network"] == "ok"
    assert set(value["paths"].values()) == {"alive"}
    assert "bond.moved" not in value["events"]
