"""A logind of a test's own on a real dbus-daemon, in a thread."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING, Any

from jeepney import DBusAddress, HeaderFields, MessageType, new_method_return, new_signal
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import open_dbus_connection

from support.broker import TIED_TO_US, wait_until

if TYPE_CHECKING:
    from pathlib import Path

NAME, PATH = "org.freedesktop.login1", "/org/freedesktop/login1"
CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/>
<allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>
"""


class Daemon:
    """One dbus-daemon that listens at ``path``."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bus"
        self._config = folder / "bus.conf"
        self._config.write_text(CONFIG.format(path=self.path), encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Daemon:
        """Start it and wait until it listens."""
        self.path.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [*TIED_TO_US, "dbus-daemon", f"--config-file={self._config}", "--nofork"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self.path.exists, what="dbus-daemon listens")
        return self

    def stop(self) -> None:
        """End it, with every connection."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)
            self._process = None


class FakeLogind:
    """Answers Inhibit and GetAll. ``held`` tells whether somebody holds the delay lock."""

    def __init__(self, daemon: Daemon) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.scheduled: tuple[str, int] = ("", 0)
        self.preparing = False
        self._inner = -1
        self._asker = ""
        self._connection = open_dbus_connection(f"unix:path={daemon.path}", enable_fds=True)
        self._connection.send_and_get_reply(message_bus.RequestName(NAME))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    @property
    def held(self) -> bool:
        """Whether the other end of the lock's pipe is open, which is how logind knows."""
        if self._inner < 0:
            return False
        os.set_blocking(self._inner, False)
        try:
            return os.read(self._inner, 1) != b""
        except BlockingIOError:
            return True

    def prepare(self, *, down: bool, forged: bool = False) -> None:
        """Send PrepareForShutdown; a forged one is not true of logind itself."""
        self.preparing = down and not forged
        emitter = DBusAddress(PATH, interface="org.freedesktop.login1.Manager")
        self._connection.send(new_signal(emitter, "PrepareForShutdown", "b", (down,)))

    def pester(self, path: str) -> None:
        """Send who asked last what any user of the node may send him: signals of every form.

        One is large, one has a body that takes long to read, one a descriptor of ``path``.
        """
        emitter = DBusAddress("/x", interface="a.b")
        values = [("v", ("v", ("ay", b"x"))) for _ in range(20_000)]
        with open(path, "rb") as file:  # noqa: PTH123 - its descriptor is what is sent
            for signature, body in (
                ("ay", (bytes(2 << 20),)),
                ("av", (values,)),
                ("h", (file.fileno(),)),
                ("a{sv}", ({"x": ("d", float("nan"))},)),
            ):
                message = new_signal(emitter, "PrepareForShutdown", signature, body)
                message.header.fields[HeaderFields.destination] = self._asker
                self._connection.send(message)

    def _serve(self) -> None:
        try:
            while True:
                message = self._connection.receive()
                if message.header.message_type is MessageType.method_call:
                    self._answer(message)
        except (OSError, ValueError, EOFError):
            return

    def _answer(self, message: Any) -> None:
        member = message.header.fields[HeaderFields.member]
        if member == "Inhibit":
            self.asked.append(message.body)
            if self._inner >= 0:
                os.close(self._inner)
            self._inner, outer = os.pipe()
            self._connection.send(new_method_return(message, "h", (outer,)))
            os.close(outer)
        elif member == "GetAll":
            self._asker = message.header.fields[HeaderFields.sender]
            values = {
                "PreparingForShutdown": ("b", self.preparing),
                "ScheduledShutdown": ("(st)", self.scheduled),
                "InhibitDelayMaxUSec": ("t", 60_000_000),
            }
            self._connection.send(new_method_return(message, "a{sv}", (values,)))

    def close(self) -> None:
        """Close the connection and the pipe; the daemon must be stopped before."""
        self._thread.join(timeout=5)
        self._connection.close()
        if self._inner >= 0:
            os.close(self._inner)
            self._inner = -1
