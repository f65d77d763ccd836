"""torchrun, as a rank sees it: its agent is ended before the rank ends.

torchrun (torch/distributed/elastic/agent/server/api.py, ``_invoke_run``) takes each exit code but 0
for a failure: with restarts left it starts all ranks again, without it ends with 1. A signal that
its agent handles ends it without a restart (``run()``, ``except SignalException``). The handler
runs before the agent's next look at its ranks, so the order alone decides.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from pathlib import Path

RUN_ID = "TORCHELASTIC_RUN_ID"
SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"
"""Names of the signals that the agent handles (torch/distributed/launcher/api.py)."""
DEFAULT_SIGNALS = "SIGTERM,SIGINT,SIGHUP,SIGQUIT"
MOST_ANCESTORS = 16

_claims: list[socket.socket] = []
"""Kept open until this process ends."""


def find() -> int | None:
    """Return the pid of the torchrun agent that started this rank, None where there is none.

    It is the nearest ancestor that was not itself started as a rank of the same run; a script in
    between (``torchrun --no-python run.sh``) is one. Raises nothing.
    """
    run = os.environ.get(RUN_ID)
    if run is None:
        return None
    pid = os.getppid()
    for _ in range(MOST_ANCESTORS):
        if pid <= 1:
            return None
        environment = _read(pid, "environ")
        if environment is None:
            return None
        if f"{RUN_ID}={run}".encode() not in environment.split(b"\0"):
            return pid if _caught(pid) else None
        pid = _parent(pid)
    return None


def end(pid: int) -> str | None:
    """Ask the agent ``pid`` to end, once among its ranks; return why that failed, if it did.

    This process ignores the signal that the agent passes on to its ranks: it is about to end.
    """
    caught = _caught(pid)
    if not caught:
        return f"process {pid} does not handle {os.environ.get(SIGNALS, DEFAULT_SIGNALS)}"
    for number in caught:
        with contextlib.suppress(ValueError, OSError):  # not the main thread
            signal.signal(number, signal.SIG_IGN)
    if not _claim(pid):
        return None
    try:
        os.kill(pid, caught[0])
    except OSError as error:
        return f"process {pid}: {error.strerror}"
    return None


def _claim(pid: int) -> bool:
    """Tell whether this rank is the one that signals; a second signal would cut the end short."""
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.bind(f"\0linkhold-end-{pid}-{_started(pid)}")
    except OSError:
        sock.close()
        return False
    _claims.append(sock)
    return True


def _caught(pid: int) -> list[signal.Signals]:
    """Return the signals that torchrun is to handle, if ``pid`` handles all of them.

    torchrun does; other programs handle some (Python itself SIGINT), and would die of the rest.
    """
    names = os.environ.get(SIGNALS, DEFAULT_SIGNALS).split(",")
    wanted = [signal.Signals[name.strip()] for name in names if name.strip() in _KNOWN]
    mask = _number(_status(pid).get("SigCgt", "0"), 16)
    return wanted if all(mask >> (number - 1) & 1 for number in wanted) else []


def _parent(pid: int) -> int:
    return _number(_status(pid).get("PPid", "0"), 10)


def _number(text: str, base: int) -> int:
    """Return a number of /proc, 0 for what is none."""
    try:
        return int(text, base)
    except ValueError:
        return 0


def _started(pid: int) -> str:
    """Return the start time of a process in clock ticks: pid and it are no other process."""
    content = (_read(pid, "stat") or b"").rpartition(b")")[2].split()
    return content[19].decode(errors="replace") if len(content) > 19 else ""  # noqa: PLR2004 - field 22, proc(5)


def _status(pid: int) -> dict[str, str]:
    content = (_read(pid, "status") or b"").decode(errors="replace")
    pairs = (line.partition(":") for line in content.splitlines())
    return {name: value.strip() for name, _, value in pairs}


def _read(pid: int, name: str) -> bytes | None:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return None


_KNOWN = signal.Signals.__members__
