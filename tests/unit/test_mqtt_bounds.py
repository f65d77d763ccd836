"""What a broker, or whoever publishes through it, cannot make a connection keep or suffer."""

from __future__ import annotations

import contextlib
import socket
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from paho.mqtt.properties import Properties

from linkhold.mqtt import Connection, Lost, Received
from linkhold.mqtt.bounded import MAX_ANSWER, MAX_PACKET, MAX_WAITING
from linkhold.mqtt.incoming import Malformed, lean
from support import mqtt_bytes as mqtt

if TYPE_CHECKING:
    from linkhold.mqtt import Notice


def told(*packets: bytes, turns: int = 2000) -> list[Notice]:
    """Return what a connection tells of a broker that sends these after its CONNACK."""
    ours, theirs = socket.socketpair()
    found: list[Notice] = []
    with ours, theirs:
        connection: Any = Connection("c")
        connection._client._create_socket = lambda: ours
        connection._client._sock = None
        connection._open("localhost", 1)
        theirs.setblocking(False)
        rest = mqtt.CONNACK + b"".join(packets)
        for _ in range(turns):
            with contextlib.suppress(BlockingIOError, BrokenPipeError):
                rest = rest[theirs.send(rest) :]
            found += connection.service(0)
            if connection.ended:
                break
        connection.abandon()
    return found


def test_a_text_that_paho_takes_for_malformed_ends_no_connection() -> None:
    """A broker hands on a user property with U+FEFF; paho would hang up at it, for ever."""
    odd = mqtt.user("k", "\ufeffv")
    heard = [
        one
        for one in told(
            mqtt.publish("a", b"1", odd + mqtt.EXPIRY),
            mqtt.publish("a", b"2", mqtt.EXPIRY + odd, qos=1),
            mqtt.publish("a", b"3", b"\x03" + mqtt.text("\ufeff".encode())),
            turns=20,
        )
        if isinstance(one, (Received, Lost))
    ]
    assert [(one.payload, one.expiry_s) for one in heard if isinstance(one, Received)] == [
        (b"1", 60),
        (b"2", 60),
        (b"3", None),
    ]
    assert len(heard) == 3


def test_properties_by_the_hundred_thousand_cost_no_time() -> None:
    """2 MB of user properties take paho minutes, as it copies the rest at each; here nothing."""
    many = mqtt.user("", "") * 400_000
    assert len(many) < MAX_PACKET
    heard = told(mqtt.publish("a", b"x", many), mqtt.publish("a", b"y"))
    assert [one.payload for one in heard if isinstance(one, Received)] == [b"x", b"y"]


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (mqtt.publish("a", b"x", qos=2), "a QoS that was not asked for"),
        (b"\0!\0", "no packet"),
        (b"\x30" + mqtt.number(MAX_PACKET + 1) + bytes(1000), "too large"),
        (b"\x90" + mqtt.number(MAX_ANSWER + 1) + bytes(1000), "too large"),
    ],
)
def test_a_broker_that_sends_what_was_not_agreed_is_left(sent: bytes, why: str) -> None:
    """More than we said we take, or what paho would keep: the connection ends, in words."""
    last = told(sent)[-1]
    assert isinstance(last, Lost)
    assert why in last.reason


def test_a_packet_without_end_is_not_kept() -> None:
    """A packet of 256 MB is refused by its size, before it has come."""
    tracemalloc.start()
    try:
        told(b"\x30" + mqtt.number((1 << 28) - 1) + bytes(8 << 20))
        kept = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept < 32 << 20  # the bytes that are sent here are among them


def test_a_broker_that_never_reads_is_left() -> None:
    """Acknowledgements that wait for the socket are counted: their number has a limit."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection: Any = Connection("c")
        connection._client._create_socket = lambda: ours
        connection._client._sock = None
        connection._open("localhost", 1)
        theirs.sendall(mqtt.CONNACK)
        message, found = mqtt.publish("a", b"x", qos=1), []
        for _ in range(2 * MAX_WAITING):
            with contextlib.suppress(OSError):
                theirs.sendall(message)
            found = connection.service(0)
            if connection.ended:
                break
        assert found[-1] == Lost("the broker does not read what is sent")


@given(st.binary(max_size=80), st.booleans())
@example(data=mqtt.text(b"a") + b"\x7f" + mqtt.user("", "") * 25, has_mid=False)
@example(data=mqtt.text(b"a") + b"\5\2\0\0", has_mid=False)
@example(data=mqtt.text(b"a") + b"\3" + mqtt.user("", "") + b"payload", has_mid=False)
def test_whatever_comes_is_refused_or_made_lean_once(data: bytes, has_mid: bool) -> None:  # noqa: FBT001
    """No bytes raise but Malformed; else the properties end where the message begins.

    They are an expiry or nothing, and what is lean stays as it is.
    """
    try:
        once = lean(data, has_mid=has_mid)
    except Malformed:
        return
    at = 2 + int.from_bytes(once[:2], "big") + 2 * has_mid
    size = once[at]
    assert size in {0, 5}
    assert at + 1 + size <= len(once)
    assert data.endswith(once[at + 1 + size :])
    assert lean(once, has_mid=has_mid) == once


@pytest.mark.parametrize(
    "body",
    [
        mqtt.text(b"a") + mqtt.number(5 * 20_000 + 1) + mqtt.user("", "") * 20_000,
        mqtt.text(b"a") + mqtt.number(5 * 20_000) + b"\x11" + mqtt.user("", "") * 20_000,
        mqtt.text(b"a")[:2],
    ],
    ids=["a byte more than there is", "a property of CONNECT", "no topic"],
)
def test_a_malformed_message_ends_the_connection_unread(
    body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """paho, whose reading takes time with the square, never sees one; it ends in words."""
    sizes: list[int] = []
    unpack: Any = Properties.unpack

    def counted(properties: Properties, data: bytes) -> object:
        sizes.append(len(data))
        return unpack(properties, data)

    monkeypatch.setattr(Properties, "unpack", counted)
    found = told(mqtt.packet(0x30, body), turns=200)

    assert isinstance(found[-1], Lost)
    assert "the broker sends a message that cannot be read" in found[-1].reason
    assert max(sizes) < 10  # the CONNACK's


@given(st.lists(st.tuples(st.text(max_size=5), st.text(max_size=5)), max_size=8), st.booleans())
def test_the_expiry_is_all_that_is_left(
    pairs: list[tuple[str, str]],
    first: bool,  # noqa: FBT001
) -> None:
    """Wherever it stands among other properties; topic, identifier and message are the same."""
    others = b"".join(
        mqtt.user(*(part.encode("utf-8", "replace").decode() for part in pair)) for pair in pairs
    )
    properties = mqtt.EXPIRY + others if first else others + mqtt.EXPIRY
    sent = mqtt.text(b"a/b") + b"\0\1" + mqtt.number(len(properties)) + properties + b"payload"
    assert lean(sent, has_mid=True) == mqtt.text(b"a/b") + b"\0\1\5" + mqtt.EXPIRY + b"payload"
