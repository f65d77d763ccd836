"""A node that may publish on its own topics takes nobody away from the fleet's broker."""

from __future__ import annotations

import socket
import time
from typing import TYPE_CHECKING, Any

import pytest

from linkhold.mqtt import Connected, Connection, Lost, Received
from support import mqtt_bytes as mqtt

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.broker import Broker

TOPIC = "linkhold/v1/lab/bad/status"


def say(broker: Broker, *packets: bytes) -> None:
    """Publish packets as they are, by a client of no library, and wait until they are taken."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=5) as sock:
        sock.sendall(mqtt.connect(b"bad"))
        assert sock.recv(100)[:1] == b"\x20"
        sock.sendall(b"".join(packets) + b"\xc0\x00")
        answers = b""
        while not answers.endswith(b"\xd0\x00"):  # the answer to a ping: all before it is read
            answers += sock.recv(1000) or pytest.fail("the broker refuses the packets")


@pytest.mark.parametrize(
    "properties",
    [mqtt.user("k", "\ufeffv"), b"\x03" + mqtt.text("\ufeff".encode()), mqtt.user("", "") * 50_000],
    ids=["odd text", "odd content type", "very many"],
)
def test_what_a_broker_hands_on_ends_nobodys_connection(
    brokers: Callable[..., Broker], properties: bytes
) -> None:
    """A retained message with properties that paho refuses, or takes long for, is heard."""
    broker = brokers().start()
    say(broker, mqtt.publish(TOPIC, b"online", properties, retain=True))
    connection: Any = Connection("top")
    connection.open_tcp("127.0.0.1", broker.port)
    heard: list[Any] = []
    until_s = time.monotonic() + 5
    while time.monotonic() < until_s and not any(isinstance(one, Received) for one in heard):
        for notice in connection.service(0.1):
            heard.append(notice)
            assert not isinstance(notice, Lost), notice
            if isinstance(notice, Connected):
                connection.subscribe("linkhold/v1/#")
    connection.close()
    assert [one.payload for one in heard if isinstance(one, Received)] == [b"online"]
