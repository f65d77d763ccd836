"""What programs of this node say: control socket, message bus, helper processes, a terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import socket
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import jeepney
import jeepney.fds

from fuzz import right, scratch
from fuzz.of_network import run
from fuzz.target import Target
from linkhold import control
from linkhold.config.settings import Settings
from linkhold.control import MAX_REQUEST_BYTES, ControlClient, ControlServer, _granted
from linkhold.daemon import questions
from linkhold.daemon.far_diagnosis import FarDiagnosis, Place
from linkhold.daemon.job_numbers import ToldNumbers
from linkhold.daemon.operator_holds import OperatorHolds
from linkhold.decide.node import Context
from linkhold.door import Peer
from linkhold.fleet_view.keys import decode
from linkhold.inside import helper
from linkhold.inside.connections import settled
from linkhold.model import LinkholdError, Unavailable, WireError
from linkhold.sensors.logind import FAILURES, LogindSensor
from linkhold.sensors.system_bus import SystemBus
from linkhold.store.outbox import Stored
from linkhold.survey import inside
from support.outbox import entries
from support.world import World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from linkhold.legs.fleet_diagnose import Report

_REPORT = b'{"schema":1,"state":"healthy"}'
REQUESTS = (
    b'{"cmd":"state"}\n{"cmd":"events","since_s":60,"limit":5}\n',
    b'{"cmd":"hold","uploads":true,"training":true,"why":"x","for_s":600,"job":""}\n',
    b'{"cmd":"resume","job":"j"}\n{"cmd":"x","bytes":4}\nabcd',
    b'{"cmd":"publish_diagnosis","bytes":%d}\n%s{"cmd":"mode"}\n' % (len(_REPORT), _REPORT),
    (
        b'{"cmd":"numbers","script":"train.py","run":"","process":"0123456789abcdef",'
        b'"numbers":{"held_s":1.5,"saves":2}}\n'
    ),
)
ROOT = Peer(os.getpid(), os.geteuid())
STRANGER = Peer(os.getpid(), 12345)


class Voice:
    """Keeps what the server answers."""

    def __init__(self) -> None:
        self.answers = b""

    def write(self, data: bytes) -> None:
        """Take an answer."""
        self.answers += data

    async def drain(self) -> None:
        """Have sent it."""


class _Keeper:
    """An outbox that answers at once."""

    def history(self, _since_s: float, limit: int, _types: object, reply: Any) -> bool:
        """Return a few events, or refuse as a full one does."""
        reply([Stored(one.seq, one) for one in entries(1, min(limit, 5))])
        return limit != 13


class _Leg:
    """A fleet that takes every report, and tells so at once."""

    def publish_report(self, report: Report) -> bool:
        """Take it."""
        json.dumps(report.document)
        report.told("")
        return True


@cache
def _context() -> Context:
    return Context(Settings(), World().context.identity)


def handlers() -> dict[str, Any]:
    """Return what the agent answers with (Agent.__init__), without a disk and a fleet behind."""
    parts = (
        questions.Questions(cast("Any", _Keeper()), lambda: b"{}", _context),
        FarDiagnosis(Place("linkhold/v1/lab/n1", None, Path("/nowhere")), cast("Any", _Leg)),
        OperatorHolds(lambda _: None, tuple),
        ToldNumbers(),
    )
    return {name: handle for part in parts for name, handle in part.handlers().items()}


def control_requests(data: bytes) -> None:
    """Serve what somebody writes to the control socket: every answer is one line of JSON."""

    async def serve() -> None:
        for peer in (ROOT, STRANGER):
            reader = asyncio.StreamReader(limit=MAX_REQUEST_BYTES)
            reader.feed_data(data)
            reader.feed_eof()
            server, voice = ControlServer(Path("/nowhere"), handlers()), Voice()
            await server._converse(reader, cast("asyncio.StreamWriter", voice), peer)
            right.answers(voice.answers)

    with scratch.stand_in(control, "PACE_S", 0.0):
        run(serve())


def control_answer(data: bytes) -> None:
    """Read what something on the control socket's path answers."""
    client = ControlClient.__new__(ControlClient)
    client._file = cast("Any", io.BytesIO(data))
    answer = client._read()
    if answer is not None:
        _granted(answer)


@cache
def bus_messages() -> Sequence[bytes]:
    """Return what a message bus sends: answers, an error, a signal."""
    call = jeepney.new_method_call(jeepney.DBusAddress("/x", "a.b", "a.b"), "GetAll", "s", ("x",))
    call.header.serial = 1
    values = {"PreparingForShutdown": ("b", False), "InhibitDelayMaxUSec": ("t", 30_000_000),
              "ScheduledShutdown": ("(st)", ("reboot", 1_800_000_000_000_000))}  # fmt: skip
    told = jeepney.new_method_return(call, "a{sv}", (values,))
    error = jeepney.new_error(call, "org.x.Error", "s", ("no",))
    emitter = jeepney.DBusAddress(
        "/org/freedesktop/login1", interface="org.freedesktop.login1.Manager"
    )
    signal = jeepney.new_signal(emitter, "PrepareForShutdown", "b", (True,))
    made = [message.serialise(serial) for serial, message in enumerate((told, error, signal), 5)]
    return [*made, b"".join(made)]


def bus_message(data: bytes) -> None:
    """Receive what the bus sends, and look at it as logind's word."""

    async def receive() -> None:
        heard: list[tuple[Any, ...]] = []
        bus = SystemBus(lambda *found: heard.append(found), lambda: None)
        bus._jeepney, bus._fds, bus._parser = jeepney, jeepney.fds, jeepney.Parser()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        bus._socket = ours
        answer: asyncio.Future[tuple[Any, ...]] = asyncio.get_running_loop().create_future()
        bus._waiting[1] = answer
        with theirs:
            theirs.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                theirs.send(data)
        for _ in range(len(data) + 2):
            if bus.ended:
                break
            bus._readable()
        assert bus.ended, "the end of the connection was not seen"
        if answer.exception() is None:
            await _look(answer.result())

    run(receive())


async def _look(body: Any) -> None:
    """Look at an answer to GetAll as the sensor does."""

    class Bus:
        async def call(self, *_: object) -> Any:
            return body

    with contextlib.suppress(*FAILURES):
        await LogindSensor()._looked(cast("SystemBus", Bus()))


def logind_answer(data: bytes) -> None:
    """Look at an answer of whatever shape: JSON stands for what D-Bus can carry."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return

    run(_look(tuple(body) if isinstance(body, list) else (body,)))


VISITS = helper.asked([helper.Visit("/proc/1/ns/net", 5, ("tcp_keepalive_time",), {}, True)])
VISITED = [
    {"inode": 5, "path": "/x", "error": "", "values": {"a": 1}, "before": {}, "errors": {},
     "connections": [[5, 7, "10.0.0.1", 1, "10.0.0.2", 2, 0, 0, 0, 0, 0]]},
]  # fmt: skip


def helper_answer(data: bytes) -> None:
    """Read what a helper process answers, whatever program stands in its place."""
    with scratch.stand_in(inside, "ask", lambda *_, **__: json.loads(data)):
        found = inside.visit([helper.Visit("/proc/1/ns/net", 5)])
    for one in found:
        settled(one.connections or (), one.connections or ())
        repr(one)


def helper_question(data: bytes) -> None:
    """Read what the helper is asked."""
    document = json.loads(data)
    for one in document["visits"]:
        helper._visit_of(one)


DOCUMENTED = (KeyError, TypeError, ValueError, RecursionError)
TARGETS = (
    Target(
        "requests on the control socket",
        ("control.py", "daemon/operator_holds.py"),
        control_requests,
        lambda: REQUESTS,
        json=False,
    ),
    Target(
        "a request on the control socket",
        ("control.py",),
        lambda data: control_requests(data.replace(b"\n", b" ") + b"\n"),
        lambda: [line for text in REQUESTS for line in text.splitlines()],
        json=True,
    ),
    Target(
        "an answer on the control socket",
        ("control.py",),
        control_answer,
        lambda: [b'{"ok":true,"state":{}}\n', b'{"ok":false,"error":"x","busy":true}\n'],
        (LinkholdError, WireError),
    ),
    Target("the message bus", ("sensors/system_bus.py",), bus_message, bus_messages),
    Target(
        "what logind answers",
        ("sensors/logind.py",),
        logind_answer,
        lambda: [
            json.dumps(
                [
                    {
                        "PreparingForShutdown": ["b", False],
                        "ScheduledShutdown": ["(st)", ["reboot", 5]],
                        "InhibitDelayMaxUSec": ["t", 5],
                    }
                ]
            ).encode()
        ],
        json=True,
    ),
    Target(
        "answers of the helper process",
        ("inside/helper.py", "children.py"),
        helper_answer,
        lambda: [json.dumps(VISITED).encode()],
        (Unavailable, ValueError, RecursionError),
        json=True,
    ),
    Target(
        "questions to the helper process",
        ("inside/helper.py",),
        helper_question,
        lambda: [json.dumps(VISITS).encode()],
        (*DOCUMENTED, AttributeError),
        json=True,
    ),
    Target(
        "keys of a terminal",
        ("fleet_view/keys.py", "fleet_view/terminal.py"),
        lambda data: [decode(data, ended=ended) for ended in (False, True)],
        lambda: [b"jk\x1b[A\x1b[5~q", "ä€".encode(), b"\x1bOA\x1b"],
    ),
)
