"""A real upsd with dummy-ups drivers, of a test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from support.broker import TIED_TO_US, free_port, wait_until

if TYPE_CHECKING:
    from pathlib import Path

UPSD = "/lib/nut/upsd"  # the one in /usr/sbin is a wrapper that asks /etc/nut whether it may
DRIVER = "/lib/nut/dummy-ups"
VALUES = {"battery.charge": "100", "battery.charge.low": "10", "battery.runtime": "1800"}


class Nut:
    """One upsd in ``folder``; each UPS reads ``<name>.dev``, which :meth:`set` writes."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.folder, self.names = folder, names
        self.port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        # Drivers and upsd as nobody else than who runs the tests: NUT's own user may not exist.
        self._env = {**os.environ, "NUT_CONFPATH": str(folder), "NUT_STATEPATH": str(folder),
                     "NUT_ALTPIDPATH": str(folder)}  # fmt: skip
        sections = (
            f"[{n}]\ndriver = dummy-ups\nport = {n}.dev\nmode = dummy-loop\n" for n in names
        )
        lines = [f"LISTEN 127.0.0.1 {self.port}", "MAXAGE 3", f"STATEPATH {folder}"]
        self._write("ups.conf", "maxretry = 1\n" + "".join(sections))
        self._write("upsd.conf", "\n".join(lines) + "\n")
        self._write("upsd.users", "[trainer]\npassword = secret\nupsmon secondary\n")
        self._write("nut.conf", "MODE=standalone\n")
        for name in names:
            self.set(name, "OL")

    def _write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.touch(mode=0o640)
        path.write_text(text, encoding="utf-8")

    def set(self, name: str, status: str, **values: str) -> None:
        """Let a UPS say something else; dummy-ups reads its file again within its poll."""
        figures = VALUES | {key.replace("_", "."): value for key, value in values.items()}
        text = f"ups.status: {status}\n" + "".join(f"{k}: {v}\n" for k, v in figures.items())
        temporary = self.folder / f"{name}.new"
        temporary.write_text(text + "TIMER 1\n", encoding="utf-8")
        temporary.replace(self.folder / f"{name}.dev")

    def start(self) -> Nut:
        """Start drivers and upsd, and wait until it listens."""
        for name in self.names:
            self._run(name, DRIVER, "-a", name, "-i", "1", "-u", "root", "-FF")
            wait_until((self.folder / f"dummy-ups-{name}").exists, what=self.log())
        self._run("upsd", UPSD, "-FF", "-u", "root")
        wait_until(lambda: "listening on" in self.log(), what=self.log())
        return self

    def _run(self, name: str, *argv: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [*TIED_TO_US, *argv], env=self._env, stdout=log, stderr=log, cwd=self.folder
            )

    def kill(self, name: str) -> None:
        """End one of them: a driver by its UPS's name, or ``upsd``."""
        process = self._processes.pop(name)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)

    def restart_server(self) -> None:
        """Start upsd again on the same port."""
        (self.folder / "upsd.log").unlink()
        time.sleep(0.1)
        self._run("upsd", UPSD, "-FF", "-u", "root")

    def stop(self) -> None:
        """End all that was started."""
        for name in list(self._processes):
            self.kill(name)

    def log(self) -> str:
        """Return what they printed."""
        return "".join(path.read_text(errors="replace") for path in self.folder.glob("*.log"))
