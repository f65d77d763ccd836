"""Many messages one after the other, to readers that remember the ones before."""

from __future__ import annotations

import json
import os
import socket
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from fuzz import right, scratch
from fuzz.of_documents import NOW_S, births, events, states
from fuzz.samples_kernel import LOG, datagrams
from fuzz.target import Target
from linkhold.config.brokers import BrokerSettings
from linkhold.config.relay import RelaySettings
from linkhold.decide import far_diagnosis
from linkhold.decide.watch import Watch
from linkhold.fleet_view.picture import Fleet, Heard
from linkhold.fleet_view.plain import listing
from linkhold.fleet_view.rows import Rows
from linkhold.legs import fleet_replay
from linkhold.legs.fleet_diagnose import Ignored, parse_diagnose, read_request
from linkhold.legs.fleet_maintenance import maintenance_in
from linkhold.model import Moment, Unavailable, WireError
from linkhold.mqtt import Received
from linkhold.relay import messages
from linkhold.relay.decide.picture import Picture
from linkhold.relay.decide.values import BrokerSeen
from linkhold.relay.sink import alert_document
from linkhold.rtnl.framing import Overrun
from linkhold.sensors import rtnetlink
from linkhold.sensors.kmsg import KmsgSensor
from linkhold.wire import dumps
from linkhold.wire.maintenance import maintenance_request, parse_maintenance_request

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECOND_NS = 10**9
MOST_MESSAGES = 64


def split(data: bytes) -> list[tuple[int, bytes]]:
    """Return messages and a number before each: two bytes of length, one of kind, the message."""
    found: list[tuple[int, bytes]] = []
    while len(data) > 2 and len(found) < MOST_MESSAGES:
        size = int.from_bytes(data[:2], "little")
        found.append((data[2], data[3 : 3 + size]))
        data = data[3 + size :]
    return found


def joined(*parts: tuple[int, bytes]) -> bytes:
    """Return what :func:`split` takes apart."""
    return b"".join(len(one).to_bytes(2, "little") + bytes((kind,)) + one for kind, one in parts)


def replays() -> Sequence[bytes]:
    """Return requests for events once more."""
    return [
        b'{"request":"r1","since":"2026-11-29T03:00:00Z","limit":5}',
        b'{"request":"r2","session":"s1","from_seq":1,"to_seq":20}',
    ]


def replay(data: bytes) -> None:
    """Read a request for events."""
    right.replay(fleet_replay.parse_replay(data))


LOST, FOREIGN, ASKED = 1, 2, 4
PORT = 7


class _Kernel:
    """A socket of rtnetlink on which datagrams come, are lost, and answer what is asked."""

    port = PORT

    def __init__(self, waiting: list[tuple[int, bytes]], **_: object) -> None:
        self._waiting, self._seq = waiting, 0
        self._end, self._other = socket.socketpair()

    def fileno(self) -> int:
        """Return a descriptor that can be polled."""
        return self._end.fileno()

    def close(self) -> None:
        """Close it."""
        self._end.close()
        self._other.close()

    def request(self, _kind: int, _body: bytes, **_: object) -> int:
        """Ask; the answer is whatever comes."""
        self._seq += 1
        return self._seq

    def receive(self) -> tuple[bytes, bool] | None:
        """Return the next datagram, raise where some were lost."""
        if not self._waiting:
            return None
        kind, data = self._waiting.pop(0)
        if kind & LOST:
            raise Overrun
        if kind & ASKED and len(data) >= 16:  # an answer to what was asked last
            ours = self._seq.to_bytes(4, "little") + PORT.to_bytes(4, "little")
            data = data[:8] + ours + data[16:]
        return data, not kind & FOREIGN


def network_events(data: bytes) -> None:
    """Follow the host's network through datagrams, losses and answers that are no answers."""
    waiting = split(data)
    made: list[_Kernel] = []

    def connect(**how: Any) -> _Kernel:
        made.append(_Kernel(waiting, **how))
        return made[-1]

    with scratch.stand_in(rtnetlink, "NetlinkSocket", connect):
        sensor = rtnetlink.RtnetlinkSensor(Watch(), deadline_s=0.0)
        try:
            for step in (sensor.open, *[sensor.read] * len(waiting)):
                reading = step()
                if reading is not None:
                    indexes = [link.index for link in reading.network.links.values()]
                    assert len(set(indexes)) == len(indexes)
        except Unavailable:
            pass
        finally:
            sensor.close()
            for one in made:
                one.close()
    assert min(sensor.counters.values()) >= 0


def network_storms() -> Sequence[bytes]:
    """Return storms: what links and routes say, again and again, with losses between."""
    parts = [(0, one) for one in datagrams()]
    done = (20).to_bytes(4, "little") + b"\3\0\2\0" + bytes(12)
    listed = [(ASKED, one) for one in datagrams()] + [(ASKED, done)] * 4
    return [joined(*parts), joined(*listed, *parts), joined(*parts, (LOST, b""), *listed)]


def kernel_records(data: bytes) -> None:
    """Follow the kernel's log through records and what is none."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    theirs.setblocking(False)
    with ours, theirs:
        sensor = KmsgSensor("boot")
        sensor._fd = os.dup(ours.fileno())
        try:
            for _, record in split(data):
                if record:
                    theirs.send(record)
                _follow(sensor)
        finally:
            sensor.close()


def _follow(sensor: KmsgSensor) -> None:
    before = sensor._last
    reading = sensor.read()
    assert sensor._last >= before, "it goes back"
    assert all(sensor.counters[name] >= 0 for name in sensor.counters)
    numbers = [one.sequence for one in reading.records] if reading is not None else []
    assert all(first < second for first, second in pairwise(numbers))


def commands(data: bytes) -> None:
    """Take commands of the fleet as the leg does, some seconds after each other."""
    requests, desk = fleet_replay.Requests(), far_diagnosis.Desk()
    for number, (kind, payload) in enumerate(split(data)):
        expiry_s = (None, 0, 60, 60)[kind % 4]
        message = Received("t", payload, bool(kind & 4), expiry_s, 1)
        requests.received(message)
        assert len(requests._waiting) <= fleet_replay.MAX_WAITING
        reading = maintenance_in(message)
        assert reading is None or (not message.retained and message.expiry_s)
        try:
            request = read_request(message)
        except Ignored as error:
            right.words(error)
            continue
        desk, ruling, why = far_diagnosis.rule(desk, request.id, number * 20 * SECOND_NS)
        assert why or ruling is far_diagnosis.Ruling.TAKEN
        assert len(desk.begun_ns) <= far_diagnosis.PER_HOUR
        if kind & 8:
            desk = far_diagnosis.ended(desk)
        if kind & 16:
            requests.finish()


LEAVES = ("state", "status", "birth", "event/link.down", "event/agent.started", "x")


def _topics(data: bytes) -> Iterator[Received]:
    for kind, payload in split(data):
        topic = f"linkhold/v1/lab/n{kind % 3}/{LEAVES[kind // 4 % len(LEAVES)]}"
        yield Received(topic, payload, bool(kind & 128), 60, 1)


def relayed(data: bytes) -> None:
    """Take messages of some nodes as the relay does, and all that time makes of them."""
    picture = Picture(RelaySettings(brokers=(BrokerSettings("b"),)), Moment(0, NOW_S))
    picture.watch(["b"], Moment(0, NOW_S))
    pages = list(picture.take(BrokerSeen("b", up=True), Moment(1, NOW_S)).pages)
    second = 1
    for second, message in enumerate(_topics(data), 2):
        now = Moment(second * 7 * SECOND_NS, NOW_S + second * 7)
        try:
            heard = messages.read(message, "b")
        except WireError as error:
            right.words(error)
            continue
        if heard is not None:
            pages += picture.take(heard, now).pages
        pages += picture.tick(now).pages
    for later_s in (60, 4000, 90_000):
        pages += picture.tick(Moment((second * 7 + later_s) * SECOND_NS, NOW_S + later_s)).pages
    for page in pages:
        text = dumps(alert_document(page, Moment(SECOND_NS, NOW_S), 300.0))
        assert len(text) < 1 << 14
        assert text.decode().isprintable()


def topped(data: bytes) -> None:
    """Take messages of some nodes as `top` does."""
    fleet, rows = Fleet(), Rows()
    for second, one in enumerate(_topics(data)):
        at_s = NOW_S + second
        fleet.take(Heard("b", one.topic, one.payload, retained=one.retained, at_s=at_s))
        if second % 8 == 0:
            fleet.broker_lost("b")
        assert all(line.isprintable() for line in listing(rows.of(fleet, at_s), at_s))
    assert len(fleet.nodes) <= 3


def words_of_nodes() -> Sequence[bytes]:
    """Return what nodes say one after the other."""
    leaf = {name: 4 * number for number, name in enumerate(LEAVES)}
    many = [(leaf["state"], one) for one in states()[2:]]
    many += [(leaf["birth"], one) for one in births()]
    many += [(leaf["event/link.down"], one) for one in events()]
    status = [(leaf["status"], one) for one in (b"online", b"offline", b"", b"online")]
    return [joined(*status, *many), joined(*many, *status, *many), joined(*status)]


def orders() -> Sequence[bytes]:
    """Return commands one after the other."""
    diagnosis = [json.dumps({"id": f"a{n}", "since": "1h"}).encode() for n in range(12)]
    work = b'{"id":"m1","for_s":3600,"why":"new switch","by":"anna"}'
    every = [*diagnosis, *replays(), work]
    return [joined(*((2 + 8 * (n % 2), one) for n, one in enumerate(every)))]


def _log() -> Sequence[bytes]:
    return [joined(*((0, line) for line in LOG[:4]))]


TARGETS = (
    Target(
        "datagrams of rtnetlink, one after the other",
        ("sensors/rtnetlink.py", "sensors/link_table.py"),
        network_events,
        network_storms,
    ),
    Target("records of /dev/kmsg, one after the other", ("sensors/kmsg.py",), kernel_records, _log),
    Target(
        "commands of the fleet, one after the other",
        ("legs/fleet_diagnose.py", "legs/fleet_replay.py", "wire/maintenance.py"),
        commands,
        orders,
    ),
    Target(
        "messages of nodes, as the relay takes them",
        ("relay/messages.py",),
        relayed,
        words_of_nodes,
    ),
    Target(
        "messages of nodes, as `top` takes them",
        ("fleet_view/picture.py",),
        topped,
        words_of_nodes,
    ),
    Target(
        "cmd/diagnose",
        ("legs/fleet_diagnose.py",),
        lambda data: right.diagnosis(parse_diagnose(data)),
        lambda: [b'{"id":"a-1","since":"1h"}', b'{"id":"x"}'],
        (WireError,),
        json=True,
    ),
    Target("cmd/replay", ("legs/fleet_replay.py",), replay, replays, (WireError,), json=True),
    Target(
        "cmd/maintenance",
        ("wire/maintenance.py",),
        lambda data: right.maintenance(parse_maintenance_request(data)),
        lambda: [maintenance_request("m1", 3600, "new switch", "anna")],
        (WireError,),
        json=True,
    ),
)
