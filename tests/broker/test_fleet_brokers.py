"""Leg B with several brokers, some of which take connections and are of no use; and reloads."""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.legs.fleet_session import Session
from linkhold.mqtt import Connection
from support.broker import Broker, Collector, wait_until
from support.fleet import Node, seqs
from support.outbox import entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CONNACK = b"\x20\x03\x00\x00\x00"
DISCONNECT = b"\xe0\x01"


class Useless:
    """A broker that accepts each connection and then does not serve it.

    By default it says nothing after CONNACK. ``answers``: it acknowledges what is retained
    (presence, state) and no event. ``last`` is what it says before it closes at once.
    """

    def __init__(self, *, last: bytes | None = None, answers: bool = False) -> None:
        self.connections = 0
        self._last = last
        self._answers = answers
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            with sock:
                sock.settimeout(5)
                self._serve(sock)

    def _serve(self, sock: socket.socket) -> None:
        sock.recv(4096)
        sock.sendall(CONNACK)
        self.connections += 1
        if self._last is not None:
            sock.sendall(self._last)
            sock.shutdown(socket.SHUT_WR)  # closed with bytes unread, it would take this back
        try:
            while received := sock.recv(65536):
                if self._answers:
                    sock.sendall(b"".join(_pubacks(received)))
        except OSError:
            return

    def close(self) -> None:
        """Accept no more connections."""
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join(6)
        self._server.close()


def _pubacks(received: bytes) -> Iterator[bytes]:
    """Yield an answer to each retained QoS 1 publication in ``received``."""
    at = 0
    while at < len(received):
        head, size, shift = received[at], 0, 0
        at += 1
        while True:
            size |= (received[at] & 0x7F) << shift
            shift, at = shift + 7, at + 1
            if not received[at - 1] & 0x80:
                break
        topic = int.from_bytes(received[at : at + 2], "big")
        if head == 0x33:
            yield b"\x40\x02" + received[at + 2 + topic : at + 4 + topic]
        at += size


@pytest.fixture
def useless() -> Iterator[Callable[..., Useless]]:
    """Make useless brokers that are closed at the end."""
    made: list[Useless] = []

    def make(**how: Any) -> Useless:
        made.append(Useless(**how))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize(
    "first", [{}, {"answers": True}, {"last": b""}, {"last": DISCONNECT + b"\x8b"}]
)
def test_a_broker_that_accepts_and_does_not_serve_blocks_no_other(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
    useless: Callable[..., Useless],
    first: dict[str, Any],
) -> None:
    """Silent, half deaf, dropping or shutting down: the second gets all once and in order."""
    bad, good = useless(**first), brokers().start()
    heard = collect(good.port, "linkhold/#")
    node = nodes(bad.port, good.port)
    node.keeper.record(entries(1, 60), b"")
    node.state(1)
    node.start()
    node.wait_for("up", str(good.port))
    node.keeper.record(entries(61, 70), b"")
    wait_until(lambda: len(seqs(heard)) >= 70, 5, "all events")
    node.leg.stop("test over", 2)

    assert seqs(heard) == [*range(1, 71)]
    assert bad.connections == 1
    up_at_first = [("down", f"127.0.0.1:{bad.port}: no answer")] if first.get("answers") else []
    assert [one for one in node.legs() if one[0] == "down"] == up_at_first


@pytest.mark.parametrize(
    ("last", "reason"),
    [
        (None, "no answer"),
        (b"", "connection lost"),
        (DISCONNECT + b"\x80", "Unspecified error"),
        (DISCONNECT + b"\x8b", "Server shutting down"),
    ],
)
def test_why_a_connection_ended_is_said(
    nodes: Callable[..., Node],
    useless: Callable[..., Useless],
    last: bytes | None,
    reason: str,
) -> None:
    """The broker's own words, or that there were none; never up without an answer of it."""
    bad = useless(last=last)
    node = nodes(bad.port).start()
    wait_until(lambda: bad.connections > 1, 8, "a second connection")

    assert node.legs() == [("connecting", ""), ("down", f"127.0.0.1:{bad.port}: {reason}")]


@pytest.mark.parametrize("where", [(Connection, "open_tcp"), (Session, "step")])
def test_a_leg_that_outlives_its_stop_is_not_heard_any_more(
    brokers: Callable[..., Broker],
    nodes: Callable[..., Node],
    monkeypatch: pytest.MonkeyPatch,
    where: tuple[type, str],
) -> None:
    """Held up while it connects or serves, it ends after its successor began, without a word."""
    reached, free = threading.Event(), threading.Event()
    real = getattr(*where)

    def held(*arguments: Any) -> Any:
        reached.set()
        free.wait(10)
        return real(*arguments)

    monkeypatch.setattr(*where, held)
    node = nodes(brokers().start().port).start()
    assert reached.wait(5)
    began_s = time.monotonic()
    assert node.leg.stop("the configuration changed", 0.2) is False
    took_s, said = time.monotonic() - began_s, node.legs()
    free.set()
    wait_until(lambda: not node.leg._thread.is_alive(), 5, "the thread ends")

    assert took_s < 0.4
    assert node.legs() == said == [("connecting", "")]


def test_a_stop_in_time_is_the_last_report(
    brokers: Callable[..., Broker], nodes: Callable[..., Node]
) -> None:
    """What stop() waited for is still said."""
    node = nodes(brokers().start().port).start()
    node.wait_for("up")

    assert node.leg.stop("the configuration changed", 2)
    assert node.legs()[-1] == ("off", "the configuration changed")


@pytest.mark.parametrize("apart", [True, False])
def test_an_encrypted_key_is_said_and_asks_nobody(
    nodes: Callable[..., Node], tmp_path: Path, *, apart: bool
) -> None:
    """In a file of its own or with the certificate: no password is asked for on a terminal."""
    cert = trustme.CA().issue_cert("node@example.org", common_name="n1")
    plain, key, chain = tmp_path / "plain", tmp_path / "n1.key", tmp_path / "n1.pem"
    cert.private_key_pem.write_to_path(str(plain))
    encrypt = ("openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", str(plain), "-out")
    subprocess.run([*encrypt, str(key)], check=True)
    chain.write_bytes(cert.cert_chain_pems[0].bytes() + (b"" if apart else key.read_bytes()))
    tls = TlsSettings("", str(chain), str(key) if apart else "")
    node = nodes(BrokerSettings("127.0.0.1", 1, tls)).start()

    node.wait_for("down", f"TLS key {key if apart else chain} is encrypted", 3)
