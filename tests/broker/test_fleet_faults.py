"""Leg B through faults of brokers, networks, certificates and disks, caused for real."""

from __future__ import annotations

import datetime as dt
import json
import random
import signal
import socket
import ssl
import subprocess
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from linkhold.config.brokers import BrokerSettings, TlsSettings
from linkhold.legs import fleet
from linkhold.legs.fleet_pace import Timing
from linkhold.legs.fleet_session import Session
from linkhold.store.outbox import Status, Stored
from support.broker import Broker, Collector, free_port, wait_until
from support.fleet import QUICK, Node, seqs
from support.outbox import BadDisk, entries, entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ALL = "linkhold/#"
PERSISTENT = (
    "persistence true",
    "autosave_interval 1",
    "autosave_on_changes true",
    "max_inflight_messages 0",
)


@pytest.fixture
def silent() -> Iterator[int]:
    """Give the port of a listener that accepts connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                try:
                    held.append(server.accept()[0])
                except OSError:
                    return

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(2)
        for sock in held:
            sock.close()


def test_a_wrong_password_is_said_and_a_corrected_file_is_read(
    brokers: Callable[..., Broker], nodes: Callable[..., Node], tmp_path: Path
) -> None:
    """The file is read at each connect, so that a rotated password needs no restart."""
    passwords, secret = tmp_path / "passwords", tmp_path / "secret"
    passwords.write_text("node:right\n")
    subprocess.run(["mosquitto_passwd", "-U", str(passwords)], check=True)
    broker = brokers(f"password_file {passwords}", anonymous=False).start()
    settings = BrokerSettings("127.0.0.1", broker.port, None, "node", str(secret))
    node = nodes(settings).start()
    node.wait_for("down", "No such file")
    secret.write_text("wrong\n")
    node.wait_for("down", "refused: Not authorized")
    secret.write_text("right\n")

    node.wait_for("up")


def test_a_broker_that_accepts_and_hangs_is_passed_over(
    brokers: Callable[..., Broker], nodes: Callable[..., Node], silent: int
) -> None:
    """No CONNACK in time: the next broker in order is taken."""
    broker = brokers().start()
    node = nodes(silent, broker.port).start()

    node.wait_for("up", str(broker.port))


def test_a_broker_that_accepts_and_drops_is_down(nodes: Callable[..., Node]) -> None:
    """It is not reported up and down by turns; only a connection that holds is up again."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def accept() -> None:
            while True:
                try:
                    sock, _ = server.accept()
                except OSError:
                    return
                with sock:
                    sock.recv(4096)
                    sock.sendall(b"\x20\x03\x00\x00\x00")  # CONNACK, accepted
                taken.append(1)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        node = nodes(server.getsockname()[1]).start()
        wait_until(lambda: len(taken) > 4, 5, "some connections")
        node.close()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(2)

    statuses = [status for status, _ in node.legs()]
    assert statuses.count("up") <= 1
    assert statuses[0] == "connecting"
    assert "down" in statuses
    assert len(statuses) <= 6


def test_every_broker_that_fails_is_named_once(nodes: Callable[..., Node], silent: int) -> None:
    """One report names all brokers with their reasons; the same failure is not told again."""
    dead = free_port()
    node = nodes(dead, silent).start()
    node.wait_for("down")
    time.sleep(1.5)

    reason = f"127.0.0.1:{dead}: Connection refused; 127.0.0.1:{silent}: no answer"
    assert node.legs() == [("connecting", ""), ("down", reason)]


def test_brokers_are_taken_in_order_and_the_first_again_when_it_is_back(
    brokers: Callable[..., Broker], nodes: Callable[..., Node]
) -> None:
    """The second serves while the first is dead; after its own death the first is tried first."""
    first, second = brokers(), brokers().start()
    node = nodes(first.port, second.port).start()
    node.keeper.record(entries(1, 3), b"")
    node.wait_for("up", str(second.port))
    first.start()
    second.kill()
    node.wait_for("up", str(first.port))

    wait_until(lambda: node.keeper.status().pending == 0, 8, "nothing is pending")


def test_a_frozen_broker_is_noticed_and_nothing_is_lost(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Its kernel still acknowledges; the missing answer ends the connection within ack_s."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port).start()
    node.keeper.record(entries(1, 10), b"")
    wait_until(lambda: len(seqs(heard)) == 10, 5, "the first ten")
    broker.signal(signal.SIGSTOP)
    began_s = time.monotonic()
    node.keeper.record(entries(11, 30), b"")
    node.wait_for("down", "no answer", 5)
    took_s = time.monotonic() - began_s
    broker.signal(signal.SIGCONT)
    wait_until(lambda: set(seqs(heard)) >= {*range(1, 31)}, 5, "all thirty")

    assert QUICK.ack_s <= took_s < QUICK.ack_s + 1.5
    assert list(dict.fromkeys(seqs(heard))) == [*range(1, 31)]


def test_stopping_while_the_broker_hangs_ends_in_time(
    brokers: Callable[..., Broker], nodes: Callable[..., Node]
) -> None:
    """A planned stop never waits longer than it was allowed to."""
    broker = brokers().start()
    node = nodes(broker.port).start()
    node.wait_for("up")
    broker.signal(signal.SIGSTOP)
    node.keeper.record(entries(1, 500), b"")
    began_s = time.monotonic()
    ended = node.leg.stop("reboot", 0.5)

    assert ended
    assert time.monotonic() - began_s < 0.6


def test_kill_9_of_the_broker_in_the_middle_of_500_events(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """All arrive, in order, once after de-duplication by id."""
    broker = brokers(*PERSISTENT).start()
    heard = collect(broker.port, ALL, session="relay")
    node = nodes(broker.port).start()
    node.wait_for("up")
    time.sleep(1.2)  # the broker's autosave: it must remember who subscribed
    for seq in range(1, 501):
        node.keeper.record([entry(seq)], b"")
        if seq in {150, 350}:
            wait_until(lambda seq=seq: len(seqs(heard)) > seq - 100, 5, "some")  # type: ignore[misc]
            broker.kill()
            broker.start()
    wait_until(lambda: set(seqs(heard)) >= {*range(1, 501)}, 15, "all")

    assert list(dict.fromkeys(seqs(heard))) == [*range(1, 501)]
    assert node.count("connects") >= 3
    wait_until(lambda: node.keeper.status().pending == 0, 8, "nothing is pending")


def test_a_broker_that_forgot_everything_gets_the_picture_again(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """Birth, status and state are published on every connect."""
    broker = brokers().start()
    node = nodes(broker.port).start()
    node.state(5)
    node.wait_for("up")
    broker.stop()
    node.wait_for("down")
    broker.start()
    node.wait_for("up")
    late = collect(broker.port, ALL)

    wait_until(lambda: len(late.messages) >= 3, 3, "the picture")
    assert {m.topic.rsplit("/", 1)[1] for m in late.messages} == {"birth", "state", "status"}


def test_a_link_that_comes_up_ends_the_wait(
    brokers: Callable[..., Broker], nodes: Callable[..., Node]
) -> None:
    """After an outage of minutes the next try would be far away; hurry makes it now."""

    class Late(random.Random):
        def uniform(self, a: float, b: float) -> float:
            return max(a, b)

    broker = brokers()
    node = nodes(broker.port, timing=Timing(backoff_least_s=60, hurry_s=0.2), rng=Late()).start()
    node.wait_for("down", "refused")
    broker.start()
    began_s = time.monotonic()
    node.leg.hurry()
    node.wait_for("up")

    assert time.monotonic() - began_s < 1


def _will(
    monkeypatch: pytest.MonkeyPatch, broker: Broker, make: Callable[..., Node], wait_s: float
) -> Node:
    """Return a node whose connection breaks without a word; it is back after ``wait_s``."""
    monkeypatch.setattr(fleet, "WILL_DELAY_S", 1)
    node = make(broker.port, timing=Timing(backoff_least_s=wait_s), rng=_Fixed())
    step = Session.step

    def fail(session: Session, now_s: float) -> None:
        monkeypatch.setattr(Session, "step", step)
        raise RuntimeError("a bug")

    node.start()
    node.wait_for("up")
    monkeypatch.setattr(Session, "step", fail)
    node.state(1)
    node.wait_for("down", "RuntimeError: a bug")
    return node


class _Fixed(random.Random):
    def uniform(self, a: float, b: float) -> float:
        return b


def test_a_short_break_publishes_no_offline(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The session outlives the connection, so the will's delay counts; a bug ends nothing."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = _will(monkeypatch, broker, nodes, 0.3)
    wait_until(lambda: node.count("connects") == 2, 3, "the second connection")
    time.sleep(2.2)

    assert [m.payload for m in heard.on("/status")] == [b"online", b"online"]
    assert node.count("errors") == 1


def test_a_long_break_is_announced_by_the_will(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who is away longer than the delay is offline, retained."""
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    _will(monkeypatch, broker, nodes, 60)

    wait_until(lambda: len(heard.on("/status")) == 2, 4, "the will")
    assert [m.payload for m in heard.on("/status")] == [b"online", b"offline"]


def test_a_hanging_disk_stops_neither_state_nor_connection(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """The newest state goes out while the outbox waits for its disk; events follow later."""
    disk = BadDisk()
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port, opener=disk).start()
    node.wait_for("up")
    disk.answers.clear()
    node.keeper.record(entries(1, 5), b"")
    for epoch in range(1, 4):
        node.state(epoch)
        time.sleep(0.6)  # longer than ack_s altogether
    epochs = [json.loads(message.payload)["data"]["epoch"] for message in heard.on("/state")]
    events = seqs(heard)
    disk.answers.set()
    wait_until(lambda: len(seqs(heard)) == 5, 5, "the events")

    assert epochs == [1, 2, 3]
    assert events == []
    assert node.count("connects") == 1


def test_volatile_events_are_sent_and_marked(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
) -> None:
    """A full disk costs durability, not delivery; later they are on disk as delivered."""
    import sqlite3

    disk = BadDisk(sqlite3.OperationalError("database or disk is full"))
    broker = brokers().start()
    heard = collect(broker.port, ALL)
    node = nodes(broker.port, opener=disk).start()
    node.keeper.record(entries(1, 5), b"")
    wait_until(lambda: node.count("delivered") == 5, 5, "the events are answered")
    disk.error = None
    wait_until(lambda: node.keeper.status().status == "ok", 5, "the disk works again")
    rows: list[Stored] = []
    node.keeper.history(0, 10, (), rows.extend)
    wait_until(lambda: len(rows) == 5, 5, "the history")

    assert seqs(heard) == [1, 2, 3, 4, 5]
    assert {message.user["volatile"] for message in heard.on("/event/")} == {"true"}
    assert [(row.status, row.volatile) for row in rows] == [(Status.DELIVERED, False)] * 5


class Pki:
    """A CA, a broker that wants client certificates, and the files of a client."""

    def __init__(self, folder: Path, make: Callable[..., Broker], **server: Any) -> None:
        self.ca = trustme.CA()
        self.folder = folder
        self.ca.cert_pem.write_to_path(str(folder / "ca.pem"))
        self.save("server", self.ca.issue_cert("127.0.0.1", **server))
        self.save("client", self.ca.issue_cert("node@example.org", common_name="n1"))
        self.broker = make(
            f"cafile {folder / 'ca.pem'}",
            f"certfile {folder / 'server.pem'}",
            f"keyfile {folder / 'server.key'}",
            "require_certificate true",
            "use_identity_as_username true",
        )

    def save(self, name: str, cert: trustme.LeafCert) -> None:
        """Write a certificate and its key."""
        cert.private_key_pem.write_to_path(str(self.folder / f"{name}.key"))
        (self.folder / f"{name}.pem").write_bytes(cert.cert_chain_pems[0].bytes())

    def settings(self, cert: str = "client", ca: str = "ca.pem") -> BrokerSettings:
        """Return how a node connects, with the certificate called ``cert``."""
        name = self.folder / cert
        files = (f"{name}.pem", f"{name}.key") if cert else ("", "")
        return BrokerSettings(
            "127.0.0.1", self.broker.port, TlsSettings(str(self.folder / ca), *files)
        )

    def collector(self, collect: Callable[..., Collector]) -> Collector:
        """Return a subscriber with a certificate of its own."""
        context = ssl.create_default_context(cafile=str(self.folder / "ca.pem"))
        context.load_cert_chain(self.folder / "client.pem", self.folder / "client.key")
        return collect(
            self.broker.port, ALL, prepare=lambda client: client.tls_set_context(context)
        )


def test_tls_with_client_certificates_carries_everything(
    brokers: Callable[..., Broker],
    collect: Callable[..., Collector],
    nodes: Callable[..., Node],
    tmp_path: Path,
) -> None:
    """State and events arrive over mutual TLS as without."""
    pki = Pki(tmp_path, brokers)
    pki.broker.start()
    heard = pki.collector(collect)
    node = nodes(pki.settings()).start()
    node.state(1)
    node.keeper.record(entries(1, 100), b"")

    wait_until(lambda: len(seqs(heard)) == 100, 10, "all events")
    assert seqs(heard) == [*range(1, 101)]
    assert len(heard.on("/state")) == 1


YESTERDAY = dt.datetime.now(dt.timezone.utc) - dt.timedelta(days=1)


def test_what_is_wrong_with_a_certificate_is_said(
    brokers: Callable[..., Broker], nodes: Callable[..., Node], tmp_path: Path
) -> None:
    """An unknown CA and a client without certificate are told apart; no file is said as such."""
    pki = Pki(tmp_path, brokers)
    pki.broker.start()
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
    for settings, part in (
        (pki.settings(ca="other.pem"), "certificate refused: "),
        (pki.settings(ca="absent.pem"), "absent.pem"),
        (pki.settings(cert=""), "certificate required"),
    ):
        node = nodes(settings).start()
        node.wait_for("down", part)
        node.close()


def test_an_expired_certificate_is_said(
    brokers: Callable[..., Broker], nodes: Callable[..., Node], tmp_path: Path
) -> None:
    """The broker's certificate ran out: the reason says so."""
    pki = Pki(tmp_path, brokers, not_after=YESTERDAY)
    pki.broker.start()

    nodes(pki.settings()).start().wait_for("down", "certificate has expired")


def test_the_next_broker_serves_when_the_first_refuses_by_name(
    brokers: Callable[..., Broker], nodes: Callable[..., Node]
) -> None:
    """A name that cannot be resolved is a reason like any other, found in the leg's thread."""
    broker = brokers().start()
    node = nodes(BrokerSettings("no-such-host.invalid", 1883), broker.port).start()

    node.wait_for("up", str(broker.port))
