"""Bytes of rtnetlink to values."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.model import Address, BondOptions, BondPort, DefaultRoute, Link
from linkhold.rtnl.framing import Malformed, error_of, messages
from linkhold.sensors.link_codec import (
    OPERSTATES,
    Leg,
    Route,
    decode_address,
    decode_link,
    decode_routes,
)
from support import rtnl_bytes as rb

MACS = st.binary(min_size=6, max_size=6)
COUNTS = st.integers(0, 2**32 - 1)
NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,14}", fullmatch=True)


def link_of(body: bytes) -> Link | None:
    """Decode one link body."""
    return decode_link(body, 0, len(body))


def routes_of(body: bytes) -> tuple[Route, ...]:
    """Decode one route body."""
    return decode_routes(body, 0, len(body))


@st.composite
def links(draw: st.DrawFn) -> Link:
    """Return any link as the kernel could describe it, bonds and ports apart."""
    return Link(
        index=draw(st.integers(1, 2**31 - 1)),
        name=draw(NAMES),
        kind=draw(st.sampled_from(["", "veth", "vlan", "bridge"])),
        admin_up=draw(st.booleans()),
        carrier=draw(st.booleans()),
        operstate=draw(st.sampled_from(OPERSTATES)),
        mac=draw(MACS).hex(":"),
        perm_mac=draw(MACS).hex(":"),
        mtu=draw(COUNTS),
        master=draw(st.none() | st.integers(1, 2**31 - 1)),
        carrier_ups=draw(COUNTS),
        carrier_downs=draw(COUNTS),
        bus_path=draw(st.sampled_from(["", "0000:3b:00.1", "virtio3"])),
    )


def encode(link: Link) -> bytes:
    """Return the body of an RTM_NEWLINK for ``link``."""
    attrs = [
        rb.u8(16, OPERSTATES.index(link.operstate)),
        rb.u8(33, link.carrier),
        rb.attr(1, bytes.fromhex(link.mac.replace(":", ""))),
        rb.attr(54, bytes.fromhex(link.perm_mac.replace(":", ""))),
        *(
            rb.u32(*pair)
            for pair in ((4, link.mtu), (47, link.carrier_ups), (48, link.carrier_downs))
        ),
        rb.text(56, link.bus_path),
    ]
    if link.kind:
        attrs.append(rb.nest(18, rb.text(1, link.kind)))
    if link.master:
        attrs.append(rb.u32(10, link.master))
    return rb.link(link.index, link.name, *attrs, flags=int(link.admin_up))


@given(links())
def test_link_round_trip(link: Link) -> None:
    """What the kernel encodes is what the model says, field by field."""
    assert link_of(encode(link)) == link


@given(st.binary(max_size=300), st.sampled_from([decode_link, decode_address, decode_routes]))
def test_any_bytes_decode_or_are_malformed(data: bytes, decode: object) -> None:
    """A decoder returns or raises Malformed, whatever the bytes."""
    assert callable(decode)
    for start in (0, 3, len(data)):
        try:
            decode(data, start, len(data))
        except Malformed:
            continue


@given(links(), st.data())
def test_a_damaged_link_message_never_raises_anything_else(link: Link, data: st.DataObject) -> None:
    """One byte changed anywhere, or the end cut off: a value or Malformed."""
    body = bytearray(encode(link))
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    for damaged in (bytes(body), cut):
        try:
            link_of(damaged)
        except Malformed:
            continue


@given(st.binary(max_size=200))
def test_framing_yields_messages_inside_the_datagram(data: bytes) -> None:
    """A message never reaches past its datagram, and bad framing is Malformed."""
    try:
        for message in messages(data):
            assert 16 <= message.start <= message.end <= len(data)
    except Malformed:
        return


def test_framing_keeps_what_comes_before_the_damage() -> None:
    """The good messages of a cut datagram are still used."""
    data = rb.message(16, rb.link(1, "lo")) + rb.message(16, rb.link(2, "eth0"))
    walk = messages(data[:-8])
    assert next(walk).kind == 16
    with pytest.raises(Malformed, match="longer than its datagram"):
        next(walk)


def test_error_number_of_an_answer() -> None:
    """NLMSG_ERROR carries a negative errno; a NLMSG_DONE without payload means success."""
    data = rb.message(2, struct.pack("=i", -16)) + rb.message(3, b"")
    assert [error_of(data, message) for message in messages(data)] == [16, 0]


def test_carrier_falls_back_to_the_flag() -> None:
    """Without IFLA_CARRIER the flag IFF_LOWER_UP says whether there is a carrier."""
    with_flag, without = (link_of(rb.link(2, "eth0", flags=flags)) for flags in (0x10001, 0x1))
    assert with_flag is not None
    assert without is not None
    assert (with_flag.carrier, without.carrier) == (True, False)


def test_an_addendum_without_a_name_is_no_link() -> None:
    """Wireless events carry neither name nor state and must not overwrite the link."""
    assert link_of(rb.link(2, "", rb.attr(11, b"scan"))) is None


def test_a_name_that_is_no_utf8_stays_visible() -> None:
    """The kernel allows any bytes in a name; ours can be written as JSON."""
    link = link_of(rb.link(2, "", rb.attr(3, b"eth\xff\0")))
    assert link is not None
    assert link.name == "eth\\xff"


def test_details_of_ethtool_are_taken_over() -> None:
    """Driver and speed come from outside and survive a new message of the link."""
    body = rb.link(2, "eth0")
    link = decode_link(body, 0, len(body), "mlx5_core", 100_000, True)
    assert link is not None
    assert (link.driver, link.speed_mbps, link.vf) == ("mlx5_core", 100_000, True)


def test_bond_options() -> None:
    """IFLA_BOND_* become BondOptions; an absent active member is None."""
    data = [
        *(rb.u8(kind, value) for kind, value in ((1, 1), (12, 2), (13, 1), (16, 5), (17, 1))),
        *(rb.u32(kind, value) for kind, value in ((3, 50), (4, 100), (5, 150), (7, 0), (11, 3))),
        *(rb.u32(kind, value) for kind, value in ((15, 2), (28, 200))),
    ]
    link = link_of(rb.link(9, "bond0", rb.nest(18, rb.text(1, "bond"), rb.nest(2, *data))))
    assert link is not None
    assert link.kind == "bond"
    assert link.bond == BondOptions(
        mode=1, active=None, miimon_ms=50, primary=3, primary_reselect=2, fail_over_mac=1,
        updelay_ms=100, downdelay_ms=150, num_peer_notif=5, peer_notif_delay_ms=200,
        resend_igmp=2, all_slaves_active=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "mii", "expected"),
    [
        (0, 0, ("active", "up")),
        (1, 1, ("backup", "going_down")),
        (1, 2, ("backup", "down")),
        (1, 3, ("backup", "going_back")),
        (7, 9, ("unknown", "unknown")),
    ],
)
def test_bond_port(state: int, mii: int, expected: tuple[str, str]) -> None:
    """IFLA_BOND_SLAVE_* become a BondPort; a number from a newer kernel is unknown."""
    data = [rb.u8(1, state), rb.u8(2, mii), rb.u32(3, 4), rb.attr(4, bytes(range(6)))]
    info = rb.nest(18, rb.text(1, "veth"), rb.text(4, "bond"), rb.nest(5, *data))
    link = link_of(rb.link(3, "eth0", info, rb.u32(10, 9)))
    assert link is not None
    assert link.port == BondPort(*expected, link_failures=4, perm_mac="00:01:02:03:04:05")
    assert link.master == 9


def test_ports_of_other_masters_have_no_bond_port() -> None:
    """A bridge port's data is not read as a bond's."""
    info = rb.nest(18, rb.text(4, "bridge"), rb.nest(5, rb.u8(1, 3)))
    link = link_of(rb.link(3, "eth0", info))
    assert link is not None
    assert link.port is None


@pytest.mark.parametrize(
    ("flags", "tentative"), [(0x80, False), (0x40, True), (0x44, False), (0x48, True)]
)
def test_address_flags(flags: int, tentative: bool) -> None:  # noqa: FBT001
    """Tentative and duplicate addresses are not usable; optimistic ones are."""
    body = rb.address(2, "fe80::1", 64, rb.u32(8, flags), scope=253)
    found = decode_address(body, 0, len(body))
    assert found == Address(2, "inet6", "fe80::1", 64, "link", tentative)


def test_local_address_beats_the_peers() -> None:
    """On point-to-point links IFA_ADDRESS is the peer's and IFA_LOCAL ours."""
    body = rb.address(2, "10.0.0.2", 32, rb.ip(2, "10.0.0.1"))
    found = decode_address(body, 0, len(body))
    assert found == Address(2, "inet", "10.0.0.1", 32)


def test_default_route() -> None:
    """A default route has gateway, metric and the table beyond 255 that RTA_TABLE names."""
    body = rb.route(rb.u32(15, 1000), rb.u32(6, 100), rb.ip(5, "10.0.0.1"), rb.u32(4, 2), table=252)
    (route,) = routes_of(body)
    assert route.default_routes() == (DefaultRoute("inet", 2, "10.0.0.1", 100, 1000),)


def test_ipv4_route_via_ipv6_gateway() -> None:
    """RTA_VIA names the gateway of another family."""
    via = struct.pack("=H", 10) + bytes(15) + b"\x01"
    (route,) = routes_of(rb.route(rb.attr(18, via), rb.u32(4, 2)))
    assert route.legs == (Leg(2, "::1"),)


@pytest.mark.parametrize(
    "body",
    [
        rb.route(rb.u32(4, 2), dst_len=24),
        rb.route(rb.u32(4, 2), src_len=64, family="inet6"),
        rb.route(rb.u32(4, 2), table=255),
        rb.route(rb.u32(4, 2), flags=0x200),
        struct.pack("=BBBBBBBBI", 128, 0, 0, 0, 254, 3, 0, 1, 0),
    ],
    ids=["not default", "by source", "local table", "cached", "other family"],
)
def test_what_is_no_default_route(body: bytes) -> None:
    """Other routes are skipped after the fixed header."""
    assert routes_of(body) == ()


@pytest.mark.parametrize("kind", [6, 7, 8, 9])
def test_a_default_to_nowhere_has_no_legs(kind: int) -> None:
    """blackhole, unreachable, prohibit and throw are no way out, but may replace one."""
    (route,) = routes_of(rb.route(rb.u32(4, 1), kind=kind))
    assert route.legs == ()


def test_multipath_has_one_default_route_per_hop() -> None:
    """Each next hop is a way out of its own; a dead one is none."""
    hops = rb.hop(2, rb.ip(5, "10.0.0.1")) + rb.hop(3, rb.ip(5, "10.1.0.1"), flags=1)
    (route,) = routes_of(rb.route(rb.attr(9, hops)))
    assert route.default_routes() == (DefaultRoute("inet", 2, "10.0.0.1"),)
    assert route.dead == (Leg(3, "10.1.0.1"),)


def test_ipv6_hops_are_routes_of_their_own() -> None:
    """IPv6 announces and deletes the hops of a multipath route one by one."""
    hops = rb.hop(2, rb.ip(5, "fe80::1")) + rb.hop(3, rb.ip(5, "fe80::2"))
    found = routes_of(rb.route(rb.attr(9, hops), family="inet6"))
    assert [route.legs for route in found] == [(Leg(2, "fe80::1"),), (Leg(3, "fe80::2"),)]


def test_route_of_a_nexthop_object_without_hops() -> None:
    """With nexthop_compat_mode off the message names only the object: no leg is invented."""
    (route,) = routes_of(rb.route(rb.u32(30, 5)))
    assert (route.nexthop_id, route.legs) == (5, ())
