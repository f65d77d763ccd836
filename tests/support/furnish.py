"""A node whose eth0 carries one of everything that a move into a bond must take along."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from support.advertise import advertise
from support.lab.kernel import inside
from support.topology import ip, ip_batch, wait_until

if TYPE_CHECKING:
    from support.topology import TwoSwitches

ROUTED_4 = "172.16.0.1"
SLAAC = "fd77::ff:fe00:100"
TOKEN = "::aa"

RAIL = [
    "link add rail0 type veth peer name rail1",
    "link set rail0 up",
    "link set rail1 up",
    "addr add 10.2.0.2/24 dev rail0",
    "addr add 10.9.0.9/24 dev rail0 metric 77",
    "addr add fd08::9/64 dev rail0 nodad metric 99",
]
"""Another NIC, with addresses in networks of eth0: the kernel uses the first such route."""
ADDRESSES = [
    "addr add 10.0.0.2/24 dev eth0 brd +",
    "addr add 10.0.0.3/24 dev eth0 label eth0:1",
    "addr add 10.0.0.4/24 dev eth0 valid_lft 3000 preferred_lft 1500",
    "addr add 10.9.0.2/24 dev eth0 label eth0:lab metric 77",
    "addr add 10.8.0.2/24 dev eth0 noprefixroute",
    "addr add 10.6.0.2/24 dev eth0",
    "addr add 10.6.0.9/24 dev rail0",
    "addr add 10.7.0.2 peer 10.7.0.1/32 dev eth0",
    "addr add fd00::2/64 dev eth0 nodad",
    "addr add fd00::3/64 dev eth0 nodad valid_lft 3000 preferred_lft 0",
    "addr add fd00::4/128 dev eth0 nodad noprefixroute",
    "addr add fd08::2/64 dev eth0 nodad metric 99",
    "addr add fd06::2/64 dev eth0 nodad",
    "addr add fd06::9/64 dev rail0 nodad",
]
ROUTES = [
    "route add default via 10.0.0.1 dev eth0",
    "route add default via 10.0.0.1 dev eth0 metric 300",
    "route add default via 10.0.0.1 dev eth0 table 100",
    "route add 10.0.0.0/24 dev eth0 table 100",
    "route add default via 10.0.0.1 dev eth0 table 70000",
    "route add 172.16.0.0/16 via 10.0.0.1 dev eth0 metric 50 proto static",
    "route add 172.17.0.0/16 via 10.0.0.1 dev eth0 src 10.0.0.3",
    "route add 172.18.0.0/16 via 192.0.2.1 dev eth0 onlink",
    "route add 172.19.0.0/16 nexthop via 10.0.0.1 dev eth0 weight 2 nexthop via 10.2.0.1 dev rail0",
    "route add 172.21.0.0/16 via 10.0.0.1 dev eth0",
    "route append 172.21.0.0/16 via 10.0.0.5 dev eth0",
    "route append 172.21.0.0/16 via 10.2.0.1 dev rail0",
    "route append 172.21.0.0/16 via 10.0.0.6 dev eth0",
    "route add 172.22.0.0/16 via 10.0.0.1 dev eth0 mtu lock 1400 advmss 1360 initcwnd 20",
    "route add 172.23.0.0/16 dev eth0 scope link",
    "route add 172.24.0.0/16 via inet6 fd00::1 dev eth0",
    "route add blackhole 192.0.2.128/25",
    "route add unreachable 198.51.100.0/24 metric 5",
    "nexthop add id 10 via 10.0.0.1 dev eth0",
    "nexthop add id 11 via 10.2.0.1 dev rail0",
    "nexthop add id 20 group 10/11",
    "nexthop add id 30 via fd00::1 dev eth0",
    "route add 172.25.0.0/16 nhid 10",
    "route add 172.26.0.0/16 nhid 20",
    "-6 route add fd25::/64 nhid 30",
    "-6 route add default via fd00::1 dev eth0 metric 1030",
    "-6 route add fd10::/64 via fd00::1 dev eth0 expires 2000",
    "-6 route add fd11::/64 via fd00::1 dev eth0 table 100",
    "-6 route add fd12::/64 dev eth0 metric 5",
    "-6 route add fd13::/64 nexthop via fd00::1 dev eth0 nexthop via fd00::9 dev eth0",
    "-6 route add fd14::/64 via fd00::1 dev eth0 src fd00::2 pref high",
    "-6 route add blackhole fd15::/64",
]
RULES = [
    "rule add iif eth0 lookup 100 priority 1000",
    "rule add oif eth0 fwmark 7 lookup 100 priority 1001",
    "rule add from 10.0.0.3 lookup 70000 priority 1002",
    "rule add not iif eth0 to 172.30.0.0/16 ipproto tcp dport 80 lookup 100 priority 1003",
    "-6 rule add iif eth0 lookup 100 priority 1000",
    "-6 rule add from fd00::2 lookup 100 priority 1001",
]
NEIGHBOURS = [
    "neigh add 10.0.0.77 lladdr 02:00:00:00:77:77 dev eth0 nud permanent",
    "neigh add fd00::77 lladdr 02:00:00:00:77:77 dev eth0 nud permanent",
]
SYSCTLS = {
    "net/ipv4/conf/eth0/rp_filter": "2",
    "net/ipv4/conf/eth0/arp_announce": "2",
    "net/ipv4/conf/eth0/promote_secondaries": "1",
    "net/ipv6/conf/eth0/accept_ra": "2",
    "net/ipv6/conf/eth0/accept_ra_rt_info_max_plen": "64",
    "net/ipv6/conf/eth0/dad_transmits": "1",
    "net/ipv4/neigh/eth0/gc_stale_time": "120",
    "net/ipv6/neigh/eth0/base_reachable_time_ms": "45000",
    "net/ipv6/conf/eth1/accept_ra": "0",
}
BEHIND_THE_GATEWAY = [
    f"addr add {ROUTED_4}/32 dev lo",
    "link set lo up",
    "addr add 10.8.0.1/24 dev g0",
    "addr add fd08::1/64 dev g0 nodad",
    "route add 10.9.0.0/24 dev g0",
]


def furnish(net: TwoSwitches, *, token: bool = False) -> None:
    """Give eth0 all of it, MTU 9000 and an address by router advertisement; eth1 stays empty."""
    quiet_dad()
    for path, value in SYSCTLS.items():
        Path("/proc/sys", path).write_text(value)
    ip_batch(["link set eth0 mtu 9000", *RAIL])
    ip_batch(BEHIND_THE_GATEWAY, ns=net.gateway)
    with inside(f"/run/netns/{net.gateway}"):
        # Else its neighbour advertisements say that it is no router, and the default route goes.
        Path("/proc/sys/net/ipv6/conf/all/forwarding").write_text("1")
    if token:
        ip("token", "set", TOKEN, "dev", "eth0")
    ip_batch(ADDRESSES)
    wait_until(
        lambda: "tentative" not in ip("-6", "address", "show", "dev", "g0", ns=net.gateway),
        "the gateway has its link-local address",
    )
    advertise(net.gateway, "fd77::")
    wait_until(lambda: "fd77::" in ip("-6", "address", "show", "eth0"), "an address by RA")
    lines = [*ROUTES, *RULES, *NEIGHBOURS]
    ip_batch([line for line in lines if not line.startswith("-6 ")])
    of_ipv6 = [line.removeprefix("-6 ") for line in lines if line.startswith("-6 ")]
    ip("-6", "-batch", "-", lines="\n".join(of_ipv6))
    settle()


def quiet_dad() -> None:
    """No duplicate address detection on what is there now, which takes two seconds."""
    for nic in ("eth0", "eth1"):
        Path(f"/proc/sys/net/ipv6/conf/{nic}/accept_dad").write_text("0")


def settle() -> None:
    """Wait until no address is tentative any more."""
    wait_until(lambda: "tentative" not in ip("-6", "address"), "addresses are settled")
