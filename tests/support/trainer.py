"""A client of leg A, as a training process is one: a subscriber, or somebody who forges."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from support.broker import Message, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Trainer:
    """A subscriber of leg A, as a training process is one; reconnects by itself.

    ``codes`` are the answers to :meth:`publish`, ``closed`` counts lost connections.
    """

    def __init__(
        self,
        path: Path,
        *topics: str,
        client_id: str = "",
        username: str = "",
        will: str = "",
        subscribe: bool = True,
        reconnect: bool = True,
    ) -> None:
        self.messages: list[Message] = []
        self.codes: list[int] = []
        self.granted: list[int] = []
        self.refused = ""
        self.closed = 0
        self._path = path
        self._reconnect = reconnect
        self._closing = threading.Event()
        self._topics = topics or ("linkhold/v1/#",) if subscribe else ()
        self._ready = threading.Event()
        self._answered = threading.Event()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            transport="unix",
            reconnect_on_failure=False,
        )
        if username:
            self.client.username_pw_set(username, "any")
        if will:
            self.client.will_set(will, b"forged", qos=1, retain=True)
        self.client.on_connect = self._connected
        self.client.on_disconnect = self._disconnected
        self.client.on_subscribe = self._subscribed
        self.client.on_message = self._received
        self.client.on_publish = self._published
        self.client.connect(str(path), 1)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(5), "no answer from the broker"

    def _run(self) -> None:
        """Serve the connection, and make a new one once a broker is there.

        paho's own reconnecting leaves a socket unclosed at each failure.
        """
        while not self._closing.is_set():
            self.client.loop_forever()
            while not self._closing.wait(0.02) and self._reconnect:
                if _accepts(self._path):
                    with suppress(OSError):
                        self.client.reconnect()
                        break
            if not self._reconnect:
                return

    def _connected(self, client: paho.Client, _data: Any, _flags: Any, code: Any, _p: Any) -> None:
        if code.is_failure:
            self.refused = str(code)
        if self._topics and not code.is_failure:
            client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in self._topics])
        else:
            self._ready.set()

    def _disconnected(self, *_: Any) -> None:
        self.closed += 1

    def _subscribed(self, _c: Any, _d: Any, _mid: int, codes: Any, _p: Any) -> None:
        self.granted = [int(code.value) for code in codes]
        self._ready.set()

    def _received(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        content_type = getattr(message.properties, "ContentType", None)
        payload = bytes(message.payload)
        self.messages.append(Message(message.topic, payload, message.retain, content_type))

    def _published(self, _c: Any, _d: Any, _mid: int, code: Any, _p: Any) -> None:
        self.codes.append(int(code.value))
        self._answered.set()

    def publish(self, topic: str, payload: bytes, *, qos: int = 1, retain: bool = False) -> int:
        """Publish, wait for the broker's answer and return its reason code (0 with QoS 0)."""
        self._answered.clear()
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        self.client.publish(topic, payload, qos, retain, properties)
        assert self._answered.wait(5), f"{topic}: no answer"
        return self.codes[-1]

    def on(self, part: str) -> list[Message]:
        """Return the messages whose topic contains ``part``."""
        return [message for message in self.messages if part in message.topic]

    def states(self) -> list[dict[str, Any]]:
        """Return the state documents heard, oldest first."""
        return [json.loads(m.payload)["data"] for m in self.messages if m.topic.endswith("/state")]

    def wait_for(self, check: Callable[[dict[str, Any]], object], timeout_s: float = 10.0) -> None:
        """Wait until ``check`` is true of the newest state heard; none heard yet is not true."""

        def holds() -> object:
            heard = self.states()
            return heard and check(heard[-1])

        wait_until(holds, timeout_s, "the state that leg A tells")

    def events(self) -> list[dict[str, Any]]:
        """Return the events heard, oldest first."""
        return [json.loads(message.payload) for message in self.on("/event/")]

    def close(self) -> None:
        """Disconnect and end the thread."""
        self._closing.set()
        self.client.disconnect()
        self._thread.join(5)
        assert not self._thread.is_alive()


def _accepts(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
        sock.connect(str(path))
        return True
    return False
