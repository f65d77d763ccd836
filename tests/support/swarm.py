"""Many nodes of a fleet in one process: presence with a will, states and events, over raw sockets.

A thousand clients of a library would measure the library. What is sent is MQTT v5 as the agent's
fleet leg sends it; answers are read and only counted.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from linkhold.wire import rfc3339

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

KEEPALIVE_S = 0
"""No pings: a node is gone when its socket is, which is what wills are about here."""
CONNACK, PUBLISH, PUBACK = 2, 3, 4
GO: dict[str, Any] = {
    "uploads": "go",
    "training": "go",
    "holds": [],
    "checkpoint": None,
    "stop": None,
}


def _varint(value: int) -> bytes:
    out = bytearray()
    while True:
        value, low = divmod(value, 128)
        out.append(low | (128 if value else 0))
        if not value:
            return bytes(out)


def _text(value: bytes) -> bytes:
    return struct.pack(">H", len(value)) + value


def _packet(head: int, body: bytes) -> bytes:
    return bytes([head]) + _varint(len(body)) + body


def connect_packet(client_id: str, will_topic: str, will_delay_s: int) -> bytes:
    """Return CONNECT with a retained will ``offline`` and a session that outlives its delay."""
    flags = 0x04 | 0x08 | 0x20 | 0x02  # will, QoS 1, retained; clean start
    session = b"\x11" + struct.pack(">I", will_delay_s + 5)
    will = b"\x18" + struct.pack(">I", will_delay_s)
    body = _text(b"MQTT") + b"\x05" + bytes([flags]) + struct.pack(">H", KEEPALIVE_S)
    body += _varint(len(session)) + session + _text(client_id.encode())
    body += _varint(len(will)) + will + _text(will_topic.encode()) + _text(b"offline")
    return _packet(0x10, body)


def publish_packet(topic: str, payload: bytes, mid: int, *, retain: bool) -> bytes:
    """Return PUBLISH with QoS 1."""
    head = 0x30 | 0x02 | int(retain)
    return _packet(head, _text(topic.encode()) + struct.pack(">H", mid) + b"\x00" + payload)


class SwarmNode:
    """One node: what it would tell, and its connection."""

    def __init__(self, site: str, name: str, *, boot: str = "", started_s: float = 0.0) -> None:
        self.site, self.name = site, name
        self.prefix = f"linkhold/v1/{site}/{name}"
        self.boot = boot or f"boot-{name}"
        self.session = "5e55"
        self.started_s = started_s or time.time()
        self.epoch = self.seq = 0
        self.alerts: list[dict[str, Any]] = []
        self.network, self.power = "ok", "ok"
        self.links = {"eth0": True, "eth1": True}
        self.extra: dict[str, Any] = {}
        self.sock: socket.socket | None = None
        self.unsent = b""
        self._mid = 0

    def mid(self) -> int:
        """Return the next packet identifier."""
        self._mid = self._mid % 65535 + 1
        return self._mid

    def alert(self, type_: str, subject: str, severity: str = "critical", **more: Any) -> None:
        """Open an alert in the state."""
        since = more.pop("since_s", time.time())
        text = more.pop("text", f"{subject} has a fault")
        self.alerts.append(
            {
                "fingerprint": f"{self.name}/{type_}/{subject}",
                "type": type_,
                "severity": severity,
                "subject": subject,
                "since": rfc3339(since),
                "since_mono_ns": 1,
                "text": text,
            }
        )

    def state(self) -> bytes:
        """Return the next state as its CloudEvent."""
        self.epoch += 1
        now_s = time.time()
        mono_ns = int((now_s - self.started_s + 100) * 1e9)
        members = {name: {"good": up, "path": "alive"} for name, up in self.links.items()}
        good = [name for name, up in self.links.items() if up]
        document = {
            "schema": 1,
            "site": self.site,
            "node": self.name,
            "boot_id": self.boot,
            "session": self.session,
            "session_mono_ns": 100 * 10**9,
            "at": rfc3339(now_s),
            "mono_ns": mono_ns,
            "clock_synced": True,
            "epoch": self.epoch,
            "network": self.network,
            "power": self.power,
            "notices": [],
            "cause": [],
            "alerts": self.alerts,
            "advice": GO,
            "detail": {
                "links": {name: {"carrier": up} for name, up in self.links.items()},
                "bonds": {"bond0": {"active": good[0] if good else None, "members": members}},
                "paths": {"gateway": {"link": "bond0", "carries": bool(good)}},
                "power": {"pad": "x" * 2500},  # a real document has four to six kilobytes
            },
            **self.extra,
        }
        return json.dumps(
            {"specversion": "1.0", "id": "s", "type": "linkhold.state", "data": document}
        ).encode()

    def birth(self, planned: str = "", previous: tuple[str, int] | None = None) -> bytes:
        """Return the birth of this session."""
        document = {
            "schema": 1,
            "site": self.site,
            "node": self.name,
            "boot_id": self.boot,
            "session": self.session,
            "started": rfc3339(self.started_s),
            "previous_session": previous[0] if previous else None,
            "previous_seq": previous[1] if previous else None,
            "next_seq": self.seq + 1,
            "planned_stop": planned or None,
        }
        return json.dumps(document).encode()

    def event(self, type_: str, subject: str, *, at_s: float = 0.0, **data: Any) -> bytes:
        """Return the next event."""
        self.seq += 1
        document = {
            "specversion": "1.0",
            "id": f"{self.boot}-{self.session}-{self.seq}",
            "source": f"linkhold/{self.site}/{self.name}",
            "type": type_,
            "subject": subject,
            "time": rfc3339(at_s or time.time()),
            "severity": "info",
            "seq": self.seq,
            "data": data,
        }
        return json.dumps(document).encode()


class Swarm:
    """Connects nodes to one broker and sends for them; call :meth:`serve` to read answers."""

    def __init__(self, port: int, nodes: Iterable[SwarmNode], *, will_delay_s: int = 1) -> None:
        self.port = port
        self.nodes = list(nodes)
        self.will_delay_s = will_delay_s
        self.answers: Counter[int] = Counter()
        self.refused = 0
        self._poll = select.poll()
        self._by_fd: dict[int, SwarmNode] = {}

    def connect(self, nodes: Sequence[SwarmNode] | None = None, at_once: int = 200) -> None:
        """Connect nodes, so many at a time, and say that they are there."""
        wanted = self.nodes if nodes is None else nodes
        for start in range(0, len(wanted), at_once):
            some = wanted[start : start + at_once]
            for node in some:
                self._open(node)
            self.serve_until(lambda some=some: all(not n.unsent for n in some), 30)

    def _open(self, node: SwarmNode) -> None:
        sock = socket.socket()
        sock.settimeout(20)
        sock.connect(("127.0.0.1", self.port))
        sock.setblocking(False)
        node.sock = sock
        self._by_fd[sock.fileno()] = node
        self._poll.register(sock, select.POLLIN)
        topic = f"{node.prefix}/status"
        hello = connect_packet(f"linkhold-{node.site}-{node.name}", topic, self.will_delay_s)
        self._write(node, hello)
        self.send(node, "birth", node.birth(), retain=True)
        self.send(node, "status", b"online", retain=True)
        self.send(node, "state", node.state(), retain=True)

    def send(self, node: SwarmNode, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publish below the node's prefix."""
        packet = publish_packet(f"{node.prefix}/{topic}", payload, node.mid(), retain=retain)
        self._write(node, packet)

    def _write(self, node: SwarmNode, packet: bytes) -> None:
        node.unsent += packet
        self._flush(node)

    def _flush(self, node: SwarmNode) -> None:
        if node.sock is None:
            node.unsent = b""
            return
        try:
            sent = node.sock.send(node.unsent) if node.unsent else 0
        except BlockingIOError:
            sent = 0
        except OSError:
            self._lost(node)
            return
        node.unsent = node.unsent[sent:]
        mask = select.POLLIN | (select.POLLOUT if node.unsent else 0)
        self._poll.modify(node.sock, mask)

    def _lost(self, node: SwarmNode) -> None:
        if node.sock is not None:
            self._poll.unregister(node.sock)
            self._by_fd.pop(node.sock.fileno(), None)
            node.sock.close()
            node.sock, node.unsent = None, b""

    def cut(self, nodes: Iterable[SwarmNode]) -> None:
        """Let nodes vanish without a word: the broker sends their wills after the delay."""
        for node in nodes:
            if node.sock is not None:
                linger = struct.pack("ii", 1, 0)
                node.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._lost(node)

    def serve(self, timeout_s: float = 0.0) -> None:
        """Read what came and write what waits."""
        for fd, mask in self._poll.poll(timeout_s * 1000):
            node = self._by_fd.get(fd)
            if node is None or node.sock is None:
                continue
            if mask & select.POLLOUT:
                self._flush(node)
            if mask & ~select.POLLOUT and node.sock is not None:
                self._read(node)

    def _read(self, node: SwarmNode) -> None:
        assert node.sock is not None
        try:
            data = node.sock.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lost(node)
            return
        if data[0] >> 4 == CONNACK and data[3:4] != b"\x00":
            self.refused += 1
        self.answers[data[0] >> 4] += 1

    def serve_until(self, check: Any, timeout_s: float) -> None:
        """Serve until ``check()``; AssertionError after ``timeout_s``."""
        until_s = time.monotonic() + timeout_s
        while not check():
            assert time.monotonic() < until_s, "the swarm waits in vain"
            self.serve(0.05)

    @property
    def connected(self) -> int:
        """How many nodes have a connection."""
        return len(self._by_fd)

    def close(self) -> None:
        """Let go of every connection."""
        self.cut(self.nodes)
