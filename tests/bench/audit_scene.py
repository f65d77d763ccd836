"""What an audit of ten thousand sockets takes, in a namespace of its own, beside ``ss``."""

from __future__ import annotations

import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench.rig import Impossible
from bench.rows import Row, row
from support.netns import Namespace, missing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOCKETS, QUICK_SOCKETS = 10_000, 2_000
REPEATS = 5
MOST_MS = 2000
SPARE_FDS = 200
ADDRESS = ("127.0.0.1", 7001)
# In a process of its own, so that the namespace has an inhabitant and our limits stay ours.
HOLDER = "import bench.audit_scene as scene; scene.hold({count})"


def hold(count: int) -> None:
    """Open ``count`` sockets, every second one with SO_KEEPALIVE, say so, and keep them."""
    with socket.create_server(ADDRESS, backlog=64) as listener:
        kept = []
        for number in range(count // 2):
            near = socket.create_connection(ADDRESS)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, number % 2)
            kept += [near, listener.accept()[0]]
        print("ready", flush=True)
        sys.stdin.read()


def rows(*, quick: bool) -> Iterator[Row]:
    """Measure the command as a person runs it, and the same list by ``ss``."""
    count = QUICK_SOCKETS if quick else SOCKETS
    reason = missing()
    if reason:
        raise Impossible(reason)
    raise_limit(count + SPARE_FDS)
    with Namespace() as namespace:
        code = HOLDER.format(count=count)
        process = subprocess.Popen(
            namespace.command(sys.executable, "-c", code),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)},
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield from _measured(namespace, process.pid, count)
        finally:
            process.kill()
            process.communicate()


def _measured(namespace: Namespace, pid: int, count: int) -> Iterator[Row]:
    audit = [sys.executable, "-m", "linkhold", "keepalive", "audit", "--json"]
    for what, scope in (("--pid", ["--pid", str(pid)]), ("--all", ["--all"])):
        took_ms = median(_took_ms(lambda s=scope: _audit([*audit, *s], count)))  # type: ignore[misc]
        yield row(f"audit {what} of {count} sockets", "ms", took_ms, most=MOST_MS)
    if shutil.which("ss"):
        command = namespace.command("ss", "-tnpoHO")
        took_ms = median(_took_ms(lambda: subprocess.check_output(command)))
        yield row(f"ss -tnpo of {count} sockets (no verdicts)", "ms", took_ms)


def _took_ms(call: Callable[[], object]) -> Iterator[float]:
    for _ in range(REPEATS):
        began = time.perf_counter()
        call()
        yield (time.perf_counter() - began) * 1e3


def _audit(command: list[str], count: int) -> None:
    seen = len(json.loads(subprocess.check_output(command))["connections"])
    assert seen >= count, f"the audit lists {seen} of {count} sockets"


def raise_limit(wanted: int) -> None:
    """Allow so many open files; raises :class:`Impossible` where that may not be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise Impossible(f"needs {wanted} open files, the limit here is {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
