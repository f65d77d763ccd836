"""A real mosquitto under test control, and a subscriber that collects what it hears."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MOSQUITTO = "/usr/sbin/mosquitto"
TIED_TO_US = ("setpriv", "--pdeathsig", "KILL", "--")
"""Prefix of a command that the kernel ends when the tests are killed."""
START_TIMEOUT_S = 5.0


def free_port() -> int:
    """Return a TCP port of the loopback that nobody uses now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_until(check: Callable[[], object], timeout_s: float = 10.0, what: str = "") -> None:
    """Wait until ``check`` is true; AssertionError with ``what`` after ``timeout_s``."""
    until_s = time.monotonic() + timeout_s
    while not check():
        assert time.monotonic() < until_s, f"not within {timeout_s:g} s: {what or check}"
        time.sleep(0.01)


class Broker:
    """One mosquitto process; ``options`` are lines of its configuration after the listener.

    It listens on a free port of the loopback, or on ``unix``. The same port is kept over
    restarts. ``folder`` must be writable; the log is ``folder/log``.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        unix: Path | None = None,
        anonymous: bool = True,
    ) -> None:
        self.port = 0 if unix else free_port()
        self.unix = unix
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        listener = f"listener 0 {unix}" if unix else f"listener {self.port} 127.0.0.1"
        lines = (
            "user root",
            "log_dest stderr",
            f"persistence_location {folder}/",  # else a persistent one writes where pytest runs
            listener,
            f"allow_anonymous {str(anonymous).lower()}",
            "max_queued_messages 100000",  # with 0, 2.0.11 disconnects whoever is refused
            *options,
        )
        (folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")

    def start(self) -> Broker:
        """Start the process and wait until it accepts connections."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [*TIED_TO_US, MOSQUITTO, "-c", str(self.folder / "mosquitto.conf")],
                stderr=log,
                stdout=log,
            )
        wait_until(self._accepts, START_TIMEOUT_S, "mosquitto accepts connections")
        return self

    def _accepts(self) -> bool:
        family = socket.AF_UNIX if self.unix else socket.AF_INET
        address: Any = str(self.unix) if self.unix else ("127.0.0.1", self.port)
        with socket.socket(family) as sock, suppress(OSError):
            sock.connect(address)
            return True
        return False

    def signal(self, number: int) -> None:
        """Send a signal to the process: SIGHUP reloads, SIGSTOP hangs, SIGCONT resumes."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """End it in order."""
        if self.process is not None:
            self.signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None

    def log(self) -> str:
        """Return what the process has logged."""
        return (self.folder / "log").read_text()


@dataclass
class Message:
    """A message as the subscriber got it; ``user`` are its user properties."""

    topic: str
    payload: bytes
    retained: bool
    content_type: str | None = None
    user: dict[str, str] = field(default_factory=dict)


class Collector:
    """Subscribes to topics (QoS 1) and keeps every message, in the order of arrival.

    ``session`` keeps the subscription over restarts of a broker with persistence. Extra
    ``arguments`` go to the constructor of paho's client.
    """

    def __init__(
        self,
        port: int,
        *topics: str,
        session: str = "",
        prepare: Callable[[paho.Client], None] | None = None,
    ) -> None:
        self.messages: list[Message] = []
        self._topics = topics
        self._subscribed = threading.Event()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, client_id=session, protocol=paho.MQTTv5
        )
        self.client.reconnect_delay_set(0.05, 0.05)  # type: ignore[arg-type]
        self.client.on_connect = self._connected
        self.client.on_subscribe = lambda *_: self._subscribed.set()
        self.client.on_message = self._received
        if prepare is not None:
            prepare(self.client)
        properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
        properties.SessionExpiryInterval = 600 if session else 0
        self.client.connect("127.0.0.1", port, clean_start=not session, properties=properties)
        self.client.loop_start()
        assert self._subscribed.wait(5), "not subscribed"

    def _connected(self, client: paho.Client, *_: Any) -> None:
        client.subscribe([(topic, SubscribeOptions(qos=1)) for topic in self._topics])

    def _received(self, _client: Any, _data: Any, message: paho.MQTTMessage) -> None:
        properties = message.properties
        self.messages.append(
            Message(
                message.topic,
                bytes(message.payload),
                message.retain,
                getattr(properties, "ContentType", None),
                dict(getattr(properties, "UserProperty", [])),
            )
        )

    def on(self, part: str) -> list[Message]:
        """Return the messages whose topic contains ``part``."""
        return [message for message in self.messages if part in message.topic]

    def publish(
        self, topic: str, payload: bytes, *, expiry_s: int | None = None, retain: bool = False
    ) -> None:
        """Publish with QoS 1 and wait until the broker has it."""
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]
        if expiry_s is not None:
            properties.MessageExpiryInterval = expiry_s
        info = self.client.publish(topic, payload, 1, retain, properties)
        info.wait_for_publish(5)

    def close(self) -> None:
        """Disconnect and end the thread."""
        self.client.disconnect()
        self.client.loop_stop()
