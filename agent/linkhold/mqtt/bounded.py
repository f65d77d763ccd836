"""paho's client, bounded in what a broker, or whoever publishes through it, can make it keep."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import paho.mqtt.client as paho  # noqa: TID251

from linkhold.mqtt.incoming import Malformed, lean

if TYPE_CHECKING:
    from collections import deque

    from paho.mqtt.enums import MQTTErrorCode  # noqa: TID251

MAX_PACKET = 1 << 21
"""Bytes of the largest packet that the broker may send us; it is told so."""
MAX_ANSWER = 1 << 14
"""Bytes of any packet that is no message; paho's reading of a text takes time with its square."""
MAX_WAITING = 10_000
"""Packets, acknowledgements among them, that may wait for a broker that does not read."""
TYPE, QOS, QOS_2 = 0xF0, 0x06, 0x04


class Client(paho.Client):
    """A connection whose broker keeps to what was agreed; ``faults`` says why it ended."""

    faults: deque[str]

    def _create_unix_socket_connection(self) -> socket.socket:
        """Connect without waiting; paho's own waits without end for a frozen broker's backlog.

        Without waiting, connect(2) fails with EAGAIN when the backlog is full.
        """
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(self._host)
        except BlockingIOError:
            sock.close()
            raise TimeoutError("the broker takes no connections") from None
        except OSError:
            sock.close()
            raise
        return sock

    def _sock_recv(self, bufsize: int) -> bytes:
        """Read; raises OSError, with which paho ends the connection, for what is no fit packet.

        paho takes a type of 0 for none, and the next byte for the type.
        """
        is_message = self._in_packet["command"] & TYPE == paho.PUBLISH
        if bufsize > (MAX_PACKET if is_message else MAX_ANSWER):
            self.faults.append(f"the broker sends a packet of {bufsize} bytes; too large")
            raise ConnectionError
        data = super()._sock_recv(bufsize)
        if data == b"\0" and not self._in_packet["command"]:
            self.faults.append("the broker sends what is no packet")
            raise ConnectionError
        return data

    def _handle_publish(self) -> MQTTErrorCode:
        """Take a message without what nobody reads of it; none of QoS 2, which is not asked for.

        paho would keep those until the broker says more, as many as it likes.
        """
        packet = self._in_packet
        qos = packet["command"] & QOS
        if qos == QOS_2:
            self.faults.append("the broker sends a message with a QoS that was not asked for")
            return paho.MQTT_ERR_PROTOCOL
        try:
            packet["packet"] = bytearray(lean(packet["packet"], has_mid=qos > 0))
        except Malformed as flaw:
            self.faults.append(f"the broker sends a message that cannot be read: {flaw}")
            return paho.MQTT_ERR_PROTOCOL
        return super()._handle_publish()

    def _packet_queue(self, *packet: Any, **more: Any) -> MQTTErrorCode:
        """Queue for the socket; an end for a broker that sends and does not read what we answer."""
        if len(self._out_packet) >= MAX_WAITING:
            self.faults.append("the broker does not read what is sent")
            return paho.MQTT_ERR_QUEUE_SIZE
        return super()._packet_queue(*packet, **more)
