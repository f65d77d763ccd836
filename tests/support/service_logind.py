"""The agent's delay lock on a real logind, in a guest with systemd."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import scenario
from support.serviced import await_service, say, shown, state
from support.topology import wait_until

if TYPE_CHECKING:
    from support.lab import Box

UNITS = Path("/run/systemd/system")
MASK = UNITS / "systemd-logind.service"
NO_REBOOT = UNITS / "reboot.target"
SAVING_S = 2.0
TRAINER = f"""
import sys, time
from linkhold.client import Hold
with Hold.connect() as hold:
    print("listens", flush=True)
    for step in range(600):
        hold.step(step)
        if hold.stop_due:
            time.sleep({SAVING_S})
            hold.exit()
        time.sleep(0.1)
"""


@scenario(timeout_s=120)
def delays_a_reboot(box: Box) -> dict[str, Any]:
    """Ask logind for a reboot while training runs, of a machine whose reboot does nothing."""
    MASK.unlink()
    NO_REBOOT.write_text("[Unit]\nDescription=Nothing\nDefaultDependencies=no\n", encoding="ascii")
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    try:
        subprocess.run(["systemctl", "start", "systemd-logind"], check=True)
        subprocess.run(["systemctl", "restart", "linkhold"], check=True)
        await_service()
        return _asks_for_a_reboot()
    finally:
        say("systemctl", "stop", "reboot.target", "systemd-logind")
        NO_REBOOT.unlink()
        MASK.symlink_to("/dev/null")
        subprocess.run(["systemctl", "daemon-reload"], check=True)


def _asks_for_a_reboot() -> dict[str, Any]:
    wait_until(lambda: "linkhold" in _locks(), "the delay lock", timeout_s=20)
    training = {**os.environ, "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "x"}
    with subprocess.Popen(
        [sys.executable, "-c", TRAINER], env=training, stdout=subprocess.PIPE
    ) as trainer:
        assert trainer.stdout is not None
        assert trainer.stdout.readline() == b"listens\n"
        found: dict[str, Any] = {"locks": _locks()}
        subprocess.run(["systemctl", "reboot"], check=True)
        wait_until(lambda: state()["notices"], "a notice", timeout_s=10)
        found |= {"notice": state()["notices"][0], "waits": shown("reboot.target", "ActiveState")}
        found["code"] = trainer.wait(30)
    ended_s = time.monotonic()
    with suppress(TimeoutError):
        wait_until(lambda: shown("reboot.target", "ActiveState") == "active", "", timeout_s=10)
    found["goes_on_s"] = time.monotonic() - ended_s
    wait_until(lambda: not state()["notices"], "withdrawn, as it did not happen", timeout_s=20)
    wait_until(lambda: "linkhold" in _locks(), "the lock is taken again", timeout_s=20)
    return found


def _locks() -> str:
    """Return who holds up a shutdown."""
    return say("systemd-inhibit", "--list", "--no-legend", "--no-pager")
