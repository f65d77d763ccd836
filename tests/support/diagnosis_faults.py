"""Faults as values, each by itself, with the state, the place and the words that must come out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from linkhold.model.diagnosis import Place, State
from linkhold.model.diagnosis_facts import (
    AgentFacts,
    Card,
    ClockFacts,
    Counted,
    Drop,
    Duplicate,
    Facts,
    Fill,
    FirewallFacts,
    MemberFacts,
    MtuFacts,
    Session,
    SessionFacts,
    TargetFacts,
)
from linkhold.model.look import LookedNeighbour
from linkhold.model.network import HostNetwork
from linkhold.model.probes import Answer, Heard
from linkhold.model.survey import Answer as Asked
from linkhold.model.survey import Known, Owner, OwnerKind
from support.diagnosis import (
    ETH0,
    OPTIONS,
    bonded,
    facts,
    gateway,
    look,
    member,
    network,
    route,
)

DARK = replace(ETH0, carrier=False)
OFF = replace(ETH0, carrier=False, admin_up=False)
OTHER = Answer("arp", "10.0.0.7", Heard.ANSWERS)
BOTH_DARK = bonded(member(3, carrier=False), member(4, carrier=False), carrier=False)
NOBODY = Answer("arp", "10.0.0.7", Heard.SILENT)
SILENT = gateway(Heard.SILENT)
NO_GATEWAY: dict[str, Any] = {"gateways": ()}
PING = Answer("icmp", "10.9.9.9", Heard.ANSWERS)
STUCK = Session("10.9.9.9", 29500, 4711, "python", "TCPStore", 5, ping=PING)
ACTIVE_DEAD = (
    MemberFacts("bond0", "eth0", True, Asked(Known.NO, "eth0")),
    MemberFacts("bond0", "eth1", False, Asked(Known.YES, "eth1", "10.0.0.1")),
)


def target(heard: Heard, *, ping: Heard | None = None, port: int = 443, **more: Any) -> TargetFacts:
    """Return a target that said this."""
    echo = None if ping is None else Answer("icmp", "10.9.9.9", ping)
    answer = Answer("tcp", "10.9.9.9:443", heard)
    return TargetFacts("store", answer, "10.9.9.9", port, echo, **more)


def mtu(large: Heard, *, near: bool) -> MtuFacts:
    """Return what full packets came to, while small ones pass."""
    small, full = Answer("icmp", "x", Heard.ANSWERS), Answer("icmp", "x", large)
    return MtuFacts("eth0", "10.9.9.9", 9000, small, full, 1500, near)


FAULTS: dict[str, tuple[Facts, State, Place, str]] = {
    "cable": (
        facts(network=network(DARK), gateways=(SILENT,)),
        State.DOWN, Place.CABLE, "eth0 has no carrier",
    ),
    "cable beside free ports": (
        facts(network=network(DARK, *(replace(DARK, index=i, name=f"eth{i}") for i in (3, 4))),
              nics=("eth0", "eth3", "eth4"), gateways=(SILENT,)),
        State.DOWN, Place.CABLE, "eth0 has no carrier",
    ),
    "every cable": (
        facts(network=BOTH_DARK, nics=("bond0",), gateways=(SILENT,)),
        State.DOWN, Place.SWITCH, "eth0 and eth1 all have no carrier: the switch has no power",
    ),
    "every cable on battery": (
        facts(network=BOTH_DARK, nics=("bond0",), gateways=(SILENT,),
              agent=AgentFacts(running=True, power="battery")),
        State.DOWN, Place.POWER, "the switches have no power",
    ),
    "set down": (
        facts(network=network(OFF), look=look(routes=()), **NO_GATEWAY),
        State.DOWN, Place.HOST, "eth0 is set down",
    ),
    "no NIC": (
        facts(network=HostNetwork(), look=replace(look(), links=()), nics=(), **NO_GATEWAY),
        State.DOWN, Place.NIC, "no network interface",
    ),
    "gateway dead": (
        facts(gateways=(gateway(Heard.SILENT, OTHER),)),
        State.DOWN, Place.GATEWAY, "the gateway 10.0.0.1 on eth0 is dead",
    ),
    "switch dead": (
        facts(gateways=(gateway(Heard.SILENT, NOBODY),)),
        State.DOWN, Place.SWITCH, "nothing on eth0 answers",
    ),
    "gateway or switch": (
        facts(gateways=(SILENT,)), State.DOWN, Place.GATEWAY, "to tell the two apart",
    ),
    "wrong netmask": (
        facts(look=look(address="10.0.0.2/30", routes=(route(via="10.0.0.9"),)),
              gateways=(gateway(Heard.SILENT, address="10.0.0.9"),)),
        State.DOWN, Place.HOST, "10.0.0.9 lies in no subnet of eth0 (10.0.0.2/30)",
    ),
    "netmask too wide": (
        facts(look=replace(look(address="10.0.0.2/8", routes=(route(), route("10.0.0.0/8", ""))),
                           neighbours=(LookedNeighbour(2, "inet", "10.9.9.9", "", 0x20),)),
              targets=(target(Heard.UNREACHABLE),)),
        State.DEGRADED, Place.HOST, "the netmask is too wide",
    ),
    "duplicate address": (
        facts(duplicates=(Duplicate("eth0", "10.0.0.2", "02:00:00:00:00:99"),)),
        State.DEGRADED, Place.HOST, "10.0.0.2 on eth0 is used twice",
    ),
    "no address": (
        facts(look=look(address="", routes=()), **NO_GATEWAY),
        State.DOWN, Place.HOST, "carries but has no address",
    ),
    "default route gone": (
        facts(look=look(routes=(route("10.0.0.0/24", ""),)), **NO_GATEWAY),
        State.DOWN, Place.HOST, "the default route is gone",
    ),
    "MTU black hole beyond": (
        facts(mtu=(mtu(Heard.SILENT, near=False),)),
        State.DEGRADED, Place.BEYOND, "packets of 9000 bytes to 10.9.9.9 vanish",
    ),
    "MTU of the switch": (
        facts(mtu=(mtu(Heard.SILENT, near=True),)),
        State.DEGRADED, Place.SWITCH, "1500 bytes pass",
    ),
    "DNS dead": (
        facts(dns=(Answer("dns", "10.0.0.53", Heard.SILENT, detail="no answer within 1.5 s"),)),
        State.DEGRADED, Place.DNS, "names cannot be looked up: 10.0.0.53",
    ),
    "DNS ill": (
        facts(dns=(Answer("dns", "10.0.0.53", Heard.REFUSED, detail="SERVFAIL for ."),)),
        State.DEGRADED, Place.DNS, "SERVFAIL",
    ),
    "one resolver dead": (
        facts(dns=(Answer("dns", "10.0.0.53", Heard.SILENT),
                   Answer("dns", "10.0.0.54", Heard.ANSWERS))),
        State.DEGRADED, Place.DNS, "the resolver 10.0.0.53 is dead",
    ),
    "one leg": (
        facts(network=bonded(member(3), member(4, carrier=False)), nics=("bond0", "eth0", "eth1")),
        State.DEGRADED, Place.CABLE, "bond0 has lost a leg: eth1 lost its carrier",
    ),
    "one leg set down": (
        facts(network=bonded(member(3), member(4, carrier=False, admin_up=False)), nics=("bond0",)),
        State.DEGRADED, Place.HOST, "eth1 is set down",
    ),
    "no monitoring": (
        facts(network=bonded(member(3), member(4), options=replace(OPTIONS, miimon_ms=0)),
              nics=("bond0",)),
        State.DEGRADED, Place.HOST, "no link monitoring (miimon 0)",
    ),
    "monitoring in the wrong unit": (
        facts(network=bonded(member(3), member(4), options=replace(OPTIONS, miimon_ms=100_000)),
              nics=("bond0",)),
        State.DEGRADED, Place.HOST, "only after up to 100 s",
    ),
    "stays on a dead leg": (
        facts(network=bonded(member(3, carrier=False), member(4),
                             options=replace(OPTIONS, miimon_ms=0)),
              nics=("bond0",), gateways=(SILENT,)),
        State.DOWN, Place.CABLE, "bond0 stays on eth0, which has no carrier",
    ),
    "every member set down": (
        facts(network=bonded(*(member(i, carrier=False, admin_up=False) for i in (3, 4)),
                             carrier=False),
              nics=("bond0",), gateways=(SILENT,)),
        State.DOWN, Place.HOST, "eth0 and eth1, of the 2 members of bond0, are set down",
    ),
    "one member dark, one set down": (
        facts(network=bonded(member(3, carrier=False, admin_up=False), member(4, carrier=False),
                             carrier=False),
              nics=("bond0",), gateways=(SILENT,)),
        State.DOWN, Place.CABLE, "eth1 has no carrier",
    ),
    "a member taken out": (
        facts(network=bonded(member(3)), nics=("bond0",)),
        State.DEGRADED, Place.HOST, "bond0 has one member only, eth0",
    ),
    "no members": (
        facts(network=bonded(), nics=("bond0",)), State.DEGRADED, Place.HOST, "bond0 has no member",
    ),
    "switch behind the active member": (
        facts(network=bonded(member(3), member(4)), nics=("bond0",), members=ACTIVE_DEAD,
              gateways=(SILENT,)),
        State.DOWN, Place.SWITCH, "switch behind eth0 (active member of bond0) forwards nothing",
    ),
    "neighbour table full": (
        facts(fills=(Fill("neighbours IPv4", 1024, 1024),)),
        State.DEGRADED, Place.HOST, "the neighbour table is full (1024 of 1024",
    ),
    "conntrack full": (
        facts(fills=(Fill("conntrack", 65536, 65536),)),
        State.DEGRADED, Place.HOST, "connection table of this host's firewall is full",
    ),
    "own firewall": (
        facts(targets=(TargetFacts("store", Answer(
            "tcp", "10.9.9.9:443", Heard.UNKNOWN,
            detail="Operation not permitted: a firewall of this host, or a missing right")),)),
        State.DEGRADED, Place.FIREWALL, "tcp to 10.9.9.9:443 was refused by the kernel",
    ),
    "metadata gone": (
        facts(cloud="Amazon EC2", metadata=(Answer("metadata", "http://x/", Heard.SILENT),)),
        State.DEGRADED, Place.BEYOND, "the metadata service of Amazon EC2 does not answer",
    ),
    "metadata lies": (
        facts(cloud="Amazon EC2", metadata=(
            Answer("metadata", "http://x/", Heard.UNKNOWN, detail="a page of HTML"),)),
        State.DEGRADED, Place.BEYOND, "makes no sense (a page of HTML)",
    ),
    "clock": (
        facts(clock=ClockFacts(synced=False, wall_s=1e9, floor_s=2e9)),
        State.DEGRADED, Place.HOST, "the clock is wrong",
    ),
    "errors grow": (
        facts(counters=(Counted("eth0", {"rx_crc_errors": 7}, {"rx_crc_errors": 29}, 1.2),)),
        State.DEGRADED, Place.CABLE, "rx_crc_errors +22 in 1.2 s): an oxidised contact",
    ),
    "too slow": (
        facts(counters=(Counted("eth0", {"rx_missed_errors": 0}, {"rx_missed_errors": 9}, 1.0),)),
        State.DEGRADED, Place.HOST, "takes packets too slowly",
    ),
    "narrow slot": (
        facts(cards=(Card("eth0", "mlx5_core", width=4, width_most=16, slot_width_most=16),)),
        State.DEGRADED, Place.NIC, "4 of 16 PCIe lanes",
    ),
    "session forgotten": (
        facts(sessions=SessionFacts(("train",), 2, 4, 0, (STUCK,))),
        State.DEGRADED, Place.FIREWALL, "has forgotten the session",
    ),
    "idle SSH cut": (
        facts(sessions=SessionFacts(("train",), 2, 6, 4)),
        State.DEGRADED, Place.HOST, "4 of 6 connections of train have no keepalive",
    ),
    "peer reads nothing": (
        facts(sessions=SessionFacts(("train",), 2, 6, 0, (replace(STUCK, zero_window=True),))),
        State.DEGRADED, Place.BEYOND, "takes no data (zero window)",
    ),
    "heartbeats lost": (
        facts(agent=AgentFacts(running=True, fleet="down: timed out")),
        State.DEGRADED, Place.BEYOND, "its heartbeats are lost",
    ),
    "agent hangs": (
        facts(agent=AgentFacts(running=False, mute="timed out")),
        State.DEGRADED, Place.HOST, "the agent of this node hangs (timed out)",
    ),
    "load balancer moved": (
        facts(sessions=SessionFacts(("train",), 2, 4, 0, (STUCK,)),
              targets=(target(Heard.ANSWERS, port=29500, addresses=("10.9.9.10",)),)),
        State.DEGRADED, Place.BEYOND, "the address of store has changed to 10.9.9.10",
    ),
    "security rule deleted": (
        facts(targets=(target(Heard.SILENT, ping=Heard.ANSWERS),)),
        State.DEGRADED, Place.FIREWALL, "a rule that allowed it was deleted?",
    ),
    "everything beyond": (
        facts(targets=(target(Heard.SILENT, ping=Heard.SILENT),) * 2),
        State.DOWN, Place.BEYOND, "the fault lies beyond it",
    ),
    "service refuses": (
        facts(targets=(target(Heard.REFUSED),)),
        State.DEGRADED, Place.BEYOND, "is reached and refuses",
    ),
    "own firewall drops": (
        facts(firewall=FirewallFacts((Drop("inet filter output", "output", 12, 90),)),
              targets=(target(Heard.SILENT, ping=Heard.ANSWERS),)),
        State.DEGRADED, Place.FIREWALL, "drops what it sends: 12 packets",
    ),
    "two managers": (
        facts(owners=(Owner(OwnerKind.NETWORKD, "eth0",
                            contenders=(OwnerKind.NETWORK_MANAGER,)),)),
        State.DEGRADED, Place.HOST, "networkd and NetworkManager both configure eth0",
    ),
    "battery": (
        facts(agent=AgentFacts(running=True, power="low")),
        State.DEGRADED, Place.POWER, "on battery, and it is low",
    ),
}  # fmt: skip
