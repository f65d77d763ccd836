"""Sockets of path probes against a real kernel: one veth to a gateway in another namespace."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.decide.probing import Answer, SendProbe, Sights, Target
from linkhold.decide.probing.values import BondSight, MemberSight
from linkhold.sensors.path_probes import PathProbes
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN_MAC, MADE_MAC = "02:00:00:00:02:01", "02:00:00:00:02:77"
GATEWAY_MAC = "02:00:00:00:00:01"
TARGETS = (Target("10.0.0.1", "10.0.0.2"), Target("fd00::1", "fd00::2"))


@pytest.fixture
def gateway(namespace: Namespace) -> Iterator[Namespace]:
    """The namespace behind e0; the test's thread is on this side."""
    with Namespace() as other:
        namespace.veth("e0", "g0", other=other)
        namespace.run("sysctl", "-qw", "net.ipv6.conf.e0.accept_dad=0")
        namespace.batch(f"link set e0 address {OWN_MAC}\naddr add 10.0.0.2/24 dev e0\n")
        namespace.ip("addr add fd00::2/64 dev e0 nodad")
        other.batch(
            f"link set g0 address {GATEWAY_MAC} up\naddr add 10.0.0.1/24 dev g0\n"
            "addr add fd00::1/64 dev g0 nodad\n"
        )
        with namespace.enter():
            yield other


def watching(namespace: Namespace, *targets: Target, gentle: bool = False) -> PathProbes:
    """Return the sockets of a bond whose only member is e0."""
    member = MemberSight("e0", namespace.index("e0"), True, True, OWN_MAC, MADE_MAC)
    probes = PathProbes()
    probes.watch(Sights((BondSight("bond0", 9, (member,), "e0", targets=targets),)), gentle=gentle)
    assert probes.problems == {}
    return probes


def ask(
    probes: PathProbes, namespace: Namespace, target: Target, *, standby: bool, mac: str = ""
) -> list[Answer]:
    """Send one probe and return its answer, or nothing after 3 s."""
    source = MADE_MAC if standby else OWN_MAC
    probe = SendProbe("bond0", "e0", namespace.index("e0"), source, standby, target, mac)
    assert probes.send(probe)
    found: list[Answer] = []
    until_s = time.monotonic() + 3
    while not found and time.monotonic() < until_s:
        select.select([probes.fileno()], [], [], 0.1)
        found += probes.read()
    return found


@pytest.mark.parametrize("standby", [False, True])
@pytest.mark.parametrize("mac", ["", GATEWAY_MAC])
@pytest.mark.parametrize("target", TARGETS, ids=["ipv4", "ipv6"])
def test_gateway_answers(
    namespace: Namespace, gateway: Namespace, target: Target, mac: str, *, standby: bool
) -> None:
    """Broadcast and unicast, IPv4 and IPv6, as active member and as standby: all are answered."""
    probes = watching(namespace, *TARGETS)
    answers = ask(probes, namespace, target, standby=standby, mac=mac)
    probes.close()

    assert Answer("bond0", "e0", target.address, GATEWAY_MAC) in answers
    assert probes.counters["probes_sent"] == 1
    assert probes.counters["probe_frames_malformed"] == 0


def test_standby_probe_teaches_the_gateway_nothing_about_our_address(
    namespace: Namespace, gateway: Namespace
) -> None:
    """After a standby's probes the gateway knows no MAC for the bond's addresses."""
    probes = watching(namespace, *TARGETS)
    for target in TARGETS:
        assert ask(probes, namespace, target, standby=True)
    probes.close()
    neighbours = gateway.ip("neigh show dev g0")

    assert "10.0.0.2 " not in neighbours
    assert "fd00::2 " not in neighbours


@pytest.mark.parametrize("gentle", [False, True])
def test_a_gentle_watch_leaves_no_nic_promiscuous(
    namespace: Namespace, gateway: Namespace, *, gentle: bool
) -> None:
    """A veth has no filter for a second MAC, and hears the answers to a standby all the same."""
    probes = watching(namespace, *TARGETS, gentle=gentle)
    shown = namespace.ip("-d link show e0")
    answers = ask(probes, namespace, TARGETS[0], standby=True)
    probes.close()

    assert ("promiscuity 0" in shown) is gentle
    assert answers


def test_other_frames_wake_nobody(namespace: Namespace, gateway: Namespace) -> None:
    """Pings, other hosts' ARP and announcements of strangers stay in the kernel's filter."""
    probes = watching(namespace, *TARGETS)
    gateway.ip("addr add 10.0.0.9/24 dev g0")
    gateway.run("ping", "-q", "-c", "3", "-i", "0.05", "10.0.0.2", check=False)
    namespace.run("ping", "-q", "-c", "3", "-i", "0.05", "10.0.0.9", check=False)
    heard = [answer for answer in probes.read() if answer.address not in {"10.0.0.1", "fd00::1"}]
    probes.close()

    assert heard == []
    assert probes.counters["probe_frames_malformed"] == 0


def test_a_link_that_goes_down_and_comes_back_is_probed_again(
    namespace: Namespace, gateway: Namespace
) -> None:
    """The socket outlives its link's downs."""
    probes = watching(namespace, *TARGETS)
    index = namespace.index("e0")
    namespace.flip(index, up=False)
    probe = SendProbe("bond0", "e0", index, OWN_MAC, False, TARGETS[0], "")
    assert not probes.send(probe)
    assert list(probes.read()) == []
    namespace.flip(index, up=True)
    time.sleep(0.1)
    answers = ask(probes, namespace, TARGETS[0], standby=False)
    probes.close()

    assert answers


def test_a_port_that_is_not_there_is_a_problem_with_a_name(namespace: Namespace) -> None:
    """What cannot be opened is said, and sending to it is counted."""
    member = MemberSight("e7", 77, True, True, OWN_MAC, MADE_MAC)
    with namespace.enter():
        probes = PathProbes()
        probes.watch(Sights((BondSight("bond0", 9, (member,), "e7", targets=TARGETS),)))
        sent = probes.send(SendProbe("bond0", "e7", 77, OWN_MAC, False, TARGETS[0], ""))
        probes.close()

    assert probes.problems == {"bond0": "cannot probe e7: No such device"}
    assert not sent
    assert probes.counters["probe_send_failures"] == 1
