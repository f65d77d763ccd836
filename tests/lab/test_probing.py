"""The agent in mode enforce on a real bond: dead switches, cables, gateways and standbys."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.lab import Box, scenario
from support.topology import GATEWAY_4, NODE_4, NODE_MACS, TwoSwitches, ip, ip_batch, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.lab.host import Lab
    from support.topology import Bond

LINKHOLD = str(Path(sys.executable).parent / "linkhold")
CONFIG = """
mode: {mode}
mqtt: {{local: false}}
bonds:
  bond0: {{members: [eth0, eth1]{more}}}
"""


@dataclass
class Guarded:
    """A bond that the agent guards."""

    net: TwoSwitches
    bond: Bond
    run_dir: Path
    agent: subprocess.Popen[bytes]

    @property
    def state(self) -> dict[str, Any]:
        """The state document now."""
        document = json.loads((self.run_dir / "state.json").read_bytes())
        assert isinstance(document, dict)
        return document

    @property
    def paths(self) -> dict[str, str]:
        """What the agent knows of the members' paths."""
        members = self.state["detail"]["bonds"]["bond0"]["members"]
        return {name: member["path"] for name, member in members.items()}

    def wait(self, what: str, check: Callable[[dict[str, Any]], object], s: float = 20) -> float:
        """Wait until the state passes ``check``; return the seconds it took."""
        return wait_until(lambda: check(self.state), what, timeout_s=s)

    def settle(self, *, seconds: float = 8.0) -> None:
        """Wait until both paths are known alive, and for a record of some probes."""
        self.wait("both alive", lambda _: set(self.paths.values()) == {"alive"})
        time.sleep(seconds)

    def events(self) -> list[dict[str, Any]]:
        """Return all events so far, oldest first."""
        asked = subprocess.run(
            [LINKHOLD, "events", "--json"], capture_output=True, check=True, timeout=30
        )
        return [json.loads(line) for line in asked.stdout.splitlines()]

    def counters(self) -> dict[str, int]:
        """Return the agent's counters."""
        found: dict[str, int] = self.state["detail"]["agent"]["counters"]
        return found


@contextmanager
def guarded(
    box: Box,
    *,
    mode: str = "enforce",
    more: str = "",
    family: int = 0,
    net: TwoSwitches | None = None,
    bond: Bond | None = None,
) -> Iterator[Guarded]:
    """Make two switches and a bond unless given, and let the agent guard it.

    ``family`` 6 takes IPv4 away.
    """
    net = net or box.two_switches()
    bond = bond or net.make_bond(miimon_ms=50, primary_reselect="failure", num_grat_arp=3)
    if family == 6:
        ip("addr", "flush", "dev", "bond0", "scope", "global", "to", "10.0.0.0/24")
    run_dir, state_dir = box.tmp / "run", box.tmp / "state"
    box.tmp.chmod(0o755)
    config = box.tmp / "linkhold.yaml"
    config.write_text(CONFIG.format(mode=mode, more=more), encoding="utf-8")
    os.environ |= {"LINKHOLD_RUN_DIR": str(run_dir), "LINKHOLD_STATE_DIR": str(state_dir)}
    agent = subprocess.Popen([LINKHOLD, "agent", "--config", str(config)])
    wait_until((run_dir / "state.json").exists, "the agent is ready", timeout_s=20)
    try:
        yield Guarded(net, bond, run_dir, agent)
    finally:
        agent.send_signal(signal.SIGTERM)
        assert agent.wait(timeout=10) == 0


def _alerts(state: dict[str, Any]) -> list[str]:
    return [alert["type"] for alert in state["alerts"]]


def tell(node: Guarded) -> list[tuple[str, dict[str, Any]]]:
    """Return type and data of the events about bond0 and of the network's."""
    told = [event for event in node.events() if event["subject"] in {"bond0", "network"}]
    return [(event["type"], event["data"]) for event in told]


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


def test_dead_switch_behind_a_live_link_costs_less_than_350_ms(lab: Lab) -> None:
    """The active member moves away from a switch that forwards nothing though its link is up."""
    value = lab.run(dead_switch, family=4, rounds=2).value
    print("dead switch, IPv4:", value)

    assert max(value["outages"]) < 350


def test_dead_switch_is_found_with_ipv6_alone(lab: Lab) -> None:
    """Neighbour solicitations do for a node without IPv4 what ARP does for others."""
    value = lab.run(dead_switch, family=6, rounds=2).value
    print("dead switch, IPv6:", value["outages"])

    assert max(value["outages"]) < 350


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
    value = lab.run(pulled_cable, rounds=4).value
    print("pulled cable:", value["outages"])

    assert max(value["outages"]) < 60
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
    value = lab.run(rebooting_switch).value
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
        node.wait("an alert", lambda s: "bond.standby_dead" in _alerts(s))
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
    assert value["cause"] == ["eth1: no answer from 10.0.0.1 through the standby"]
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
        time.sleep(8)
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
        return {"cause": down["cause"], "active": node.bond.active, "events": tell(node)}


def test_observe_says_what_it_would_do_and_does_nothing(lab: Lab) -> None:
    """In mode observe a dead path is an event that names the member which would carry."""
    value = lab.run(observed).value
    print("observe:", value)

    dead = [data for kind, data in value["events"] if kind == "bond.path_dead"]
    assert [data["would"] for data in dead] == ["eth1"]
    assert value["active"] == "eth0"
    assert "bond.moved" not in [kind for kind, _ in value["events"]]


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
            node.net.plug_cable(0)
            node.bond.wait_active("eth0")
        node.wait("an alert", lambda s: "bond.flapping" in _alerts(s))
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
