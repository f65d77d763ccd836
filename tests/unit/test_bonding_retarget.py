"""Kernel objects rewritten from one interface to another: only the interface differs."""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from linkhold.model.look import LookedAddress, LookedNexthop, LookedRoute, LookedRule
from linkhold.rtnl import retarget
from linkhold.rtnl.attributes import each, pack, text, u32
from linkhold.survey import snapshot

if TYPE_CHECKING:
    from linkhold.rtnl.retarget import Template

NAMES = {2: "eth0", 3: "rail0", 7: "bond0"}
INDEXES = {name: index for index, name in NAMES.items()}
v4 = st.integers(0, 2**32 - 1).map(lambda n: ipaddress.IPv4Address(n).packed)
u32s = st.integers(0, 2**32 - 1)
unknown = st.lists(st.tuples(st.integers(40, 60), st.binary(max_size=9)), max_size=3)


def filled(template: Template) -> bytes:
    """Return the body as it is sent: interface indexes in its holes."""
    body = bytearray(template.body)
    for offset, name in template.holes:
        assert body[offset : offset + 4] == bytes(4)
        struct.pack_into("=I", body, offset, INDEXES[name])
    return bytes(body)


def looked_route(raw: bytes) -> LookedRoute:
    """Return a route as a snapshot has it."""
    found = snapshot._route(raw)
    assert found is not None
    return found


def looked_address(raw: bytes) -> LookedAddress:
    """Return an address as a snapshot has it."""
    found = snapshot._address(raw)
    assert found is not None
    return found


@st.composite
def addresses(draw: st.DrawFn) -> bytes:
    """Return the body of an RTM_NEWADDR of eth0, with attributes of tomorrow's kernels too."""
    flags = draw(st.integers(0, 0xFFF)) & retarget.SETTABLE_FLAGS
    label = draw(st.sampled_from(["eth0", "eth0:1", "eth0:lab"]))
    host = draw(v4)
    body = struct.pack("=BBBBI", 2, draw(st.integers(0, 32)), flags & 0xFF, draw(u8), 2)
    body += pack(1, host) + pack(2, host) + text(3, label)
    body += pack(6, struct.pack("=IIII", *(draw(u32s) for _ in range(4)))) + u32(8, flags)
    return body + b"".join(pack(kind, value) for kind, value in draw(unknown))


u8 = st.integers(0, 255)


@given(addresses())
def test_an_address_there_and_back_is_what_it_was(raw: bytes) -> None:
    """Label, lifetimes, flags and attributes nobody knows survive; the index alone changes."""
    there = filled(retarget.address(looked_address(raw), "eth0", "bond0"))
    back = filled(retarget.address(looked_address(there), "bond0", "eth0"))

    assert struct.unpack_from("=I", there, 4) == (7,)
    assert b"eth0" not in there
    assert back == raw


@st.composite
def routes(draw: st.DrawFn) -> bytes:
    """Return the body of an RTM_NEWROUTE over eth0, alone or with another NIC."""
    flags = draw(st.sampled_from([0, 4]))
    body = struct.pack("=BBBBBBBBI", 2, 24, 0, draw(u8), 254, draw(u8), draw(u8), 1, flags)
    body += u32(15, draw(u32s)) + pack(1, draw(v4)) + u32(6, draw(u32s))
    if draw(st.booleans()):
        hops = [
            struct.pack("=HBBi", 16, draw(st.sampled_from([0, 4])), draw(u8), index)
            + pack(5, draw(v4))
            for index in draw(st.permutations([2, 3]))
        ]
        body += pack(9, b"".join(hops))
    else:
        body += u32(4, 2) + pack(5, draw(v4))
    return body + b"".join(pack(kind, value) for kind, value in draw(unknown))


def move(raw: bytes, source: str, target: str) -> bytes:
    """Return a route with one interface in the place of another."""
    names = {**NAMES, INDEXES[source]: target}
    return filled(retarget.route(looked_route(raw), names))


@given(routes())
def test_a_route_there_and_back_is_what_it_was(raw: bytes) -> None:
    """Table, metric, gateway, next hops of other NICs and unknown attributes survive."""
    there = move(raw, "eth0", "bond0")

    assert 2 not in looked_route(there).indexes
    assert 7 in looked_route(there).indexes
    assert move(there, "bond0", "eth0") == raw


def test_a_route_over_a_nexthop_object_names_the_object_alone() -> None:
    """A dump tells the object's interface and gateway too; a request must not, beside its id."""
    body = struct.pack("=BBBBBBBBI", 2, 24, 0, 0, 254, 3, 0, 1, 0)
    body += pack(1, bytes(4)) + u32(30, 10) + u32(4, 2) + pack(5, bytes(4))
    sent = retarget.route(looked_route(body), NAMES)

    assert {kind for kind, _ in each(sent.body, 12, len(sent.body))} == {1, 30}
    assert sent.holes == ()


def test_an_expiring_route_says_when_in_seconds() -> None:
    """The dump counts in ticks in RTA_CACHEINFO; the request has RTA_EXPIRES."""
    body = struct.pack("=BBBBBBBBI", 10, 64, 0, 0, 254, 3, 0, 1, 0)
    body += pack(1, bytes(16)) + u32(4, 2) + pack(12, struct.pack("=IIiIIIII", 0, 0, 250, *[0] * 5))
    sent = retarget.route(looked_route(body), NAMES)
    found = {kind: sent.body[a:b] for kind, (a, b) in each(sent.body, 12, len(sent.body))}

    assert found[23] == struct.pack("=I", 2)
    assert 12 not in found


@given(st.sampled_from([3, 17]), st.sampled_from([0, 2]), unknown)
def test_a_rule_there_and_back_is_what_it_was(
    kind: int, inverted: int, more: list[tuple[int, bytes]]
) -> None:
    """Only the name of iif or oif changes; `not` stays."""
    body = struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 100, 0, 0, 1, inverted)
    body += text(kind, "eth0") + u32(6, 1000)
    body += b"".join(pack(k, v) for k, v in more)
    there = retarget.rule(LookedRule("inet", 1000, "eth0", "", body), {"eth0": "bond0"}.__getitem__)
    back = retarget.rule(
        LookedRule("inet", 1000, "bond0", "", there.body), {"bond0": "eth0"}.__getitem__
    )

    assert back.body == body


def test_a_nexthop_group_keeps_its_members() -> None:
    """Ids, weights and type of a group are sent again; the state of a resilient one is not."""
    group = struct.pack("=IBBHIBBH", 10, 0, 0, 0, 11, 3, 0, 0)
    body = struct.pack("=BBBBI", 0, 0, 0, 0, 0) + u32(1, 20) + pack(2, group)
    body += pack(3, struct.pack("=H", 0)) + pack(12, b"\1\2\3\4")
    sent = retarget.nexthop(LookedNexthop(20, 0, (10, 11), body), "bond0")
    found = {kind: sent.body[a:b] for kind, (a, b) in each(sent.body, 8, len(sent.body))}

    assert set(found) == {1, 2, 3}
    assert found[2] == group
