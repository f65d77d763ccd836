"""Bytes of inet_diag to connections."""

from __future__ import annotations

import socket
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from linkhold.inside.connections import settled
from linkhold.model.keepalive import Connection
from linkhold.rtnl import inet_diag
from linkhold.rtnl.framing import Malformed

PORTS = st.integers(0, 65535)
COUNTS = st.integers(0, 2**32 - 1)
V4 = st.ip_addresses(v=4).map(str)
V6 = (
    st.binary(min_size=16, max_size=16)
    .filter(lambda raw: not raw.startswith(bytes(10) + b"\xff\xff"))
    .map(lambda raw: socket.inet_ntop(socket.AF_INET6, raw))
)


def encode(one: Connection, *, mapped: bool = False, marked: bool = True) -> bytes:
    """Return an inet_diag_msg as the kernel would send it (linux/inet_diag.h)."""
    family = socket.AF_INET6 if mapped or ":" in one.local else socket.AF_INET
    ends = [_raw(address, mapped=mapped) for address in (one.local, one.remote)]
    head = struct.pack("=BBBB", family, 1, one.timer, one.retransmits)
    ports = struct.pack(">HH", one.local_port, one.remote_port)
    tail = struct.pack("=III", 7, 8, 9) + struct.pack(
        "=IIIII", one.timer_ms, 1, 2, one.uid, one.inode
    )
    mark = struct.pack("=HHI", 8, 15, one.mark) if marked else b""
    shutdown = struct.pack("=HHB3x", 5, 8, 0)
    return head + ports + b"".join(ends) + tail + shutdown + mark


def _raw(address: str, *, mapped: bool) -> bytes:
    if ":" in address:
        return socket.inet_pton(socket.AF_INET6, address)
    four = socket.inet_pton(socket.AF_INET, address)
    return bytes(10) + b"\xff\xff" + four if mapped else four + bytes(12)


@st.composite
def connections(draw: st.DrawFn, addresses: st.SearchStrategy[str]) -> Connection:
    """Return any connection as the kernel could list it."""
    return Connection(
        namespace=5,
        inode=draw(COUNTS),
        local=draw(addresses),
        local_port=draw(PORTS),
        remote=draw(addresses),
        remote_port=draw(PORTS),
        timer=draw(st.integers(0, 4)),
        timer_ms=draw(st.integers(0, 2**31 - 1)),
        retransmits=draw(st.integers(0, 255)),
        uid=draw(COUNTS),
        mark=draw(COUNTS),
    )


@given(connections(V4) | connections(V6))
def test_every_field_comes_back(one: Connection) -> None:
    """What the kernel encodes is decoded, of both families."""
    assert list(inet_diag.parse([encode(one)], 5)) == [one]


@given(connections(V4))
def test_a_mapped_address_is_shown_as_ipv4(one: Connection) -> None:
    """A socket of IPv6 that speaks IPv4 is one connection of IPv4 to people."""
    assert list(inet_diag.parse([encode(one, mapped=True)], 5)) == [one]


def test_without_rights_there_is_no_mark() -> None:
    """The kernel leaves INET_DIAG_MARK out for those without CAP_NET_ADMIN."""
    one = Connection(5, 1, "10.0.0.1", 2, "10.0.0.2", 3, 2, 4, mark=9)

    assert list(inet_diag.parse([encode(one, marked=False)], 5)) == [replace(one, mark=0)]


def test_a_timer_that_is_overdue_has_nothing_left() -> None:
    """Older kernels send a small negative number of milliseconds then."""
    one = Connection(5, 1, "10.0.0.1", 2, "10.0.0.2", 3, 2, 2**32 - 4)

    assert list(inet_diag.parse([encode(one)], 5)) == [replace(one, timer_ms=0)]


WHOLE = st.builds(
    lambda family, rest: bytes([family]) + rest,
    st.sampled_from([2, 10]),
    st.binary(min_size=inet_diag.SIZE - 1, max_size=200),
)


@given(st.lists(st.binary(max_size=100) | WHOLE, max_size=3))
def test_garbage_is_called_malformed(bodies: list[bytes]) -> None:
    """Bytes that are no message of inet_diag raise Malformed and nothing else."""
    try:
        list(inet_diag.parse(bodies, 5))
    except Malformed as error:
        assert str(error)  # noqa: PT017 - both ends are right


@given(connections(V4), st.integers(0, inet_diag.SIZE - 1))
def test_a_cut_message_is_malformed(one: Connection, size: int) -> None:
    """A message that ends too early is never taken for a connection."""
    with pytest.raises(Malformed):
        list(inet_diag.parse([encode(one)[:size]], 5))


@pytest.mark.parametrize("family", inet_diag.FAMILIES)
def test_the_question_is_an_inet_diag_req_v2(family: int) -> None:
    """56 bytes: family, TCP, no extensions, the mask of ESTABLISHED, and any address."""
    assert inet_diag.request(family) == struct.pack("=BBBBI", family, 6, 0, 0, 1 << 1) + bytes(48)


def test_a_later_look_counts_for_what_was_busy() -> None:
    """Only a connection whose timer hid the keepalive timer is replaced, and none is added."""
    quiet = Connection(5, 1, "10.0.0.1", 1, "10.0.0.9", 9, 2, 60_000)
    busy = replace(quiet, local_port=2, timer=1, timer_ms=200)
    gone = replace(busy, local_port=3)
    later = [
        replace(quiet, timer=0),
        replace(busy, timer=2, timer_ms=59_000),
        replace(quiet, local_port=4),
    ]

    assert settled([quiet, busy, gone], later) == (quiet, later[1], gone)
