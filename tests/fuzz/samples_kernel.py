"""What the kernel says, as samples: messages of netlink, lines of its log, frames."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from linkhold.frames import echo, neighbours
from support import rtnl_bytes as rtnl

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


ETH0 = rtnl.link(
    2, "eth0", rtnl.text(3, "eth0"), rtnl.u32(4, 1500), rtnl.u8(16, 6), rtnl.u8(33, 1),
    rtnl.attr(1, b"\2\0\0\0\0\1"), rtnl.u32(10, 9), rtnl.attr(54, b"\2\0\0\0\0\1"),
    rtnl.attr(23, bytes(24 * 8)), rtnl.nest(43, rtnl.u8(2, 1)),
    rtnl.nest(26, rtnl.nest(10, rtnl.attr(7, bytes(15) + b"\1"))),
    rtnl.nest(18, rtnl.text(4, "bond"), rtnl.nest(5, rtnl.u8(1, 0), rtnl.u8(2, 0), rtnl.u32(3, 1))),
)  # fmt: skip


BOND0 = rtnl.link(
    9, "bond0", rtnl.u32(4, 1500),
    rtnl.nest(18, rtnl.text(1, "bond"), rtnl.nest(
        2, rtnl.u8(1, 1), rtnl.u32(2, 2), rtnl.u32(3, 50), rtnl.u8(16, 3),
        rtnl.nest(8, rtnl.ip(0, "10.0.0.1")), rtnl.nest(31, rtnl.ip(0, "2001:db8::1")),
    )),
)  # fmt: skip


VLAN = rtnl.link(
    11, "eth0.5", rtnl.u32(5, 2),
    rtnl.nest(18, rtnl.text(1, "vlan"), rtnl.nest(2, rtnl.attr(1, b"\5\0"))),
)  # fmt: skip


ROUTES = (
    rtnl.route(rtnl.u32(4, 2), rtnl.ip(5, "10.0.0.1"), rtnl.u32(6, 100), rtnl.u32(15, 254)),
    rtnl.route(
        rtnl.u32(4, 2), rtnl.attr(18, b"\x0a\0" + bytes(15) + b"\1"), rtnl.ip(7, "10.0.0.2")
    ),
    rtnl.route(
        rtnl.attr(9, rtnl.hop(2, rtnl.ip(5, "10.0.0.1")) + rtnl.hop(3, rtnl.ip(5, "10.0.0.3")))
    ),
    rtnl.route(
        rtnl.u32(4, 2),
        rtnl.ip(5, "fe80::1"),
        rtnl.attr(12, struct.pack("=IIi", 0, 0, 900)),
        family="inet6",
    ),
    rtnl.route(rtnl.ip(1, "10.0.0.0"), rtnl.u32(4, 2), dst_len=24),
)


ADDRESSES = (
    rtnl.address(
        2, "10.0.0.2", 24, rtnl.ip(2, "10.0.0.2"), rtnl.text(3, "eth0:1"), rtnl.u32(8, 0x80)
    ),
    rtnl.address(2, "fe80::2", 64, rtnl.u32(8, 0x40), scope=253),
)


RULES = (
    rtnl.route(rtnl.text(3, "eth0"), rtnl.u32(6, 100), rtnl.text(17, "eth1"), rtnl.u8(21, 99)),
    rtnl.route(rtnl.u32(6, 30_000), rtnl.u8(21, 156), rtnl.u32(15, 156), table=252),
)


NEIGHBOURS = (
    struct.pack("=BxxxiHBB", socket.AF_INET, 2, 2, 0, 1)
    + rtnl.ip(1, "10.0.0.1")
    + rtnl.attr(2, b"\2\0\0\0\0\7")
    + rtnl.attr(3, struct.pack("=IIII", 5, 6, 7, 0)),
)


NEXTHOPS = (
    bytes(8) + rtnl.u32(1, 7) + rtnl.u32(5, 2) + rtnl.ip(6, "10.0.0.1"),
    bytes(8) + rtnl.u32(1, 8) + rtnl.attr(2, struct.pack("=IIII", 7, 0, 9, 0)),
)


def datagrams() -> Sequence[bytes]:
    """Return datagrams of rtnetlink, each with one or more messages."""
    kinds = (
        (16, (ETH0, BOND0, VLAN)),
        (20, ADDRESSES),
        (24, ROUTES),
        (104, NEXTHOPS),
        (17, (ETH0,)),
    )
    one_each = [rtnl.message(kind, body) for kind, bodies in kinds for body in bodies]
    return [
        *one_each,
        b"".join(one_each),
        rtnl.message(2, struct.pack("=i", -19)),
        rtnl.message(3, bytes(4)),
    ]


def objects() -> Sequence[bytes]:
    """Return one object of each kind, behind a byte that says which it is."""
    kinds = ((ETH0, BOND0, VLAN), ADDRESSES, ROUTES, RULES, NEIGHBOURS, NEXTHOPS)
    return [bytes((number,)) + body for number, bodies in enumerate(kinds) for body in bodies]


def answers() -> Sequence[bytes]:
    """Return verdicts of the kernel, with and without its own words."""
    request = struct.pack("=IHHII", 20, 16, 5, 1, 0)
    refused = struct.pack("=i", -22) + request + rtnl.text(1, "bad attribute")
    return [
        rtnl.message(2, struct.pack("=i", 0) + request, seq=1),
        rtnl.message(2, refused, seq=1, flags=0x300),
        rtnl.message(
            2, struct.pack("=i", -1) + request + bytes(4) + rtnl.text(1, "no"), seq=1, flags=0x200
        ),
        rtnl.message(24, ROUTES[0], seq=1) + rtnl.message(3, bytes(4), seq=1),
    ]


def diag_sockets() -> Sequence[bytes]:
    """Return sockets as inet_diag lists them."""
    v4 = struct.pack("=BBBB", socket.AF_INET, 1, 2, 0)
    v4 += struct.pack(">HH16s16s", 22, 5000, bytes((10, 0, 0, 1)), bytes((10, 0, 0, 2)))
    v4 += bytes(12) + struct.pack("=IIIII", 500, 0, 0, 1000, 77)
    v6 = bytes((socket.AF_INET6,)) + v4[1:]
    return [v4, v6 + rtnl.u32(15, 5), v4 + rtnl.u32(15, 1)]


def unix_sockets() -> Sequence[bytes]:
    """Return sockets as unix_diag lists them."""
    head = struct.pack("=BBBxIII", socket.AF_UNIX, 1, 1, 5, 0, 0)
    listening = struct.pack("=BBBxIII", socket.AF_UNIX, 1, 10, 6, 0, 0)
    name = rtnl.attr(0, b"/run/linkhold/mqtt/broker.sock")
    return [head + name + rtnl.u32(2, 99), listening + name]


def chains() -> Sequence[bytes]:
    """Return chains and rules of nf_tables."""

    def be(kind: int, value: int) -> bytes:
        return rtnl.attr(kind, struct.pack(">I", value))

    head = struct.pack("=BBH", 2, 0, 0)
    chain = (
        head + rtnl.text(1, "filter") + rtnl.text(3, "INPUT") + rtnl.nest(4, be(1, 1)) + be(5, 0)
    )
    counter = rtnl.nest(1, rtnl.text(1, "counter"), rtnl.nest(2, rtnl.attr(2, bytes(7) + b"\x09")))
    drop = rtnl.nest(
        1, rtnl.text(1, "immediate"), rtnl.nest(2, rtnl.nest(2, rtnl.nest(2, be(1, 0))))
    )
    rule = head + rtnl.text(1, "filter") + rtnl.text(2, "INPUT") + rtnl.nest(4, counter, drop)
    return [chain, rule]


LOG = (
    (
        b"4,1234,5678901,-;mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged\n"
        b" SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n"
    ),
    b"6,7,8,-;bond0: (slave eth0): link status definitely down, disabling slave\n",
    b"3,9,10,-;NETDEV WATCHDOG: eth0 (igb): transmit queue 0 timed out\n DEVICE=n2\n",
    b"6,11,12,-;e1000e 0000:00:1f.6 eth0: NIC Link is Down\n",
    b"[  5.123456] igb 0000:01:00.0 eth0: igb: eth0 NIC Link is Up 1000 Mbps Full Duplex",
    b"<6>Nov 29 03:00:00 host kernel: [12.5] bnxt_en 0000:3b:00.0 eth0: NIC Link is Down",
    b"2026-11-29T03:00:00.123456+00:00 host kernel: pcieport 0000:00:01.0: AER: Corrected error",
)


def frames() -> Sequence[bytes]:
    """Return answers of neighbours, as they are on the wire."""
    mac, ours = "02:00:00:00:00:01", "02:00:00:00:00:02"
    reply = neighbours.arp(2, (mac, "10.0.0.1"), (ours, "10.0.0.2"), to=ours)
    return [reply, neighbours.advertisement(mac, "fe80::1", router=True)]


def echoes() -> Sequence[bytes]:
    """Return answers to echoes, with and without the IP header."""
    reply = bytes((0, 0)) + echo.request(4, 7, 1, b"linkhold-payload")[2:]
    return [b"\x45" + bytes(19) + reply, reply, bytes((129, 0)) + reply[2:]]


def socket_errors() -> Sequence[bytes]:
    """Return struct sock_extended_err with the address of who complains."""
    head = struct.pack("=IBBBBII", 90, 2, 3, 4, 0, 1400, 0)
    v4 = struct.pack("=HH4s8x", socket.AF_INET, 0, bytes((10, 0, 0, 9)))
    v6 = struct.pack("=HHI16sI", socket.AF_INET6, 0, 0, bytes(15) + b"\1", 0)
    return [head + v4, head + v6]


def bodies(*groups: Iterable[bytes]) -> Sequence[bytes]:
    """Return what lies in the groups."""
    return [body for group in groups for body in group]
