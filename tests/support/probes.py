"""Measures an outage: a stream of numbered UDP datagrams each way between two namespaces."""

from __future__ import annotations

import itertools
import json
import os
import select
import socket
import struct
import time
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.lab.kernel import inside

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

PORT = 9950
DRAIN_S = 0.3
HERE = "/proc/thread-self/ns/net"


@dataclass(frozen=True)
class Stream:
    """What became of the probes of one direction.

    ``longest_loss_ms`` is the longest run of lost probes, as time: the outage a user would see.
    ``longest_gap_ms`` is the longest time without any arrival; it also counts delay.
    """

    sent: int
    lost: int
    longest_loss_ms: float
    longest_gap_ms: float


@dataclass(frozen=True)
class Traffic:
    """Both directions of a probe: ``out`` from node to gateway, ``back`` the other way."""

    out: Stream
    back: Stream

    @property
    def lost(self) -> int:
        """Return the lost probes of both directions together."""
        return self.out.lost + self.back.lost

    @property
    def outage_ms(self) -> float:
        """Return the longest loss of either direction."""
        return max(self.out.longest_loss_ms, self.back.longest_loss_ms)


class Probe:
    """A running probe, in a process of its own so that the scenario's work does not disturb it.

    ::

        with topology.probe(rate_hz=200) as probe:
            topology.pull_cable(0)
            time.sleep(1)
        assert probe.traffic.outage_ms < 100

    Leaving the ``with`` stops sending; datagrams on their way get 0.3 s more. Between two
    namespaces each probe needs a ``port`` of its own. None as a namespace is the present one.
    """

    traffic: Traffic

    def __init__(
        self,
        namespaces: tuple[str | None, str | None],
        addresses: tuple[str, str],
        rate_hz: float,
        port: int = PORT,
    ) -> None:
        self._port = port
        self._namespaces = namespaces
        self._addresses = addresses
        self._period_s = 1 / rate_hz

    def __enter__(self) -> Self:
        result, tell_result = os.pipe()
        stop, tell_stop = os.pipe()
        ends = zip(self._namespaces, self._addresses, strict=True)
        sockets = [_socket(namespace, address, self._port) for namespace, address in ends]
        with warnings.catch_warnings():
            # Python 3.12 warns of forks beside threads; the child touches nothing they could lock.
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(tell_stop)  # so that the child also stops when its parent dies
            targets = [(address, self._port) for address in self._addresses]
            _child(sockets, targets, self._period_s, stop, tell_result)
        for sock in sockets:
            sock.close()
        os.close(stop)
        os.close(tell_result)
        self._result, self._stop = result, tell_stop
        os.read(result, 1)  # it sends from now on, also where the machine is busy
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        os.close(self._stop)
        with os.fdopen(self._result, encoding="ascii") as file:
            text = file.read()
        os.waitpid(self._pid, 0)
        if kind is None:
            out, back = json.loads(text)
            self.traffic = Traffic(Stream(**out), Stream(**back))


def _socket(namespace: str | None, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with inside(f"/run/netns/{namespace}" if namespace else HERE):
        sock = socket.socket(family, socket.SOCK_DGRAM)
    # The node's address may move between devices meanwhile: bind to the port alone.
    sock.bind(("", port))
    sock.setblocking(False)
    return sock


def _child(
    sockets: list[socket.socket],
    targets: list[tuple[str, int]],
    period_s: float,
    stop: int,
    result: int,
) -> None:
    code = 1
    try:
        node, gateway = sockets
        out = _Flow(node, gateway, targets[1])
        back = _Flow(gateway, node, targets[0])
        os.write(result, b" ")
        _exchange(out, back, period_s, stop)
        told = [vars(flow.summary(period_s)) for flow in (out, back)]
        os.write(result, json.dumps(told).encode())
        code = 0
    finally:
        os._exit(code)


def _exchange(out: _Flow, back: _Flow, period_s: float, stop: int) -> None:
    next_at = time.monotonic()
    end = None
    while end is None or time.monotonic() < end:
        pause = max(0.0, (end or next_at) - time.monotonic())
        watched = [out.to.fileno(), back.to.fileno(), *([stop] if end is None else [])]
        readable = select.select(watched, [], [], pause)[0]
        for flow in (out, back):
            flow.receive()
        if stop in readable:
            end = time.monotonic() + DRAIN_S
        elif end is None and time.monotonic() >= next_at:
            out.send()
            back.send()
            next_at += period_s


class _Flow:
    """One direction: what was sent when, and what arrived when."""

    def __init__(self, source: socket.socket, to: socket.socket, target: tuple[str, int]) -> None:
        self.to = to
        self._source, self._target = source, target
        self._sent: list[float] = []
        self._arrived: dict[int, float] = {}

    def send(self) -> None:
        """Send the next probe; a probe that the kernel refuses is a lost one."""
        number = len(self._sent)
        self._sent.append(time.monotonic())
        with suppress(OSError):
            self._source.sendto(struct.pack("!I", number), self._target)

    def receive(self) -> None:
        """Take everything that has arrived."""
        with suppress(BlockingIOError):
            while True:
                try:
                    data = self.to.recv(64)
                except ConnectionError:
                    continue
                self._arrived.setdefault(struct.unpack("!I", data)[0], time.monotonic())

    def summary(self, period_s: float) -> Stream:
        """Return the counts of this direction."""
        got = [number in self._arrived for number in range(len(self._sent))]
        runs = [len(list(run)) for arrived, run in itertools.groupby(got) if not arrived]
        edges = [self._sent[0], self._sent[-1]] if self._sent else []
        times = sorted([*self._arrived.values(), *edges])
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        return Stream(
            sent=len(got),
            lost=got.count(False),
            longest_loss_ms=round(max(runs, default=0) * period_s * 1000, 1),
            longest_gap_ms=round(max(gaps, default=0.0) * 1000, 1),
        )
