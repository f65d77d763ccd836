"""The link sensor against a real kernel, in a network namespace of its own."""

from __future__ import annotations

import random
import select
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from linkhold.decide.readings import NetworkReading
from linkhold.decide.watch import Watch
from linkhold.model import DefaultRoute, HostNetwork, Link, Unavailable
from linkhold.rtnl import framing as netlink
from linkhold.rtnl.framing import NetlinkSocket
from linkhold.sensors import ethtool
from linkhold.sensors.rtnetlink import OVERRUN_REASON, RtnetlinkSensor
from support import rtnl_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.netns import Namespace

NAMED = Watch(forced=frozenset({"e0", "e1"}))


@pytest.fixture
def ns(namespace: Namespace) -> Iterator[Namespace]:
    """A namespace with e0 and e1, cables to p0 and p1; the test's thread is inside."""
    # Without duplicate address detection no address changes by itself a second later.
    namespace.run("sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0")
    for number in (0, 1):
        namespace.veth(f"e{number}", f"p{number}")
        namespace.ip(f"addr add 10.{number}.0.2/24 dev e{number}")
        namespace.ip(f"addr add fd0{number}::2/64 dev e{number} nodad")
    with namespace.enter():
        yield namespace


def descriptors() -> int:
    """Return how many descriptors this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


class Follower:
    """Reads a sensor as the loop would, and keeps every reading."""

    def __init__(self, sensor: RtnetlinkSensor) -> None:
        self.sensor = sensor
        self.readings = [sensor.open()]

    @property
    def now(self) -> HostNetwork:
        """The latest picture."""
        return self.readings[-1].network

    def link(self, name: str = "e0") -> Link:
        """Return a watched link."""
        link = self.now.by_name(name)
        assert link is not None
        return link

    def ways(self) -> set[tuple[str, str, str]]:
        """Return the default routes as (family, link, gateway)."""
        return {(r.family, self.now.links[r.index].name, r.gateway) for r in self.now.routes}

    def turn(self, seconds: float) -> bool:
        """Wait for the descriptor at most that long and read once; False if nothing came."""
        if not select.select([self.sensor], [], [], seconds)[0]:
            return False
        reading = self.sensor.read()
        if reading is not None:
            self.readings.append(reading)
        return True

    def settle(self, quiet_s: float = 0.05) -> None:
        """Read until nothing comes for a while, at most 5 s."""
        end = time.monotonic() + 5
        while self.turn(quiet_s) and time.monotonic() < end:
            pass

    def calm(self) -> None:
        """Wait until both links are up, and keep only the last reading.

        The kernel may report a link's first carrier a second late (linkwatch); its link-local
        address comes with that.
        """
        self.until(lambda: all(link.operstate == "up" for link in self.now.links.values()))
        self.until(lambda: sum(one.scope == "link" for one in self.now.addresses) == 2)
        self.settle(0.2)
        self.readings = self.readings[-1:]

    def until(self, true: Callable[[], bool]) -> None:
        """Read until the picture is as expected; fail after 5 s."""
        end = time.monotonic() + 5
        while not true():
            assert time.monotonic() < end, self.now
            self.turn(0.2)


@pytest.fixture
def host(ns: Namespace) -> Iterator[Follower]:
    """A sensor that has been opened, e0 and e1 up and quiet."""
    sensor = RtnetlinkSensor(NAMED)
    follower = Follower(sensor)
    follower.calm()
    yield follower
    sensor.close()


def test_first_reading_is_complete(ns: Namespace, host: Follower) -> None:
    """The first reading holds links, addresses and routes, and is no resync."""
    assert {link.name for link in host.now.links.values()} == {"e0", "e1"}
    assert (host.link().kind, host.link().operstate, host.link().mtu) == ("veth", "up", 1500)
    found = {(a.family, a.address, a.prefix_len) for a in host.now.addresses}
    assert {("inet", "10.0.0.2", 24), ("inet6", "fd00::2", 64)} <= found
    assert host.readings[0].resynced == ""


def test_carrier_follows_the_peer(ns: Namespace, host: Follower) -> None:
    """A cable pulled at the other end is seen as carrier, with the kernel's counters."""
    before = host.link()
    ns.flip(ns.index("p0"), up=False)
    host.until(lambda: not host.link().carrier)
    assert host.link().admin_up
    assert host.link().operstate == "lowerlayerdown"
    ns.flip(ns.index("p0"), up=True)
    host.until(lambda: host.link().usable)
    assert host.link().carrier_downs == before.carrier_downs + 1
    assert host.link().carrier_ups == before.carrier_ups + 1


def test_a_bounce_within_one_batch_shows_in_the_counters(ns: Namespace, host: Follower) -> None:
    """Down and up before anyone reads: the state is as before, the counters tell."""
    before = host.link()
    for up in (False, True):
        ns.flip(ns.index("p0"), up=up)
    time.sleep(0.1)
    host.settle()
    assert host.link().usable
    assert host.link().carrier_downs == before.carrier_downs + 1


def test_admin_down_and_up(ns: Namespace, host: Follower) -> None:
    """What an administrator does is told apart from a lost carrier."""
    ns.ip("link set e0 down")
    host.until(lambda: not host.link().admin_up)
    ns.ip("link set e0 up")
    host.until(lambda: host.link().usable)


def test_a_rename_keeps_the_index(ns: Namespace, host: Follower) -> None:
    """A link that gets a watched name appears under its old index."""
    index = ns.veth("c0", "c1", up=False)
    host.settle()
    ns.ip("link set e0 name old0")
    ns.ip("link set c0 name e0")
    host.until(lambda: host.now.by_name("e0") is not None and host.link().index == index)
    assert host.now.by_name("old0") is None


def test_removal_takes_everything_with_it(ns: Namespace, host: Follower) -> None:
    """A removed link leaves no address and no route behind."""
    ns.ip("route add default via 10.0.0.1")
    host.until(lambda: len(host.ways()) == 1)
    ns.ip("link del e0")
    host.until(lambda: host.now.by_name("e0") is None)
    host.settle()
    assert host.now.routes == frozenset()
    assert {address.index for address in host.now.addresses} == {host.link("e1").index}


def test_mac_and_mtu(ns: Namespace, host: Follower) -> None:
    """A changed MAC and MTU are readings."""
    ns.ip("link set e0 address 02:00:00:00:00:07 mtu 9000")
    host.until(lambda: (host.link().mac, host.link().mtu) == ("02:00:00:00:00:07", 9000))


@pytest.mark.parametrize(
    ("address", "family"), [("10.0.0.77/25", "inet"), ("fd00::77/80", "inet6")]
)
def test_addresses_come_and_go(ns: Namespace, host: Follower, address: str, family: str) -> None:
    """IPv4 and IPv6 addresses are followed with their prefix."""

    def there() -> bool:
        found = {f"{a.address}/{a.prefix_len}" for a in host.now.addresses if a.family == family}
        return address in found

    ns.ip(f"addr add {address} dev e0")
    host.until(there)
    ns.ip(f"addr del {address} dev e0")
    host.until(lambda: not there())


@pytest.mark.parametrize(("family", "gateway"), [("inet", "10.0.0.1"), ("inet6", "fd00::1")])
def test_default_routes_come_and_go(
    ns: Namespace, host: Follower, family: str, gateway: str
) -> None:
    """A default route is a reading; a network route beside it is none."""
    option = "-6" if family == "inet6" else "-4"
    prefix = "fd99::/64" if family == "inet6" else "10.99.0.0/16"
    ns.ip(f"{option} route add {prefix} via {gateway}")
    host.settle()
    assert len(host.readings) == 1
    ns.ip(f"{option} route add default via {gateway} metric 77")
    expected = DefaultRoute(family, host.link().index, gateway, 77)
    host.until(lambda: host.now.routes == {expected})
    ns.ip(f"{option} route del default")
    host.until(lambda: not host.now.routes)


def test_a_route_flushed_by_admin_down_is_gone_and_can_return(
    ns: Namespace, host: Follower
) -> None:
    """The kernel flushes it without a message; adding it again is announced."""
    ns.ip("route add default via 10.0.0.1")
    host.until(lambda: host.ways() == {("inet", "e0", "10.0.0.1")})
    ns.ip("link set e0 down")
    host.until(lambda: not host.ways())
    ns.ip("link set e0 up")
    host.until(lambda: host.link().usable)
    host.settle()
    assert not host.ways()
    ns.ip("route add default via 10.0.0.1")
    host.until(lambda: host.ways() == {("inet", "e0", "10.0.0.1")})


@pytest.mark.parametrize("source", ["", " src 10.0.0.9"])
def test_a_route_that_goes_with_an_address_is_gone(
    ns: Namespace, host: Follower, source: str
) -> None:
    """Deleting the last address, or the preferred source, of a default route ends it."""
    if source:
        ns.ip("addr add 10.0.0.9/32 dev e0")
    ns.ip(f"route add default via 10.0.0.1{source}")
    host.until(lambda: host.ways() == {("inet", "e0", "10.0.0.1")})
    ns.ip("addr del 10.0.0.9/32 dev e0" if source else "addr del 10.0.0.2/24 dev e0")
    host.until(lambda: not host.ways())


def test_a_multipath_leg_dies_and_revives_with_its_link(ns: Namespace, host: Follower) -> None:
    """The kernel announces neither, for IPv4 and IPv6."""
    ns.ip("route add default nexthop via 10.0.0.1 nexthop via 10.1.0.1")
    ns.ip("-6 route add default nexthop via fd00::1 dev e0 nexthop via fd01::1 dev e1")
    every = {
        *(("inet", "e0", "10.0.0.1"), ("inet", "e1", "10.1.0.1")),
        *(("inet6", "e0", "fd00::1"), ("inet6", "e1", "fd01::1")),
    }
    host.until(lambda: host.ways() == every)
    for _ in range(20):
        ns.flip(host.link().index, up=False)
        host.until(lambda: host.ways() == {way for way in every if way[1] == "e1"})
        ns.flip(host.link().index, up=True)
        host.until(lambda: host.ways() == every)


def test_a_route_that_goes_with_its_nexthop_object_is_gone(ns: Namespace, host: Follower) -> None:
    """IPv4 routes of a deleted nexthop object are flushed without a message."""
    ns.ip("nexthop add id 5 via 10.0.0.1 dev e0")
    ns.ip("route add default nhid 5")
    host.until(lambda: host.ways() == {("inet", "e0", "10.0.0.1")})
    ns.ip("nexthop replace id 5 via 10.1.0.1 dev e1")
    host.until(lambda: host.ways() == {("inet", "e1", "10.1.0.1")})
    ns.ip("nexthop del id 5")
    host.until(lambda: not host.ways())


def test_an_unnamed_veth_is_watched_once_it_is_the_way_out(ns: Namespace, host: Follower) -> None:
    """A container's cable gives no reading until a default route goes over it.

    When that route is lost the link is not: it would be told as gone while it is there.
    """
    ns.veth("c0", "c1")
    ns.ip("addr add 10.9.0.2/24 dev c0")
    host.settle(0.3)
    assert len(host.readings) == 1
    ns.ip("route add default via 10.9.0.1")
    host.until(lambda: host.now.by_name("c0") is not None)
    ns.ip("route del default")
    host.until(lambda: not host.now.routes)
    assert host.now.by_name("c0") is not None
    ns.ip("link del c0")
    host.until(lambda: host.now.by_name("c0") is None)


def test_a_lost_way_out_is_seen_after_a_restart(ns: Namespace) -> None:
    """What was looked at before is there, though no default route leads to it any more."""
    ns.veth("c0", "c1")
    index = ns.index("c0")
    before = HostNetwork({number: Link(number, "c0", kind="veth") for number in (index, 9999)})
    with ns.enter():
        sensor = RtnetlinkSensor(Watch())
        sensor.remember(None)
        sensor.remember(before)
        first = sensor.open()
        sensor.close()
        again = sensor.open()
        sensor.close()

    assert set(first.network.links) == set(again.network.links) == {index}


def test_leaving_a_bridge_is_no_removal(ns: Namespace, host: Follower) -> None:
    """The bridge's own RTM_DELLINK for a port is not taken for the link's end."""
    ns.ip("link add br0 type bridge")
    ns.ip("link set e0 master br0")
    host.until(lambda: host.link().master is not None)
    ns.ip("link set e0 nomaster")
    host.until(lambda: host.link().master is None)
    host.settle()
    assert all(reading.network.by_name("e0") for reading in host.readings)


def test_container_churn_gives_no_reading_and_costs_little(ns: Namespace, host: Follower) -> None:
    """500 veth pairs made, raised and removed: no reading, below 1 ms CPU a pair, ip included."""
    before = host.sensor.counters["messages"]
    start = time.thread_time()
    for lines in ("link add c{0} up type veth peer name d{0}", "link del c{0}"):
        ns.batch("\n".join(lines.format(number) for number in range(500)))
        host.settle(0.3)
    spent = time.thread_time() - start
    print(f"{spent * 1e3:.0f} ms CPU, {host.sensor.counters['messages'] - before} messages")
    assert spent < 0.5
    assert host.sensor.counters["messages"] - before > 2000
    assert len(host.readings) == 1
    assert host.sensor.counters["overruns"] == 0


def test_one_read_is_bounded(ns: Namespace, host: Follower) -> None:
    """A storm cannot starve the loop: at most 256 messages a read, and the rest stays readable."""
    peer = ns.index("p0")
    for number in range(400):
        ns.flip(peer, up=bool(number % 2))
    before = host.sensor.counters["messages"]
    assert host.turn(0)
    assert 0 < host.sensor.counters["messages"] - before <= 256
    assert host.turn(0)
    host.settle()
    assert host.link().usable


def test_a_storm_read_late_is_a_resync_with_the_right_end(ns: Namespace) -> None:
    """3000 flips against a small buffer: one resync at least, then the right carrier and counts."""
    sensor = RtnetlinkSensor(NAMED, rcvbuf_bytes=65536)
    host = Follower(sensor)
    host.calm()
    before, descriptor, open_files = host.link(), sensor.fileno(), descriptors()
    peer = ns.index("p0")
    for number in range(3000):
        ns.flip(peer, up=bool(number % 2))
        if number % 500 == 499:
            host.turn(0)
    ns.flip(peer, up=False)
    host.until(lambda: host.link().carrier_downs == before.carrier_downs + 1501)
    host.settle(0.3)
    assert not host.link().carrier
    assert host.link().carrier_ups == before.carrier_ups + 1500
    assert OVERRUN_REASON in {reading.resynced for reading in host.readings}
    assert sensor.counters["overruns"] >= sensor.counters["resyncs"] >= 1
    assert sensor.fileno() == descriptor
    assert descriptors() <= open_files + 1  # the flipper's socket
    sensor.close()


def test_a_resync_is_told_even_if_nothing_changed(ns: Namespace) -> None:
    """Lost messages may have hidden something, so the reading always says so."""
    sensor = RtnetlinkSensor(NAMED, rcvbuf_bytes=65536)
    host = Follower(sensor)
    host.calm()
    ns.veth("c0", "c1", up=False)
    for number in range(400):
        ns.flip(ns.index("c0") if number == 0 else ns.index("c1"), up=bool(number % 2))
    first = host.now
    host.settle()
    resync = next(reading for reading in host.readings if reading.resynced)
    assert resync == NetworkReading(first, resynced=OVERRUN_REASON)
    sensor.close()


def test_messages_of_other_processes_are_ignored(ns: Namespace, host: Follower) -> None:
    """Only the kernel is believed; a forged removal is counted and dropped."""
    gone = rtnl_bytes.message(netlink.RTM_DELLINK, rtnl_bytes.link(host.link().index, "e0"))
    assert host.sensor._socket is not None
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as forger:
        forger.sendto(gone, (host.sensor._socket.port, 0))
    host.settle()
    assert host.sensor.counters["foreign"] == 1
    assert host.now.by_name("e0") is not None


def test_a_silent_kernel_is_unavailable_and_the_resync_is_not_forgotten(
    ns: Namespace, host: Follower, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer within the deadline: Unavailable with the reason; opened again, it is told."""
    sensor = RtnetlinkSensor(NAMED, deadline_s=0.1)
    sensor.open()

    def overrun(_: NetlinkSocket) -> None:
        raise netlink.Overrun

    with monkeypatch.context() as patch:
        patch.setattr(NetlinkSocket, "receive", overrun)
        with pytest.raises(Unavailable):
            sensor.read()
    assert sensor.fileno() == -1
    assert sensor.open().resynced == OVERRUN_REASON
    sensor.close()


def test_no_answer_is_unavailable(ns: Namespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The text names what did not come and how long it was waited for."""
    monkeypatch.setattr(NetlinkSocket, "request", lambda *_args, **_kw: 1)
    with pytest.raises(Unavailable, match=r"no complete answer in 0.05 s \(links\)"):
        RtnetlinkSensor(NAMED, deadline_s=0.05).open()


def test_details_and_watch_can_change(ns: Namespace, host: Follower) -> None:
    """Details of ethtool become a reading once, and so does a new watch."""
    index = host.link().index
    driver, _ = ethtool.driver_and_bus("e0")
    speed = ethtool.speed_mbps("e0")
    assert (driver, speed) == ("veth", 10_000)
    reading = host.sensor.set_details(index, driver, speed)
    assert reading is not None
    assert reading.network.links[index].driver == "veth"
    assert host.sensor.set_details(index, driver, speed) is None
    reading = host.sensor.set_watch(Watch(forced=frozenset({"e1"})))
    assert reading is not None
    assert index not in reading.network.links


def test_ethtool_says_unknown_instead_of_failing(ns: Namespace) -> None:
    """No such link, a name that cannot be one, a link without a speed: unknown."""
    for name in ("nothere", "", "a-name-that-is-too-long"):
        assert ethtool.driver_and_bus(name) == ("", "")
        assert ethtool.speed_mbps(name) is None
    assert ethtool.speed_mbps("lo") is None


def difference(done: list[str], expected: HostNetwork, got: HostNetwork) -> str:
    """Return the last changes and what is wrong after them, for people."""
    lines = [*done[-8:]]
    for part in ("addresses", "routes"):
        wanted, have = getattr(expected, part), getattr(got, part)
        lines += [f"missing {one}" for one in wanted - have]
        lines += [f"left over {one}" for one in have - wanted]
    if expected.links != got.links:
        lines += [f"wanted {expected.links}", f"have {got.links}"]
    return "\n".join(lines)


OPERATIONS = (
    *(f"link set {{e}} {state}" for state in ("down", "up", "up")),
    *("addr add {a}.0.2/24 dev {e}", "addr del {a}.0.2/24 dev {e}"),
    *("addr add {a}.0.9/32 dev {e}", "addr del {a}.0.9/32 dev {e}"),
    *("-6 addr add {f}::2/64 dev {e} nodad", "-6 addr del {f}::2/64 dev {e}"),
    *(f"route {verb} default via {{a}}.0.1" for verb in ("add", "append", "prepend", "replace")),
    "route append default via {a}.0.1 src {a}.0.9",
    "route add default via {a}.0.1 metric 50",
    "route add default dev {e} table 100",
    "route replace default nexthop via 10.0.0.1 nexthop via 10.1.0.1",
    *("route del default", "route replace blackhole default", "route append unreachable default"),
    *(f"-6 route {verb} default via {{f}}::1 dev {{e}}" for verb in ("add", "append", "replace")),
    "-6 route replace default nexthop via fd00::1 dev e0 nexthop via fd01::1 dev e1",
    *("-6 route del default", "-6 route replace blackhole default"),
    "-6 route del default via {f}::1 dev {e}",
    *("nexthop replace id 5 via {a}.0.1 dev {e}", "nexthop del id 5", "route add default nhid 5"),
    *("nexthop replace id 9 group 5", "route replace default nhid 9"),
)


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_changes_ends_in_what_a_fresh_look_shows(
    ns: Namespace, host: Follower, seed: int
) -> None:
    """150 random changes: after each the followed picture equals a new listing."""
    chance = random.Random(seed)
    done = []

    def fresh() -> HostNetwork:
        sensor = RtnetlinkSensor(NAMED)
        network = sensor.open().network
        sensor.close()
        return network

    for _ in range(150):
        number = chance.randrange(2)
        line = chance.choice(OPERATIONS).format(e=f"e{number}", a=f"10.{number}", f=f"fd0{number}")
        ns.run("ip", *line.split(), check=False)
        done.append(line)
        host.settle(0)
        end = time.monotonic() + 3
        while (expected := fresh()) != host.now:
            assert time.monotonic() < end, difference(done, expected, host.now)
            host.turn(0.02)
