"""What it costs to cover a thousand sockets: by the client in its process, and from outside."""

from __future__ import annotations

import logging
import os
import socket
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.audit_scene import SPARE_FDS, raise_limit
from bench.rig import Impossible
from bench.rows import Row, row
from linkhold.actuators import cover as outside
from linkhold.client import cover as inside
from linkhold.client.voice import Voice
from linkhold.model.cover import Exclusions, timers_for
from linkhold.model.jobs import TrainingProcess
from support.forgetful import started
from support.netns import Namespace, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOCKETS, QUICK_SOCKETS = 1000, 200
REPEATS = 20
AGENT_PERIOD_S = 10
MOST_MS = 60
"""CPU a minute: what a whole idle agent may take."""


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure first looks, and then what a minute costs while nothing changes."""
    count = QUICK_SOCKETS if quick else SOCKETS
    reason = missing()
    if reason:
        raise Impossible(reason)
    raise_limit(2 * count + SPARE_FDS)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        _connections(stack, count)
        agent = outside.Cover(folder)
        process = TrainingProcess(os.getpid(), started(os.getpid()), 0, "bench", ())

        def from_outside() -> int:
            return agent.scan([process], timers_for(None), Exclusions()).counts["covered"]

        yield from _scene("from outside", from_outside, count, AGENT_PERIOD_S)
        assert agent.restore().restored == count
        quiet = logging.getLogger("bench.cover")
        quiet.disabled = True
        client = inside.Cover(Exclusions(), lambda: None, Voice(quiet))
        yield from _scene(
            "by the client", lambda: client.scan()["covered"], count, inside.PERIOD_NS / 1e9
        )


def _scene(what: str, scan: Callable[[], int], count: int, period_s: float) -> Iterator[Row]:
    yield row(f"cover {what}: first look at {count} sockets", "ms", _cpu_ms(scan, count))
    once_ms = sum(_cpu_ms(scan, count) for _ in range(REPEATS)) / REPEATS
    a_minute = f"cover {what}: CPU a minute, {count} sockets, every {period_s:g} s"
    yield row(a_minute, "ms", once_ms * 60 / period_s, most=MOST_MS)


def _cpu_ms(scan: Callable[[], int], count: int) -> float:
    began_s = time.thread_time()
    assert scan() == count
    return (time.thread_time() - began_s) * 1e3


def _connections(stack: ExitStack, count: int) -> None:
    """Open ``count`` sockets that leave their namespace, both ends in this process."""
    near, far = (stack.enter_context(Namespace()) for _ in range(2))
    near.veth("e0", "e1", other=far)
    near.ip("addr add 10.96.0.1/24 dev e0")
    far.ip("addr add 10.96.0.2/24 dev e1")
    with far.enter():
        server = stack.enter_context(socket.create_server(("10.96.0.2", 0), backlog=64))
    with near.enter():
        for _ in range(count // 2):
            stack.enter_context(socket.create_connection(server.getsockname()))
            stack.enter_context(server.accept()[0])
