"""One MQTT v5 connection, from CONNECT to its end.

paho's own threads, reconnects and resends are not used: its reconnect has no jitter, its
callbacks run under its locks (a publish inside one can deadlock, paho #226), and an exception
in a callback ends its loop thread. Here one owner thread calls :meth:`Connection.service` and
gets back what happened as plain values, after paho has let go of every lock. A lost connection
is thrown away and a new object made, so that nothing is sent again behind the owner's back.
"""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import paho.mqtt.client as paho  # noqa: TID251
from paho.mqtt.enums import CallbackAPIVersion  # noqa: TID251
from paho.mqtt.subscribeoptions import SubscribeOptions  # noqa: TID251

from linkhold.model import BrokerError
from linkhold.mqtt.bounded import MAX_PACKET, Client
from linkhold.mqtt.callbacks import attach, error_text
from linkhold.mqtt.happened import Lost, Notice
from linkhold.mqtt.properties import connect_properties, publish_properties, will_properties
from linkhold.mqtt.tls import Tls, reason_of, tls_context

if TYPE_CHECKING:
    from pathlib import Path

CONNECT_TIMEOUT_S = 5.0
MAX_KEEPALIVE_S = 30
"""Above this a dead peer is noticed too late: it takes about twice the keepalive."""
MAX_UNWRITTEN = 64
"""Packets that may wait for a full socket before :meth:`Connection.publish` refuses more."""


@dataclass(frozen=True, slots=True)
class Will:
    """What the broker publishes when this connection dies, ``delay_s`` after it did."""

    topic: str
    payload: bytes
    delay_s: int
    retain: bool = True


class Connection:
    """A single connection to a broker. All methods belong to one owner thread.

    ``session_expiry_s`` is how long the broker keeps the session after the connection ended;
    with 0 it starts clean and leaves none behind.
    ``user_timeout_ms`` bounds how long sent data may stay unacknowledged (TCP_USER_TIMEOUT),
    which finds a dead peer in seconds where the keepalive needs twice its interval.
    With ``receive_maximum`` the owner acknowledges each message itself
    (:meth:`acknowledge`), and the broker sends no more than so many that are not.
    """

    def __init__(
        self,
        client_id: str,
        *,
        keepalive_s: int = 10,
        will: Will | None = None,
        username: str | None = None,
        password: str | None = None,
        tls: Tls | None = None,
        session_expiry_s: int = 0,
        user_timeout_ms: int = 0,
        receive_maximum: int = 0,
        unix: bool = False,
    ) -> None:
        self._notices: deque[Notice] = deque()
        self._keepalive_s = min(keepalive_s, MAX_KEEPALIVE_S)
        self._session_expiry_s = session_expiry_s
        self._user_timeout_ms = user_timeout_ms
        self._receive_maximum = receive_maximum
        self._ended = False
        self._faults: deque[str] = deque(maxlen=1)
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5,
            transport="unix" if unix else "tcp",
            reconnect_on_failure=False,
            manual_ack=receive_maximum > 0,
        )
        self._client.faults = self._faults
        self._client.connect_timeout = CONNECT_TIMEOUT_S
        self._client.max_inflight_messages_set(0)  # the owner bounds what is in flight
        if username is not None:
            self._client.username_pw_set(username, password)
        if tls is not None:
            self._client.tls_set_context(tls_context(tls, self._faults))
        if will is not None:
            self._client.will_set(
                will.topic,
                will.payload,
                qos=1,
                retain=will.retain,
                properties=will_properties(will.delay_s),
            )
        attach(self._client, self._notices)

    def open_unix(self, path: Path) -> None:
        """Connect to a Unix socket and send CONNECT; never blocks; raises :class:`BrokerError`."""
        self._open(str(path), 1)

    def open_tcp(self, host: str, port: int) -> None:
        """Connect to a host (blocking for at most 5 s and the name lookup) and send CONNECT.

        Raises :class:`BrokerError` with the reason as a person would say it.
        """
        self._open(host, port)

    def _open(self, host: str, port: int) -> None:
        try:
            result = self._client.connect(
                host,
                port,
                keepalive=self._keepalive_s,
                clean_start=self._session_expiry_s == 0,
                properties=connect_properties(
                    self._session_expiry_s, MAX_PACKET, self._receive_maximum
                ),
            )
        except (OSError, ValueError) as error:
            self._end()
            raise BrokerError(reason_of(error)) from error
        if result != paho.MQTT_ERR_SUCCESS:
            self._end()
            raise BrokerError(self._why(error_text(result)))
        self._bound_silence()

    def _why(self, reason: str) -> str:
        return self._faults[-1] if self._faults else reason

    def _bound_silence(self) -> None:
        sock = self._client.socket()
        if self._user_timeout_ms and isinstance(sock, socket.socket):
            with contextlib.suppress(OSError):  # a Unix socket has no such option
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._user_timeout_ms)

    @property
    def ended(self) -> bool:
        """Whether the connection is over; make a new object then."""
        return self._ended

    def fileno(self) -> int:
        """Return the socket's descriptor, -1 once the connection ended."""
        sock = self._client.socket()
        return -1 if sock is None else int(sock.fileno())

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait for the socket: the broker reads too slowly, or not at all."""
        return bool(self._client.want_write())

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        content_type: str | None = None,
        user: tuple[tuple[str, str], ...] = (),
        expiry_s: int = 0,
    ) -> int:
        """Send a message and return its mid, by which :class:`Acknowledged` names it.

        Raises :class:`BrokerError` when the connection is over or :data:`MAX_UNWRITTEN` packets
        already wait for the socket: nothing is queued without bound.
        """
        if self._ended or len(self._client._out_packet) >= MAX_UNWRITTEN:  # noqa: SLF001
            raise BrokerError("the broker does not take what is sent")
        properties = publish_properties(content_type, user, expiry_s)
        info = self._client.publish(topic, payload, qos, retain, properties)
        if info.rc != paho.MQTT_ERR_SUCCESS:
            raise BrokerError(error_text(info.rc))
        return int(info.mid)

    def subscribe(
        self, *topics: str, qos: int = 1, as_published: bool = False, retained: bool = True
    ) -> None:
        """Ask for topics; the answer comes as :class:`Subscribed`.

        ``as_published`` keeps the retain flag of what is sent while we listen, which a broker
        clears otherwise (MQTT v5, 3.3.1.3 and 3.8.3.1). Without ``retained`` the broker does not
        send what it keeps.
        """
        handling = SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE
        if not retained:
            handling = SubscribeOptions.RETAIN_DO_NOT_SEND
        options = SubscribeOptions(qos, retainAsPublished=as_published, retainHandling=handling)
        self._client.subscribe([(topic, options) for topic in topics])

    def unsubscribe(self, *topics: str) -> None:
        """Ask for topics no more; what the broker answers changes nothing."""
        self._client.unsubscribe(list(topics))

    def acknowledge(self, mid: int) -> None:
        """Tell the broker that a message is dealt with, so that it is not sent again."""
        if not self._ended:
            self._client.ack(mid, 1)

    def service(self, timeout_s: float = 0.0, wake_fd: int | None = None) -> list[Notice]:
        """Wait at most ``timeout_s``, do all reading, writing and keepalive, return what happened.

        A byte on ``wake_fd`` ends the wait early (the caller drains it).
        """
        if not self._ended:
            self._wait(timeout_s, wake_fd)
            self.tick()
        return self.take()

    def _wait(self, timeout_s: float, wake_fd: int | None) -> None:
        fd = self.fileno()
        if fd < 0:
            return
        pending = getattr(self._client.socket(), "pending", lambda: 0)()
        poll = select.poll()  # select() fails above descriptor 1023
        poll.register(fd, select.POLLIN | (select.POLLOUT if self.wants_write else 0))
        if wake_fd is not None:
            poll.register(wake_fd, select.POLLIN)
        ready = dict(poll.poll(0 if pending else timeout_s * 1000))
        if ready.get(fd, 0) & select.POLLOUT:
            self._client.loop_write()
        if pending or ready.get(fd, 0) & ~select.POLLOUT:
            self.read()

    def read(self) -> None:
        """Read what the socket has; for owners with an event loop of their own."""
        while True:
            self._client.loop_read()
            sock = self._client.socket()
            if sock is None or not getattr(sock, "pending", lambda: 0)():
                return

    def tick(self) -> None:
        """Write what waits and keep the connection alive; call it at least once a second."""
        if self.wants_write:
            self._client.loop_write()
        self._client.loop_misc()

    def take(self) -> list[Notice]:
        """Return what happened since the last call, oldest first."""
        notices: list[Notice] = []
        while self._notices:
            notice = self._notices.popleft()
            if isinstance(notice, Lost):
                if self._ended:
                    continue  # paho reports some ends twice (#870)
                self._end()
                notice = Lost(self._why(notice.reason))
            notices.append(notice)
        return notices

    def close(self) -> None:
        """Send DISCONNECT, which forgets the will, and end. Never blocks."""
        if not self._ended:
            with contextlib.suppress(OSError, ValueError):
                self._client.disconnect()
            self._end()

    def abandon(self) -> None:
        """Close our descriptor without a word to the broker: for a forked child, and tests."""
        self._end()

    def _end(self) -> None:
        self._ended = True
        sock = self._client.socket()
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.close()
