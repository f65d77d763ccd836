"""Probes of uplinks on a real kernel: each through its own interface, both families."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

import pytest

from linkhold.sensors.uplink_probes import UplinkProbes, drops_answers
from support.netns import Namespace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from linkhold.decide.uplinks import Answer

FAR, FAR_6 = "203.0.113.9", "2001:db8::9"


class Node:
    """A node with bond0 and usb0, each with a router of its own that is also the far target."""

    def __init__(self, node: Namespace, routers: dict[str, Namespace]) -> None:
        self.node, self.routers = node, routers
        for number, (link, router) in enumerate(routers.items(), 1):
            node.veth(link, "up0", other=router)
            node.ip(f"addr add 10.0.{number}.2/24 dev {link}")
            node.ip(f"addr add fd0{number}::2/64 dev {link} nodad")
            router.ip(f"addr add 10.0.{number}.1/24 dev up0")
            router.ip(f"addr add fd0{number}::1/64 dev up0 nodad")
            router.ip(f"addr add {FAR}/32 dev lo")
            router.ip(f"addr add {FAR_6}/128 dev lo nodad")
            node.ip(f"route add default via 10.0.{number}.1 dev {link} metric {number}00")
            node.ip(f"-6 route add default via fd0{number}::1 dev {link} metric {number}00")

    def ask(self, link: str, *targets: str, wait_s: float = 1.0) -> tuple[str, list[Answer]]:
        """Ask through ``link``; return why it could not be, and the answers within a time."""
        return self.node.call(lambda: _ask(link, self.node.index(link), targets, wait_s))


def _ask(
    link: str, index: int, targets: tuple[str, ...], wait_s: float
) -> tuple[str, list[Answer]]:
    probes = UplinkProbes()
    problem = probes.send(link, index, targets, time.monotonic_ns())
    found: list[Answer] = []
    end_s = time.monotonic() + wait_s
    while not problem and len(found) < len(targets) and time.monotonic() < end_s:
        select.select(list(probes.filenos()), [], [], 0.05)
        found += probes.read(link, time.monotonic_ns())
    probes.close_all()
    return problem, found


@pytest.fixture
def node(can_make_namespaces: None) -> Iterator[Node]:
    """A node with two uplinks."""
    with Namespace() as made, Namespace() as bond, Namespace() as usb:
        yield Node(made, {"bond0": bond, "usb0": usb})


@pytest.mark.parametrize("link", ["bond0", "usb0"])
@pytest.mark.parametrize("target", [FAR, FAR_6])
def test_far_target_answers_through_either_uplink(node: Node, link: str, target: str) -> None:
    """A target beyond the gateway answers through both uplinks, preferred or not."""
    problem, answers = node.ask(link, target)

    assert problem == ""
    assert [(a.link, a.target) for a in answers] == [(link, target)]
    assert 0 < answers[0].rtt_ns < 500_000_000


def test_dead_uplink_is_silent_while_the_other_answers(node: Node) -> None:
    """No probe strays over the other uplink: one that is dead behind its link is silent."""
    node.routers["bond0"].ip("link set up0 down")
    node.node.ip("link set bond0 up")

    assert node.ask("bond0", FAR, FAR_6, wait_s=0.4) == ("", [])
    assert len(node.ask("usb0", FAR, FAR_6)[1]) == 2


def test_strict_filter_drops_answers_and_is_found(node: Node) -> None:
    """With rp_filter 1 the spare hears its gateway, but no far target; 2 lets all pass."""
    sysctl: Callable[[str], str] = lambda value: node.node.run(  # noqa: E731
        "sh", "-c", f"echo {value} >/proc/sys/net/ipv4/conf/usb0/rp_filter"
    )
    sysctl("1")
    assert node.node.call(lambda: drops_answers("usb0")) is True
    assert node.ask("usb0", FAR, wait_s=0.4)[1] == []
    assert len(node.ask("usb0", "10.0.2.1", FAR_6)[1]) == 2

    sysctl("2")
    assert node.node.call(lambda: drops_answers("usb0")) is False
    assert len(node.ask("usb0", FAR)[1]) == 1


def test_target_without_a_way_counts_as_asked(node: Node) -> None:
    """A target to which the uplink has no route is silent, which is news, not blindness."""
    node.node.ip("-6 route del default dev usb0")

    assert node.ask("usb0", FAR_6, wait_s=0.2) == ("", [])


def test_missing_interface_and_missing_right_are_reasons(node: Node) -> None:
    """What cannot be sent says why."""
    gone = node.node.call(lambda: UplinkProbes().send("nope0", 99, (FAR,), 1))

    assert gone == "probes over nope0: No such device"


def test_foreign_answers_are_not_ours(node: Node) -> None:
    """Answers to somebody else's ping, on the same interface, are not taken for ours."""

    def listen() -> list[Answer]:
        probes = UplinkProbes()
        probes.send("usb0", node.node.index("usb0"), ("10.0.2.99",), time.monotonic_ns())
        node.node.run("ping", "-c", "2", "-i", "0.2", "-I", "usb0", FAR)
        found = probes.read("usb0", time.monotonic_ns())
        probes.close_all()
        return found

    assert node.node.call(listen) == []
