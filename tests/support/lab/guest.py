"""The guest's end: takes requests from the host and answers them, one after the other.

It is PID 1 of the plain guest and a service of a guest with systemd.

The serial line carries numbers only; requests and answers are files in a folder of the host,
since UML's line driver loses its wake-up now and then when more than 4 KiB arrive at once.

A scenario's module is imported once and here, so that each run costs a fork and no import.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import traceback
import tty
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import cell, scenarios

if TYPE_CHECKING:
    from collections.abc import Iterator

POWER_OFF = 0x4321FEDC
# `systemctl poweroff` would ask logind, which does not run.
SHUT_DOWN = (
    *("systemctl", "start", "--no-block", "--job-mode=replace-irreversibly"),
    "poweroff.target",
)
EXCHANGE = Path("/run/exchange")
_loaded: set[str] = set()


def main() -> None:
    """Serve until the host hangs up, then switch the machine off."""
    channel = os.open("/dev/ttyS0", os.O_RDWR | os.O_NOCTTY)
    tty.setraw(channel)
    _send(channel, f"ready {os.uname().release}")
    for number in _lines(channel):
        request = json.loads((EXCHANGE / f"{number}.request").read_text(encoding="utf-8"))
        if request.get("power_off"):
            subprocess.run(SHUT_DOWN, check=True)
            continue
        _leave(json.dumps(_answer(request)), EXCHANGE / f"{number}.answer")
        _send(channel, f"answer {number}")
        _bury_orphans()


def _answer(request: dict[str, Any]) -> cell.Answer:
    try:
        _load(request["modules"])
        scene = scenarios.find(request["file"], request["name"])
        run = cell.run if os.getpid() == 1 else cell.run_here
        return run(scene, request["params"], request["timeout_s"])
    except BaseException as error:  # noqa: BLE001 - the guest answers whatever happens
        return {"status": "error", "error": cell.describe(error)}


def _load(modules: list[str]) -> None:
    wanted = [name for name in modules if name not in _loaded]
    if wanted:
        done = subprocess.run(
            ["/run/m/modprobe", "-a", *wanted], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"the guest's kernel has not all of {wanted}: {done.stderr}")
        _loaded.update(wanted)


def _leave(text: str, path: Path) -> None:
    """Write a file that is whole as soon as it has its name."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.rename(path)


def _lines(channel: int) -> Iterator[str]:
    waiting = b""
    with suppress(OSError):  # EIO: the host hung up
        while chunk := os.read(channel, 4096):
            *lines, waiting = (waiting + chunk).split(b"\n")
            yield from (line.decode() for line in lines)


def _send(channel: int, line: str) -> None:
    # The leading newline ends whatever a scenario may have written to the line.
    os.write(channel, f"\n{line}\n".encode())


def _bury_orphans() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    try:
        main()
    except BaseException:  # noqa: BLE001 - on the console, before the machine is gone
        traceback.print_exc()
    if os.getpid() == 1:
        ctypes.CDLL(None).reboot(POWER_OFF)
