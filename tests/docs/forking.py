"""Runs many calls of ``linkhold`` in one interpreter that forks for each: a start costs 0.3 s.

Reads a JSON list of calls on stdin, ``{"argv", "close", "full"}``, and answers with a list of how
each ended: ``{"code", "out", "err"}``. ``close`` names the streams that the caller has closed,
``full`` says that the disk of stdout is.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import time
import traceback
from typing import Any, NoReturn

from linkhold import cli
from linkhold.__main__ import main

LIMIT_S = 20.0
STREAMS = ("stdin", "stdout", "stderr")


def run(call: dict[str, Any]) -> dict[str, Any]:
    """Run one call to its end and say how that was; one that hangs is killed."""
    out_read, out = os.pipe()
    err_read, err = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(call, out, err)
    os.close(out)
    os.close(err)
    said = _listen(pid, {out_read: b"", err_read: b""})
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return {"code": code, "out": os.fsdecode(said[out_read]), "err": os.fsdecode(said[err_read])}


def _listen(pid: int, said: dict[int, bytes]) -> dict[int, bytes]:
    poll = select.poll()
    for descriptor in said:
        poll.register(descriptor, select.POLLIN)
    began_s, open_ = time.monotonic(), set(said)
    while open_:
        for descriptor, _ in poll.poll(100):
            chunk = os.read(descriptor, 1 << 16)
            said[descriptor] = (said[descriptor] + chunk)[: 1 << 20]
            if not chunk:
                poll.unregister(descriptor)
                os.close(descriptor)
                open_.discard(descriptor)
        if time.monotonic() - began_s > LIMIT_S:
            os.kill(pid, signal.SIGKILL)
    return said


def _become(call: dict[str, Any], out: int, err: int) -> NoReturn:
    """Be a process that a shell has just started."""
    code = 70
    try:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open("/dev/full", os.O_WRONLY) if call.get("full") else out, 1)
        os.dup2(err, 2)
        os.closerange(3, 64)
        _open_streams(call.get("close", ()))
        sys.argv = ["linkhold", *call["argv"]]
        try:
            code = main()
        except BaseException:  # noqa: BLE001 - what the interpreter would show
            traceback.print_exc()
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.write(2, b"Exception ignored in: <stdout>\n")
    finally:
        os._exit(code)


def _open_streams(closed: tuple[str, ...]) -> None:
    """Make what Python makes of its three descriptors at its start; a closed one is None."""
    for descriptor, name in enumerate(STREAMS):
        if name in closed:
            os.close(descriptor)
            setattr(sys, name, None)
        else:
            mode, lines = ("w" if descriptor else "r"), (1 if name == "stderr" else -1)
            setattr(sys, name, open(descriptor, mode, lines, errors="surrogateescape"))  # noqa: PTH123, SIM115


if __name__ == "__main__":
    for _, module in cli.COMMANDS.values():
        importlib.import_module(module)
    json.dump([run(call) for call in json.load(sys.stdin)], sys.stdout)
