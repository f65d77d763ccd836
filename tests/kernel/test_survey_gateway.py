"""Asking for a gateway, announcing addresses and netlink's answers, on real packets."""

from __future__ import annotations

import json
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.actuators.announce import announce
from linkhold.frames import neighbours as frames
from linkhold.model import Unavailable
from linkhold.model.survey import Known
from linkhold.survey import links, routes
from linkhold.survey.gateway import ask
from linkhold.survey.packets import PacketPort
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

GATEWAY_MAC, NODE_MAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
GATEWAY_4, GATEWAY_6 = "10.0.0.1", "fd00::1"


@pytest.fixture
def gateway(can_make_namespaces: None) -> Iterator[Namespace]:
    """The namespace of the gateway, whose NIC is g0."""
    with Namespace() as made:
        yield made


@pytest.fixture
def node(namespace: Namespace, gateway: Namespace) -> Iterator[Namespace]:
    """A node whose NIC e0 has no address, a cable from the gateway; the test is inside."""
    namespace.veth("e0", "g0", up=False, other=gateway)
    namespace.run("sysctl", "-qw", "net.ipv6.conf.e0.disable_ipv6=1")
    namespace.ip(f"link set e0 address {NODE_MAC} up")
    gateway.ip(f"link set g0 address {GATEWAY_MAC} up")
    gateway.ip(f"addr add {GATEWAY_4}/24 dev g0")
    gateway.ip(f"addr add {GATEWAY_6}/64 dev g0 nodad")
    with namespace.enter():
        yield namespace


def neighbours(namespace: Namespace) -> dict[str, str]:
    """Return the neighbour table of a namespace."""
    listed = json.loads(namespace.run("ip", "-j", "neigh", "show"))
    return {entry["dst"]: entry.get("lladdr", "") for entry in listed}


@pytest.mark.parametrize("target", [GATEWAY_4, GATEWAY_6])
def test_the_gateway_answers(node: Namespace, gateway: Namespace, target: str) -> None:
    """Without an address of ours; all that the gateway may remember is one made of the MAC."""
    answer = ask("e0", [target], timeout_s=2)

    assert (answer.verdict, answer.target, answer.mac) == (Known.YES, target, GATEWAY_MAC)
    assert answer.took_ms is not None
    assert answer.took_ms < 500
    assert answer.reason == ""
    assert neighbours(gateway) == ({"fe80::200:6c:6800:2": NODE_MAC} if ":" in target else {})


@pytest.mark.parametrize("target", [GATEWAY_4, GATEWAY_6])
def test_from_another_mac(node: Namespace, target: str) -> None:
    """As from a bond's backup port: the answer to the burned-in address comes in."""
    answer = ask("e0", [target], mac="02:00:00:00:00:77", timeout_s=2)

    assert (answer.verdict, answer.mac) == (Known.YES, GATEWAY_MAC)


def test_no_address_in_use_is_claimed(node: Namespace, gateway: Namespace) -> None:
    """A bond has the link-local address made of a member's MAC with another MAC; it keeps it."""
    used = "fe80::ff:fe00:77"
    gateway.ip(f"neigh replace {used} lladdr {NODE_MAC} nud reachable dev g0")
    answer = ask("e0", [GATEWAY_6], mac="02:00:00:00:00:77", timeout_s=2)

    assert answer.verdict is Known.YES
    assert neighbours(gateway)[used] == NODE_MAC


def test_one_of_several(node: Namespace) -> None:
    """One answer is enough, of either family; spelling does not matter."""
    answer = ask("e0", ["10.0.0.99", "fd00:0:0::1"], timeout_s=2)

    assert (answer.verdict, answer.target) == (Known.YES, "fd00::1")


@pytest.mark.parametrize("targets", [["10.0.0.99"], ["fd00::99"], ["10.0.0.99", "fd00::99"]])
def test_silence(node: Namespace, targets: list[str]) -> None:
    """Nobody answers: no, in the time that was given."""
    began = time.monotonic()
    answer = ask("e0", targets, timeout_s=0.4, tries=2)

    assert answer.verdict is Known.NO
    assert targets[0] in answer.reason
    assert 0.3 < time.monotonic() - began < 1.5


def test_an_answer_to_a_later_question(node: Namespace, gateway: Namespace) -> None:
    """The first questions are lost; one of the next is answered."""
    gateway.ip("link set g0 arp off")
    process = gateway.popen("sh", "-c", "sleep 0.5; ip link set g0 arp on")
    answer = ask("e0", [GATEWAY_4], timeout_s=5, tries=25)
    process.wait(timeout=10)

    assert answer.verdict is Known.YES


def test_a_gateway_may_take_its_address_meanwhile(node: Namespace, gateway: Namespace) -> None:
    """Asking is no claim: duplicate address detection that runs meanwhile does not fail."""
    late = "fd00::5"
    process = gateway.popen("sh", "-c", f"sleep 0.3; ip addr add {late}/64 dev g0")
    answer = ask("e0", [late], timeout_s=6, tries=60)  # detection takes 1 to 2 s
    process.wait(timeout=10)

    listed = json.loads(gateway.run("ip", "-j", "-6", "addr", "show", "dev", "g0"))
    (found,) = (one for one in listed[0]["addr_info"] if one["local"] == late)
    assert "dadfailed" not in found
    assert (answer.verdict, answer.target, answer.mac) == (Known.YES, late, GATEWAY_MAC)


def test_down(node: Namespace) -> None:
    """A NIC that is set down cannot be asked through."""
    node.ip("link set e0 down")
    answer = ask("e0", [GATEWAY_4], timeout_s=0.2)

    assert answer.verdict is Known.UNKNOWN
    assert answer.reason == "e0 is set down; apply sets it up and asks then"


@pytest.mark.parametrize("target", [GATEWAY_4, GATEWAY_6])
def test_no_carrier(node: Namespace, gateway: Namespace, target: str) -> None:
    """A pulled cable is a no that says why."""
    gateway.ip("link set g0 down")
    answer = ask("e0", [target], timeout_s=4)  # the kernel may take 1 s to say so (linkwatch)

    assert (answer.verdict, answer.reason) == (Known.NO, "e0 has no carrier")


def test_carrier_comes_late(node: Namespace, gateway: Namespace) -> None:
    """A copper NIC takes seconds from being set up to its carrier."""
    gateway.ip("link set g0 down")
    process = gateway.popen("sh", "-c", "sleep 0.5; ip link set g0 up")
    answer = ask("e0", [GATEWAY_4], timeout_s=5, tries=25)
    process.wait(timeout=10)

    assert answer.verdict is Known.YES


def test_no_ethernet(node: Namespace) -> None:
    """Loopback has no ARP."""
    assert ask("lo", ["127.0.0.1"]).verdict is Known.UNKNOWN


def test_without_the_right(node: Namespace) -> None:
    """Without CAP_NET_RAW: unknown with the reason; announcing says so too."""
    code = (
        "from linkhold.survey.gateway import ask;"
        f"a = ask('e0', ['{GATEWAY_4}']); print(a.verdict.value, a.reason, sep='|')"
    )
    drop = ["--bounding-set=-net_raw", "--inh-caps=-net_raw"]
    shown = node.run("setpriv", *drop, sys.executable, "-c", code)

    assert shown.strip() == "unknown|asking by ARP needs root (CAP_NET_RAW)"


def tagged(frame: bytes, vid: int) -> bytes:
    """Return a frame with an 802.1Q tag."""
    return frame[:12] + struct.pack("!HH", 0x8100, vid) + frame[12:]


def test_only_answers_come_in(node: Namespace, gateway: Namespace) -> None:
    """The socket's filter keeps other traffic out; an answer in another VLAN is none of ours."""
    mac = GATEWAY_MAC
    ends = ((mac, GATEWAY_4), (mac, GATEWAY_4))
    reply = frames.arp(frames.ARP_REPLY, *ends)
    first, second = (frames.advertisement(mac, f"fd00::{n}", router=True) for n in (1, 2))
    with gateway.enter():
        sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        sender.bind(("g0", 0))
    with sender, PacketPort("e0") as port:
        for frame in (
            frames.arp(frames.ARP_REQUEST, *ends),
            frames.probe("fd00::1", "", "", mac),
            bytes(60),
            tagged(reply, 5),
            tagged(second, 5),
            reply,
            tagged(second, 0),
            first,
        ):
            sender.send(frame)
        port.send(reply)  # our own
        raw = list(port.received())

    assert raw == [reply, second, first]


@pytest.mark.parametrize("address", ["10.0.0.2", "fd00::2"])
@pytest.mark.parametrize("nud", ["stale", "reachable"])
def test_announced_addresses_are_learned(
    node: Namespace, gateway: Namespace, address: str, nud: str
) -> None:
    """The gateway takes the new MAC at once, whatever it believed."""
    old = "02:00:00:00:00:99"
    gateway.ip(f"neigh replace {address} lladdr {old} nud {nud} dev g0")
    assert neighbours(gateway) == {address: old}

    sent = announce("e0", [f"{address}/64"])

    assert sent == (1 if ":" in address else 2)
    deadline = time.monotonic() + 2
    while neighbours(gateway) != {address: NODE_MAC}:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_announcing_fails_with_words(node: Namespace) -> None:
    """No interface, no Ethernet, set down, no address: each is said."""
    for interface, addresses, mac in (
        ("gone0", ["10.0.0.2"], ""),
        ("lo", ["10.0.0.2"], ""),
        ("e0", ["10.0.0.999"], ""),
        ("e0", ["10.0.0.2"], "02:00"),
    ):
        with pytest.raises(Unavailable, match=interface):
            announce(interface, addresses, mac)
    node.ip("link set e0 down")
    with pytest.raises(Unavailable, match="e0"):
        announce("e0", ["10.0.0.2"])


def test_routes(node: Namespace) -> None:
    """The kernel names the interface to an address, and routes of a lease."""
    with pytest.raises(OSError):  # noqa: PT011 - no route yet
        routes.interface_to("10.0.0.9")
    node.ip("addr add 10.0.0.2/24 dev e0")
    assert routes.dhcp_interfaces() == frozenset()
    node.ip("route add default via 10.0.0.1 proto dhcp")

    assert routes.interface_to("10.0.0.9") == "e0"
    assert routes.interface_to("192.0.2.1") == "e0"
    assert routes.interface_to("127.0.0.1") == "lo"
    assert routes.dhcp_interfaces() == {node.index("e0")}
    with pytest.raises(OSError):  # noqa: PT011 - no IPv6 here
        routes.interface_to("2001:db8::1")
    with pytest.raises(ValueError, match="no IP address"):
        routes.interface_to("nas")


def test_the_whole_look(node: Namespace, gateway: Namespace) -> None:
    """With /sys of the namespace: a macvlan and a bridge are found on real NICs."""
    node.veth("e1", "g1", other=gateway)
    node.batch(
        "link add mv0 link e0 type macvlan\nlink add br0 type bridge\nlink set e1 master br0"
    )
    code = (
        "import dataclasses, json; from linkhold.survey import host;"
        "print(json.dumps(dataclasses.asdict(host.look(['e0', 'e1', 'e2']))))"
    )
    shell = 'mount -t sysfs none /sys && exec "$0" -c "$1"'
    found = json.loads(node.run("unshare", "--mount", "sh", "-c", shell, sys.executable, code))

    first, second = found["nics"]
    assert first["uppers"] == [{"name": "mv0", "kind": "macvlan", "master": False}]
    assert second["uppers"] == [{"name": "br0", "kind": "bridge", "master": True}]
    assert (first["kind"], first["virtual"], first["xdp"]) == ("veth", True, False)
    assert (first["unknown"], found["missing"], found["unknown"]) == ([], ["e2"], [])


def test_facts(node: Namespace) -> None:
    """Kinds by netlink, of this namespace only."""
    node.ip("link add mv0 link e0 type macvlan")
    found = links.facts()

    assert set(found) == {"lo", "e0", "mv0"}
    assert (found["e0"].kind, found["mv0"].kind, found["lo"].kind) == ("veth", "macvlan", "")
    assert found["e0"].index == node.index("e0")
    assert found["e0"].xdp is False
