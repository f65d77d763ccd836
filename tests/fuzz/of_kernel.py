"""What the kernel brings: netlink of five families, its log, frames, uevents."""

from __future__ import annotations

import socket
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from fuzz import right
from fuzz.samples_kernel import (
    BOND0,
    ETH0,
    LOG,
    NEIGHBOURS,
    ROUTES,
    RULES,
    VLAN,
    answers,
    bodies,
    chains,
    datagrams,
    diag_sockets,
    echoes,
    frames,
    objects,
    socket_errors,
    unix_sockets,
)
from fuzz.scratch import stand_in
from fuzz.target import Target
from linkhold.actuators import uplink_routes
from linkhold.decide import kernel_log
from linkhold.decide.kernel_log import formats
from linkhold.decide.watch import Watch
from linkhold.frames import echo, neighbours
from linkhold.model import HostError
from linkhold.rtnl import exchange, framing, inet_diag, retarget, unix_diag
from linkhold.rtnl.exchange import Exchange
from linkhold.sensors import kmsg
from linkhold.sensors.journal import JournalSensor
from linkhold.sensors.link_table import Table
from linkhold.sensors.power_supply import Uevents
from linkhold.sensors.reach import neighbour_table
from linkhold.sensors.uplink_probes import UplinkProbes
from linkhold.survey import link_counters, links, nftables, packets, routes, snapshot
from support import rtnl_bytes as rtnl

if TYPE_CHECKING:
    from collections.abc import Callable

MALFORMED = (framing.Malformed,)


def fold(data: bytes) -> None:
    """Fold a datagram into the table of links, as the sensor does with events."""
    table = Table(Watch())
    for message in framing.messages(data):
        framing.error_of(data, message)
        table.fold(data, message, listed=False)
    table.view()


def looked(data: bytes) -> None:
    """Take one object of each kind into a look at the host, and make a request of it again."""
    look: dict[str, Callable[[bytes], Any]] = {
        "_link": snapshot._link, "_address": snapshot._address, "_route": snapshot._route,
        "_rule": snapshot._rule, "_neighbour": snapshot._neighbour, "_nexthop": snapshot._nexthop,
    }  # fmt: skip
    head, body = data[:1], data[1:]
    kind = list(look)[head[0] % len(look)] if head else "_link"
    found = look[kind](body)
    if found is not None and kind != "_link":
        _AGAIN[kind](found)


class _Names(dict[int, str]):
    """Every index has a name."""

    def __missing__(self, index: int) -> str:
        return f"if{index}"


_AGAIN: dict[str, Callable[[Any], object]] = {
    "_address": lambda one: retarget.address(one, "eth0", "bond0"),
    "_route": lambda one: retarget.route(one, _Names()),
    "_rule": lambda one: retarget.rule(one, str),
    "_neighbour": lambda one: retarget.neighbour(one, "bond0"),
    "_nexthop": lambda one: retarget.nexthop(one, "bond0"),
}


class _Answers:
    """A socket of netlink that has these datagrams, and then no more."""

    def __init__(self, *datagrams: bytes) -> None:
        self._left = list(datagrams)

    def recv(self, _size: int) -> bytes:
        if not self._left:
            raise HostError("no answer within 10 s")
        return self._left.pop(0)

    def sendto(self, *_: object) -> None:
        """Ask into the void."""


ASKS: dict[str, Callable[[Exchange], object]] = {
    "a dump": lambda kernel: kernel.dump(24, b""),
    "a question": lambda kernel: kernel.get(26, b""),
    "a change": lambda kernel: kernel.change([exchange.Request(16, 0, b"")]),
}


def exchanged(ask: str, data: bytes) -> None:
    """Read the answers to a dump, a question or a change."""
    kernel = Exchange.__new__(Exchange)
    kernel._name, kernel._seq = "rtnetlink", 0
    kernel._socket = cast("socket.socket", _Answers(data, rtnl.message(3, bytes(4), seq=1)))
    with stand_in(exchange, "select", _Ready):
        ASKS[ask](kernel)


class _Ready:
    """Stands for the module select: what is asked for is always there."""

    @staticmethod
    def select(*_: object) -> tuple[list[int], list[int], list[int]]:
        return [1], [], []


def listed(read: Callable[[], object], module: Any, name: str, data: bytes) -> None:
    """Read one object that a dump lists."""
    with stand_in(module, name, lambda *_: [data]):
        read()


def uplink_dumps(data: bytes) -> None:
    """Read routes and rules as the actuator of uplinks does, and copy them."""
    host, ours = uplink_routes._routes([data])
    uplink_routes._rule(data)
    for one in (*host, *ours):
        uplink_routes.copied(one.raw)
        uplink_routes._deletion(one)


def read_chains(data: bytes) -> None:
    """Read a dump of nf_tables, both ways."""
    for read in (nftables.chains, nftables.dropped):
        with stand_in(Exchange, "dump", lambda *_: [data]):
            read()


def kernel_lines(data: bytes) -> None:
    """Read lines of a kernel's log in whatever form, and say what each means."""
    text = data.decode("utf-8", "backslashreplace")
    for entry in formats.entries(text.splitlines(keepends=True)):
        kernel_log.explain(entry)


def kernel_record(data: bytes) -> None:
    """Read one record of /dev/kmsg as the sensor does, and classify it."""
    sensor = kmsg.KmsgSensor("boot")
    record = sensor._taken(data)
    right.record(kmsg.parse(data))
    if record is not None:
        kernel_log.classify(record.text, record.device)


def journal_entry(data: bytes) -> None:
    """Take an entry of the journal, whose fields are bytes, texts, numbers or lists."""
    fields = dict(part.partition(b"=")[::2] for part in data.split(b"\0"))
    entry: dict[str, Any] = {}
    for key, value in fields.items():
        text = value.decode("utf-8", "replace")
        # systemd-python: a field that repeats is a list, one that is no UTF-8 stays bytes.
        entry[key.decode("utf-8", "replace")] = [text, text] if value[:1] == b"*" else text
    JournalSensor("boot")._taken(entry)


def echo_answer(data: bytes) -> None:
    """Read an answer to an echo in each of the ways that probes do."""
    for version in (4, 6):
        for raw in (False, True):
            echo.reply_payload(version, data, raw=raw)
    probes = UplinkProbes()
    line = type("Line", (), {"asked": {}, "link": "eth0"})()
    for family in (socket.AF_INET, socket.AF_INET6):
        probes._answer(line, family, data, "10.0.0.1", 5)


class _Datagram:
    """A socket with one datagram of the kernel."""

    def __init__(self, data: bytes) -> None:
        self._data: list[bytes] = [data]

    def recvfrom(self, size: int) -> tuple[bytes, tuple[int, int]]:
        if not self._data:
            raise BlockingIOError
        return self._data.pop()[:size], (0, 1)


def uevent(data: bytes) -> None:
    """Read a uevent."""
    uevents = Uevents.__new__(Uevents)
    uevents._wanted, uevents._socket = (
        b"SUBSYSTEM=power_supply",
        cast("socket.socket", _Datagram(data)),
    )
    uevents.changed()


TARGETS = (
    Target(
        "rtnetlink events",
        ("rtnl/framing.py", "rtnl/attributes.py", "sensors/link_codec.py", "sensors/link_table.py"),
        fold,
        datagrams,
        MALFORMED,
    ),
    Target(
        "a look at the host",
        ("survey/snapshot.py", "rtnl/bond.py", "rtnl/retarget.py"),
        looked,
        objects,
        MALFORMED,
    ),
    *(
        Target(
            f"rtnetlink's answer to {ask}",
            ("rtnl/exchange.py",),
            partial(exchanged, ask),
            answers,
            (HostError, *MALFORMED),
        )
        for ask in ASKS
    ),
    Target(
        "routes and rules of uplinks",
        ("actuators/uplink_routes.py",),
        uplink_dumps,
        lambda: bodies(ROUTES, RULES),
        MALFORMED,
    ),
    Target(
        "links by netlink",
        ("survey/links.py",),
        partial(listed, links.facts, routes, "listed"),
        lambda: (ETH0, BOND0, VLAN),
        (routes.NoAnswer,),
    ),
    Target(
        "counters by netlink",
        ("survey/link_counters.py",),
        partial(listed, link_counters.counters, routes, "listed"),
        lambda: (ETH0, BOND0),
        (routes.NoAnswer,),
    ),
    Target(
        "routes of leases",
        ("survey/routes.py",),
        partial(listed, routes.dhcp_interfaces, routes, "listed"),
        lambda: ROUTES,
        (routes.NoAnswer,),
    ),
    Target(
        "an entry of the neighbour table",
        ("sensors/reach/neighbour_table.py",),
        neighbour_table.parsed,
        lambda: NEIGHBOURS,
        MALFORMED,
    ),
    Target(
        "inet_diag",
        ("rtnl/inet_diag.py",),
        lambda data: [*map(right.connection, inet_diag.parse([data], 1))],
        diag_sockets,
        MALFORMED,
    ),
    Target(
        "unix_diag",
        ("rtnl/unix_diag.py",),
        lambda data: unix_diag.clients([data], b"broker.sock", b"agent.sock"),
        unix_sockets,
        MALFORMED,
    ),
    Target("nf_tables", ("survey/nftables.py",), read_chains, chains, MALFORMED),
    Target("a record of /dev/kmsg", ("sensors/kmsg.py",), kernel_record, lambda: LOG[:4]),
    Target("lines of a kernel's log", ("cli/explain_kernel_log.py",), kernel_lines, lambda: LOG),
    Target(
        "an entry of the journal",
        ("sensors/journal.py",),
        journal_entry,
        lambda: [
            (
                b"MESSAGE=e1000e 0000:00:1f.6 eth0: NIC Link is Down\0PRIORITY="
                b"6\0SYSLOG_FACILITY=0\0_SOURCE_MONOTONIC_TIMESTAMP=5"
            )
        ],
    ),
    Target(
        "ARP and neighbour discovery",
        ("frames/neighbours.py", "sensors/path_probes.py"),
        neighbours.heard,
        frames,
    ),
    Target(
        "answers to echoes",
        (
            "frames/echo.py",
            "sensors/uplink_probes.py",
            "sensors/reach/icmp.py",
            "survey/echo.py",
            "survey/echo_stream.py",
        ),
        echo_answer,
        echoes,
    ),
    Target(
        "errors of sockets",
        ("frames/echo.py", "sensors/reach/icmp.py"),
        echo.socket_error,
        socket_errors,
    ),
    Target(
        "the VLAN of a frame",
        ("survey/packets.py",),
        lambda data: packets._vlan([(263, 8, data)]),
        lambda: [struct.pack("=IIIHHHH", 0x10, 0, 0, 0, 0, 5, 0)],
    ),
    Target(
        "uevents",
        ("sensors/power_supply.py",),
        uevent,
        lambda: [b"change@/x\0ACTION=change\0SUBSYSTEM=power_supply\0"],
    ),
)
