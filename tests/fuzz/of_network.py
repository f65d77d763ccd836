"""What other machines bring: DNS, HTTP, metadata, upsd, MQTT packets, power sensors."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from fuzz import right
from fuzz.of_clouds import (
    explain,
    explained,
    identities,
    identity,
    notice_targets,
    power_targets,
)
from fuzz.target import Target
from linkhold.config.relay import AlertmanagerSettings
from linkhold.model import LinkholdError, Unavailable
from linkhold.mqtt import Connection
from linkhold.relay.sink import Refused, _Alertmanager
from linkhold.sensors import cloud_http, nut
from linkhold.sensors.reach import dns_message, http_message
from linkhold.sensors.reach.web import judged

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

NAME = "node.example"
ASKED = dns_message.question(7, NAME, "A")


@cache
def loop() -> asyncio.AbstractEventLoop:
    """Return a loop for all calls: a new one each time costs more than what is tried."""
    return asyncio.new_event_loop()


def end_loop() -> None:
    """Close the loop, if there was one."""
    if loop.cache_info().currsize:
        loop().close()
        loop.cache_clear()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine to its end."""
    return loop().run_until_complete(work)


def dns_answers() -> Sequence[bytes]:
    """Return answers to :data:`ASKED`."""
    question = ASKED[12:]
    record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x0a\x00\x00\x01"
    v6 = b"\xc0\x0c\x00\x1c\x00\x01\x00\x00\x00\x3c\x00\x10" + bytes(15) + b"\1"
    head = b"\x00\x07\x81\x80\x00\x01"
    return [
        head + b"\x00\x02\x00\x00\x00\x00" + question + record + v6,
        b"\x00\x07\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00" + question,
        b"\x00\x07\x83\x80\x00\x01\x00\x00\x00\x00\x00\x00" + question,
        b"\x00\x07\x81\x82\x00\x00\x00\x00\x00\x00\x00\x00",
    ]


def http_answers() -> Sequence[bytes]:
    """Return answers of HTTP/1.1, plain, chunked, and ended by the connection."""
    return [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nDate: Sun, 29 Nov 2026 03:00:00 GMT\r\n\r\nhello",
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n2;"
            b"x=y\r\nef\r\n0\r\n\r\n"
        ),
        b"HTTP/1.0 404 Not Found\r\nServer: x\r\n\r\nnothing",
        b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n",
    ]


def probe_answer(data: bytes) -> None:
    """Read an answer as a probe of the web does."""

    async def read() -> None:
        reader = asyncio.StreamReader(limit=1 << 14)
        reader.feed_data(data)
        reader.feed_eof()
        found = http_message.head(await reader.readuntil(b"\r\n\r\n"))
        await http_message.read_body(reader, found, 1 << 12)

    run(read())


def redirected(data: bytes) -> None:
    """Judge a redirect."""
    said = judged("https://store.example/bucket", 302, data.decode("latin-1"))
    assert len(said.detail) < right.MOST_TEXT


PROBE_REFUSALS = (ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)


def metadata_answer(data: bytes) -> None:
    """Read an answer of a metadata service, whole and byte by byte."""
    for ended in (False, True):
        with contextlib.suppress(http_message.Malformed):
            found = cloud_http.answer_in(data, ended=ended)
            if found is not None:
                cloud_http._ends_where_it_says(right.response(found[0]))
    cloud_http._gist(data)


UPSD = (
    (
        b'BEGIN LIST VAR ups1\nVAR ups1 ups.status "OL"\nVAR ups1 battery.charge "100"\n'
        b'VAR ups1 battery.runtime "1200"\nEND LIST VAR ups1\n'
    ),
    b"ERR DATA-STALE\n",
    b'BEGIN LIST VAR ups1\nVAR ups1 ups.status "OB \\"LB"\nEND LIST VAR ups1\n',
)


class _Transport(asyncio.Transport):
    """Takes what is written and ends at once where it is told to."""

    def write(self, _data: Any) -> None:
        """Take it."""

    def get_extra_info(self, _name: str, default: Any = None) -> Any:
        """Return that nothing is known."""
        return default

    def abort(self) -> None:
        """End."""


def upsd(data: bytes) -> None:
    """Read a list of a UPS as it comes from the wire."""

    async def ask() -> None:
        lines = nut._Lines(1.0)
        lines.connection_made(_Transport())
        lines.data_received(data)
        lines.connection_lost(None)
        right.ups(nut._report("ups1", await lines.list("VAR ups1")))

    run(ask())


def packets() -> Sequence[bytes]:
    """Return what a broker sends: CONNACK, then messages, acknowledgements, pings, an end."""
    connack = b"\x20\x0b\x00\x00\x08\x21\x00\x14\x27\x00\x20\x00\x00"
    publish = b"\x33\x11\x00\x05a/b/c\x00\x01\x05\x02\x00\x00\x00\x3c{}"
    suback = b"\x90\x04\x00\x01\x00\x01"
    puback = b"\x40\x04\x00\x01\x10\x00"
    return [
        connack + publish + suback + puback + b"\xd0\x00",
        connack + b"\xe0\x02\x8e\x00",
        b"\x20\x03\x00\x87\x00",
        connack + b"\x30\x0a\x00\x02ab\x00hello",
        connack + b"\x30\x0b\x00\x01a\x06\x26\x00\x00\x00\x00{}",  # properties into the message
        connack + b"\x30\x09\x00\x01a\x06\x26\x00\x00\x00\x00",  # properties beyond the end
        b"\x00!\x00",  # a type of 0: paho took the next byte for the type, if it came alone
    ]


def mqtt_packets(data: bytes) -> None:
    """Read what a broker sends, as every leg does."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = Connection("c", receive_maximum=10)
        connection._client._create_socket = lambda: ours  # type: ignore[method-assign]
        connection._client._sock = None
        connection._open("localhost", 1)
        connection.subscribe("a/#")
        theirs.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            theirs.send(data)
        theirs.shutdown(socket.SHUT_WR)
        for _ in range(len(data) + 16):
            for one in connection.service(0):
                repr(one)
            if connection.ended:
                break
        else:
            raise AssertionError("a connection that never ends")
        connection.close()


def alerts() -> Sequence[bytes]:
    """Return answers of Alertmanager."""
    body = b'[{"labels":{"alertname":"NodeDown","node":"n1"}},{"labels":{}}]'
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return [
        head % len(body) + body,
        b"HTTP/1.1 400 Bad Request\r\n\r\n{}",
        b"HTTP/1.1 503 x\r\n\r\n",
    ]


class _Wire(http.client.HTTPConnection):
    """A connection whose other end has said all that it will."""

    def __init__(self, data: bytes) -> None:
        super().__init__("x")
        self._data = data

    def connect(self) -> None:
        """Put what was said behind the socket."""
        self.sock, other = socket.socketpair()
        with other:
            other.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                other.send(self._data)

    def send(self, data: Any) -> None:
        """Say nothing."""
        if self.sock is None:
            self.connect()
        del data


def alertmanager(data: bytes) -> None:
    """Ask Alertmanager for what fires, and post to it."""
    member = _Alertmanager(AlertmanagerSettings("http://x"))
    member._connect = lambda: cast("http.client.HTTPConnection", _Wire(data))  # type: ignore[method-assign]
    for ask in (member.active, lambda: member.post([])):
        try:
            ask()
        finally:
            member.close()


TARGETS = (
    Target(
        "answers of DNS",
        ("sensors/reach/dns_message.py", "sensors/reach/dns.py"),
        lambda data: right.reply(dns_message.read(data, ASKED)),
        dns_answers,
        (dns_message.Malformed,),
    ),
    Target(
        "answers of the web",
        ("sensors/reach/http_message.py", "sensors/reach/web.py"),
        probe_answer,
        http_answers,
        PROBE_REFUSALS,
    ),
    Target(
        "where the web sends us on to",
        ("sensors/reach/web.py",),
        redirected,
        lambda: (b"/x", b"https://login.example/?a=b", b"//h", b"//" + b"h" * 6000),
    ),
    Target("answers of metadata", ("sensors/cloud_http.py",), metadata_answer, http_answers),
    Target("who this machine is", ("decide/metadata.py",), identity, identities, json=True),
    Target(
        "recorded payloads",
        ("decide/payloads.py", "cli/explain_payload.py"),
        explain,
        explained,
        (LinkholdError,),
        json=True,
    ),
    Target(
        "answers of upsd",
        ("sensors/nut.py",),
        upsd,
        lambda: UPSD,
        (nut._Refused, OSError, EOFError, ValueError),
    ),
    Target(
        "packets of a broker",
        ("mqtt/connection.py", "mqtt/callbacks.py", "mqtt/tls.py"),
        mqtt_packets,
        packets,
        (LinkholdError,),
    ),
    Target(
        "answers of Alertmanager", ("relay/sink.py",), alertmanager, alerts, (Unavailable, Refused)
    ),
    *power_targets(),
    *notice_targets(),
)
