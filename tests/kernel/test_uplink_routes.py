"""Our routes on a real kernel: what they change for whom, and that they leave nothing behind."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from linkhold.actuators import uplink_routes
from linkhold.model import HostError

if TYPE_CHECKING:
    from support.netns import Namespace

SETUP = """
link add bond0 type veth peer name bond0p
link add usb0 type veth peer name usb0p
link set bond0 up
link set bond0p up
link set usb0 up
link set usb0p up
addr add 10.0.0.2/24 dev bond0
addr add 192.168.8.2/24 dev usb0
addr add 192.168.8.3/24 dev usb0
addr add fd00::2/64 dev bond0 nodad
addr add fd08::2/64 dev usb0 nodad
route add default via 10.0.0.1 dev bond0
route add default via 192.168.8.1 dev usb0 metric 700 src 192.168.8.3 mtu 1400
route add 172.16.0.0/12 via 10.0.0.1 dev bond0
route add ::/0 via fd00::1 dev bond0
route add ::/0 via fd08::1 dev usb0 metric 2000
"""
FAR, FAR_6, NEAR = "203.0.113.9", "2001:db8::9", "172.16.1.1"


@pytest.fixture
def host(namespace: Namespace) -> Namespace:
    """A host with two uplinks, the better one with metric 0."""
    namespace.batch(SETUP)
    return namespace


def way(host: Namespace, target: str, *more: str) -> str:
    """Return the interface by which ``target`` is reached."""
    words = host.run("ip", "route", "get", target, *more).split()
    return words[words.index("dev") + 1]


def everything(host: Namespace) -> str:
    """Return all routes and rules."""
    commands = ("route show table all", "-6 route show table all", "rule", "-6 rule")
    return "\n".join(host.ip(command) for command in commands)


def test_placed_uplink_carries_default_traffic(host: Namespace) -> None:
    """Default traffic of both families takes the uplink, even over a default with metric 0."""
    host.call(lambda: uplink_routes.place(host.index("usb0")))

    assert (way(host, FAR), way(host, FAR_6)) == ("usb0", "usb0")
    assert host.call(uplink_routes.look).index == host.index("usb0")
    assert " src 192.168.8.3 " in host.run("ip", "route", "get", FAR)
    assert "mtu 1400" in host.ip("route show table 156")


def test_specific_routes_go_first(host: Namespace) -> None:
    """What has a route of its own in the main table keeps it."""
    host.call(lambda: uplink_routes.place(host.index("usb0")))

    assert (way(host, NEAR), way(host, "10.0.0.77")) == ("bond0", "bond0")


def test_bound_sockets_keep_their_interface(host: Namespace) -> None:
    """A probe bound to either interface takes its own default route, placed or not."""
    for placed in (False, True):
        if placed:
            host.call(lambda: uplink_routes.place(host.index("usb0")))
        for link in ("bond0", "usb0"):
            for target in (FAR, FAR_6):
                assert way(host, target, "oif", link) == link


def test_nothing_is_left_behind(host: Namespace) -> None:
    """After a restore routes and rules are what they were, and a second restore does nothing."""
    before = everything(host)
    host.call(lambda: uplink_routes.place(host.index("usb0")))
    assert everything(host) != before

    assert host.call(uplink_routes.restore) is True
    assert everything(host) == before
    assert host.call(uplink_routes.restore) is False
    assert host.call(uplink_routes.look) == uplink_routes.Front()


def test_placing_twice_and_elsewhere_adds_nothing(host: Namespace) -> None:
    """Placing again changes nothing; placing another uplink replaces the route, not the rules."""
    index, other = host.index("usb0"), host.index("bond0")
    host.call(lambda: uplink_routes.place(index))
    once = everything(host)
    host.call(lambda: uplink_routes.place(index))
    assert everything(host) == once

    host.call(lambda: uplink_routes.place(other))
    assert (way(host, FAR), way(host, FAR_6)) == ("bond0", "bond0")
    assert host.ip("rule").count("proto 156") == 2
    assert host.ip("route show table 156").count("default") == 1


def test_new_gateway_is_seen_as_not_in_front(host: Namespace) -> None:
    """When the uplink's own gateway changes, our copy counts no more until it is made anew."""
    index = host.index("usb0")
    host.call(lambda: uplink_routes.place(index))
    host.ip("route change default via 192.168.8.254 dev usb0 metric 700")
    assert host.call(uplink_routes.look) == uplink_routes.Front(0, remains=True)

    host.call(lambda: uplink_routes.place(index))
    assert host.call(uplink_routes.look).index == index
    assert "via 192.168.8.254" in host.ip("route show table 156")


def test_family_without_a_route_keeps_the_host_s(host: Namespace) -> None:
    """An uplink with IPv4 only takes IPv4 only."""
    host.ip("-6 route del default dev usb0")
    host.call(lambda: uplink_routes.place(host.index("usb0")))

    assert (way(host, FAR), way(host, FAR_6)) == ("usb0", "bond0")
    assert host.call(uplink_routes.look).index == host.index("usb0")


def test_lost_rule_is_seen_and_mended(host: Namespace) -> None:
    """Rules that somebody removed by half are seen, and made again in the right order."""
    index = host.index("usb0")
    host.call(lambda: uplink_routes.place(index))
    host.ip("rule del pref 32765 lookup main suppress_prefixlength 0")
    assert host.call(uplink_routes.look).index == 0

    host.call(lambda: uplink_routes.place(index))
    assert (way(host, FAR), way(host, NEAR)) == ("usb0", "bond0")


def test_interface_without_default_route_is_refused(host: Namespace) -> None:
    """Without a default route there is nothing to copy: the reason says so, nothing is changed."""
    before = everything(host)
    host.ip("link add lan0 type veth peer name lan0p")
    host.ip("link set lan0 up")

    with pytest.raises(HostError, match="lan0 has no default route in the main table"):
        host.call(lambda: uplink_routes.place(host.index("lan0")))
    host.ip("link del lan0")
    assert everything(host) == before


def test_interface_that_goes_down_frees_the_traffic(host: Namespace) -> None:
    """The kernel removes our route with its interface: the host's own routes stand at once."""
    host.call(lambda: uplink_routes.place(host.index("usb0")))
    host.ip("link set usb0 down")

    assert (way(host, FAR), way(host, FAR_6)) == ("bond0", "bond0")
    assert host.call(uplink_routes.look) == uplink_routes.Front(0, remains=True)
    host.call(uplink_routes.restore)
    assert "156" not in host.ip("rule") + host.ip("-6 rule")


def test_full_tunnel_stays_a_tunnel(host: Namespace) -> None:
    """Traffic that wg-quick's rules send into a tunnel does not pass it, and its packets switch."""
    host.batch(
        "link add wg0 type veth peer name wg0p\nlink set wg0 up\nlink set wg0p up\n"
        "addr add 10.7.0.2/32 dev wg0\n"
        "route add default dev wg0 table 51820\n"
        "rule add not fwmark 51820 lookup 51820\n"
        "rule add lookup main suppress_prefixlength 0\n"
    )
    host.call(lambda: uplink_routes.place(host.index("usb0")))

    assert way(host, FAR) == "wg0"
    assert way(host, FAR, "mark", "51820") == "usb0"


def test_nexthop_objects_are_copied_as_plain_hops(host: Namespace) -> None:
    """A default route by nexthop object becomes a route with its gateway and interface."""
    host.batch(
        "nexthop add id 9 via 192.168.8.1 dev usb0\nroute del default dev usb0\n"
        "route add default nhid 9 metric 700\n"
    )
    host.call(lambda: uplink_routes.place(host.index("usb0")))

    assert "via 192.168.8.1 dev usb0" in host.ip("route show table 156")


def test_foreign_routes_in_our_table_are_not_ours(host: Namespace) -> None:
    """Routes of another protocol in table 156 belong to somebody else and stay."""
    host.ip("route add 198.18.0.0/15 via 10.0.0.1 table 156 proto static")
    host.call(lambda: uplink_routes.place(host.index("usb0")))
    host.call(uplink_routes.restore)

    assert "198.18.0.0/15" in host.ip("route show table 156")


def test_refusal_names_the_reason(host: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the kernel refuses is told in its words, and nothing is left by half."""
    before = everything(host)
    made = uplink_routes.rules

    def twice(family: int) -> tuple[bytes, bytes]:
        return made(family)[0], made(family)[0]

    monkeypatch.setattr(uplink_routes, "rules", twice)
    with pytest.raises(HostError) as raised:
        host.call(lambda: uplink_routes.place(host.index("usb0")))

    assert raised.value.code == errno.EEXIST
    assert everything(host) == before
