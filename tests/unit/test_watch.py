"""Which interfaces are looked at."""

from __future__ import annotations

import pytest

from linkhold.decide.watch import VIRTUAL, Watch, watched
from linkhold.model import DefaultRoute, Link

LOOPBACK = Link(1, "lo", hw_type=772)
HARDWARE = Link(2, "eth0")
VETH = Link(3, "veth3", kind="veth")


def seen(
    *links: Link, routes: tuple[DefaultRoute, ...] = (), watch: Watch | None = None
) -> set[int]:
    """Return what is watched of these links."""
    return set(watched({link.index: link for link in links}, routes, watch or Watch()))


def test_hardware_is_watched_and_loopback_is_not() -> None:
    """A NIC is watched without being named; loopback has no cable."""
    assert seen(LOOPBACK, HARDWARE) == {2}


@pytest.mark.parametrize("kind", sorted(VIRTUAL))
def test_virtual_links_are_not_watched(kind: str) -> None:
    """What containers, VMs and tunnels make and remove gives no readings."""
    assert seen(Link(7, "x", kind=kind)) == set()


@pytest.mark.parametrize("kind", ["bond", "team", "vlan", "ppp", "wwan", "something-new"])
def test_other_kinds_are_watched(kind: str) -> None:
    """Bonds, VLANs and kinds we do not know are watched: a silent fault costs more than noise."""
    assert seen(Link(7, "x", kind=kind)) == {7}


@pytest.mark.parametrize("kind", ["wireguard", "bridge", "veth", "tun"])
def test_a_default_route_makes_any_link_watched(kind: str) -> None:
    """The way out is watched whatever it is made of."""
    assert seen(Link(7, "x", kind=kind), routes=(DefaultRoute("inet", 7),)) == {7}


def test_loopback_is_never_a_way_out() -> None:
    """A default route to loopback does not make it watched."""
    assert seen(LOOPBACK, routes=(DefaultRoute("inet6", 1),)) == set()


@pytest.mark.parametrize("kind", ["bond", "team"])
def test_ports_of_a_bond_are_watched(kind: str) -> None:
    """A virtual port of a bond is as important as a real one."""
    assert seen(Link(9, "bond0", kind=kind), Link(3, "veth3", kind="veth", master=9)) == {3, 9}


def test_ports_of_a_bridge_are_watched_only_if_hardware() -> None:
    """On a bridge that carries the default route, containers stay out and the NIC stays in."""
    bridge = Link(9, "br0", kind="bridge")
    ports = (Link(2, "eth0", master=9), Link(3, "veth3", kind="veth", master=9))
    assert seen(bridge, *ports, routes=(DefaultRoute("inet", 9),)) == {2, 9}


def test_a_named_link_is_watched_whatever_its_kind() -> None:
    """``links: {veth3: {role: auto}}`` is a wish to watch it."""
    assert seen(VETH, watch=Watch(forced=frozenset({"veth3"}))) == {3}


def test_role_ignore_beats_everything() -> None:
    """An ignored link is ignored even if it is hardware, in a bond and carries the way out."""
    port = Link(2, "eth0", master=9)
    links = (Link(9, "bond0", kind="bond"), port)
    ignore = Watch(forced=frozenset({"eth0"}), ignored=frozenset({"eth0"}))
    assert seen(*links, routes=(DefaultRoute("inet", 2),), watch=ignore) == {9}


def test_a_port_whose_master_is_unknown_is_judged_by_its_kind() -> None:
    """Between two messages a port may name a bond that is not there yet."""
    assert seen(Link(3, "veth3", kind="veth", master=9)) == set()
