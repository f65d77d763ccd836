"""Copies of default routes that routers advertise, which a move brings along."""

from __future__ import annotations

import struct
import sys
from dataclasses import replace

from linkhold.decide.bonding import routes
from linkhold.decide.bonding.objects import belongings
from linkhold.model.look import RTPROT_RA, Look, LookedRoute
from linkhold.rtnl.attributes import attributes, pack, u32
from support.bond_looks import LOOK, link

RTA_OIF, RTA_GATEWAY, RTA_PRIORITY = 4, 5, 6
ROUTER = "fe80::1"
ROUTER_BYTES = bytes.fromhex("fe800000000000000000000000000001")


def default(metric: int, protocol: int) -> LookedRoute:
    """Return an IPv6 default route on eth0 with the bytes that the kernel would tell."""
    head = struct.pack("=BBBBBBBBI", 10, 0, 0, 0, 254, protocol, 0, 1, 0)
    raw = head + u32(RTA_PRIORITY, metric) + u32(RTA_OIF, 2) + pack(RTA_GATEWAY, ROUTER_BYTES)
    return LookedRoute("inet6", 254, "default", ROUTER, metric, protocol, 1, (2,), raw=raw)


def metrics(*found: LookedRoute, target: str = "bond0") -> list[int]:
    """Return the metrics of the copies of eth0's routes that are made on ``target``."""
    look: Look = replace(LOOK, links=(*LOOK.links, link("bond0", 9)), routes=found)
    copies = routes.advertised(look, belongings(look, "eth0"), target)
    return [_metric(one.template.body) for one in copies]


def _metric(body: bytes) -> int:
    start, end = attributes(body, 12, len(body))[RTA_PRIORITY]
    return int.from_bytes(body[start:end], sys.byteorder)


def test_a_copy_has_the_next_metric() -> None:
    """The original's own would keep the kernel from taking advertisements for its own."""
    assert metrics(default(1024, RTPROT_RA)) == [1025]


def test_a_copy_never_becomes_a_next_hop_of_another_default_route() -> None:
    """IPv6 routes of one metric are one route: its removal would take a part of the other's."""
    static = 3
    found = default(1024, RTPROT_RA), default(1025, static), default(1026, static)

    assert metrics(*found) == [1027]


def test_the_metric_of_copies_does_not_grow() -> None:
    """With each change, made or undone, it would, until it is behind another default route."""
    first, second, static = default(1025, RTPROT_RA), default(1026, RTPROT_RA), default(1030, 3)

    assert metrics(default(1024, RTPROT_RA), static, target="eth0") == [1025]
    assert metrics(first, static, target="eth0") == [1025]
    assert metrics(default(1024, RTPROT_RA), first, static, target="eth0") == [1025]
    assert metrics(first, static) == [1026]
    assert metrics(second, static) == [1025]


def test_a_copy_of_a_managers_route_follows_it() -> None:
    """NetworkManager makes them itself, with a metric far from the kernel's."""
    assert metrics(default(100, RTPROT_RA)) == [101]
