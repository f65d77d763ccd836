"""The host's side of the lab: boots the guest and sends it scenarios."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.lab import machine
from support.lab.scenarios import Outcome, Scenario, ScenarioFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from typing_extensions import Self

BOOT_S = 60.0
GRACE_S = 15.0
SHUTDOWN_S = 60.0
CONSOLE_LINES = 40
CONSOLES_KEPT = 10
LOGS = machine.TESTS.parent / "build" / "lab"


_consoles = itertools.count(1)


class GuestGone(Exception):
    """The guest ended or fell silent; the text says which."""


class Lab:
    """A guest kernel that boots at the first scenario and stays for the next ones.

    Use it as a context manager or call :meth:`close`. ``boots`` counts the guests so far.
    """

    def __init__(self, logs: Path = LOGS) -> None:
        self.boots = 0
        self._disk: int | None = None
        self._tap: int | None = None
        self._setup: dict[str, Any] = {}
        self._logs = logs
        self._guest: Guest | None = None

    def run(self, scene: Scenario, **params: Any) -> Outcome:
        """Run a scenario; raise ScenarioFailed unless it came to its end."""
        __tracebackhide__ = True
        outcome = self.attempt(scene, **params)
        if not outcome.ok:
            raise ScenarioFailed(outcome)
        return outcome

    def attempt(self, scene: Scenario, **params: Any) -> Outcome:
        """Run a scenario and return its outcome, good or bad.

        Raises LabUnavailable when no guest can be booted here.
        """
        began = time.monotonic()
        guest = self._guest or self.boot()
        try:
            return Outcome(**_tidy(guest.ask(self._request(scene, params)), scene))
        except GuestGone as gone:
            self.close()
            error = f"{gone}\n--- console, {guest.console} ---\n{guest.last_words()}"
            took = time.monotonic() - began
            return Outcome(_label(scene), "died", error=error, duration_s=took)
        except BaseException:
            self.close()  # interrupted: the guest is still at work on this one
            raise

    def boot(self) -> Guest:
        """Boot a guest now; the first scenario would do it otherwise."""
        machine.check()
        self.close()
        self._logs.mkdir(parents=True, exist_ok=True)
        drop_old_consoles(self._logs)
        self.boots += 1
        console = self._logs / f"console-{os.getpid()}-{next(_consoles)}.log"
        self._guest = Guest(console, self._disk, self._setup, self._tap)
        return self._guest

    def close(self) -> None:
        """End the guest and everything that belongs to it."""
        if self._guest is not None:
            self._guest.close()
            self._guest = None

    @property
    def console(self) -> Path | None:
        """Return the file with what the present guest printed."""
        return self._guest.console if self._guest else None

    def _request(self, scene: Scenario, params: dict[str, Any]) -> dict[str, Any]:
        return {
            "file": scene.file,
            "name": scene.name,
            "modules": scene.modules,
            "timeout_s": scene.timeout_s,
            "params": params,
        }

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        self.close()


class Guest:
    """One running UML kernel with its keeper process and its channel."""

    def __init__(
        self, console: Path, disk: int | None, setup: dict[str, Any], tap: int | None = None
    ) -> None:
        self.console = console
        self._channel, far_end = socket.socketpair()
        self._waiting = b""
        self._numbers = itertools.count(1)
        self.folder = machine.folder_for_memory()
        try:
            (self.folder / "setup.json").write_text(json.dumps(setup), encoding="utf-8")
            with far_end, console.open("wb") as output:
                self._keeper = self._start(far_end.fileno(), output.fileno(), disk, tap)
        except BaseException:
            self._channel.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise
        self._await_ready()

    def _start(
        self, channel: int, output: int, disk: int | None, tap: int | None
    ) -> subprocess.Popen[bytes]:
        keeper = [sys.executable, "-I", "-S", str(machine.HERE / "keeper.py")]
        command = machine.command(self.folder, channel, disk, tap)
        inherited = [one for one in (channel, disk, tap) if one is not None]
        return subprocess.Popen(
            [*keeper, str(self.folder), ",".join(map(str, inherited)), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            pass_fds=inherited,
            start_new_session=True,  # Ctrl-C at the terminal must not end the one who tidies up
        )

    def _await_ready(self) -> None:
        try:
            self._await_line(lambda line: line.startswith(b"ready "), time.monotonic() + BOOT_S)
        except GuestGone as gone:
            self.close()
            raise machine.LabUnavailable(
                f"User-Mode Linux does not boot here: {gone}\n{self.last_words()}"
            ) from None

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put one request and return its answer, or raise GuestGone."""
        number = next(self._numbers)
        question, answer = (self.folder / f"{number}.{kind}" for kind in ("request", "answer"))
        question.write_text(json.dumps(request), encoding="utf-8")
        deadline = time.monotonic() + request["timeout_s"] + GRACE_S
        self._channel.settimeout(GRACE_S)
        try:
            self._channel.sendall(b"%d\n" % number)
        except OSError as error:
            raise GuestGone(f"the guest is gone: {error}") from None
        # A scenario may write the same line, but not the file.
        self._await_line(lambda line: line == b"answer %d" % number and answer.exists(), deadline)
        told: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        question.unlink()
        answer.unlink()
        return told

    def power_off(self) -> None:
        """Shut down in good order, or raise GuestGone when that takes too long."""
        number = next(self._numbers)
        question = self.folder / f"{number}.request"
        question.write_text(json.dumps({"power_off": True}), encoding="utf-8")
        try:
            self._channel.sendall(b"%d\n" % number)
            self._keeper.wait(SHUTDOWN_S)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GuestGone(f"no shutdown: {error}") from None

    def _await_line(self, wanted: Callable[[bytes], bool], deadline: float) -> None:
        """Wait for a line; others are the noise of scenarios."""
        while not wanted(self._line(deadline)):
            pass

    def _line(self, deadline: float) -> bytes:
        while b"\n" not in self._waiting:
            self._channel.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                chunk = self._channel.recv(65536)
            except TimeoutError:
                raise GuestGone("the guest fell silent") from None
            except OSError as error:
                raise GuestGone(f"the guest is gone: {error}") from None
            if not chunk:
                raise GuestGone("the guest is gone")
            self._waiting += chunk
        line, _, self._waiting = self._waiting.partition(b"\n")
        return line

    def last_words(self) -> str:
        """Return the last lines of the console."""
        text = self.console.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-CONSOLE_LINES:])

    def close(self) -> None:
        """Hang up, and wait until the keeper has cleared everything away."""
        self._channel.close()
        if self._keeper.stdin:
            self._keeper.stdin.close()
        self._keeper.wait(GRACE_S)


def _tidy(answer: dict[str, Any], scene: Scenario) -> dict[str, Any]:
    log = tuple(answer.pop("kernel_log", ()))
    return {**answer, "kernel_log": log, "scenario": _label(scene)}


def _label(scene: Scenario) -> str:
    file = Path(scene.file)
    root = machine.TESTS.parent
    shown = file.relative_to(root) if file.is_relative_to(root) else file
    return f"{shown}::{scene.name}"


def drop_old_consoles(folder: Path) -> None:
    """Keep the newest consoles in ``folder``; other processes of the tests do the same at once."""
    for old in sorted(folder.glob("console-*.log"), key=_age)[:-CONSOLES_KEPT]:
        old.unlink(missing_ok=True)


def _age(file: Path) -> float:
    """Return when it was written last; 0 when another process of the tests took it away."""
    try:
        return file.stat().st_mtime
    except FileNotFoundError:
        return 0.0
