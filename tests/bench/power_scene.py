"""Sources of power and notices for benches: a upsd, sensors on the fleet's broker, Azure."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from support.broker import free_port
from support.metadata_server import Asked, Threaded, Told

if TYPE_CHECKING:
    from typing_extensions import Self

    from bench.rig import Rig

ADDRESS = "169.254.169.254"
VARIABLES = tuple(f'battery.other.{n} "{n}"' for n in range(40))
"""A UPS tells of some fifty variables."""
NO_EVENTS = '{"DocumentIncarnation":1,"Events":[]}'


class Upsd:
    """Tells ``status`` of one UPS called ``u``, line by line as upsd does; a thread for each."""

    def __init__(self) -> None:
        self.status = "OL"
        self.port = free_port()
        self._socket = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connected, _ = self._socket.accept()
                threading.Thread(target=self._talk, args=(connected,), daemon=True).start()

    def _talk(self, connected: socket.socket) -> None:
        with suppress(OSError), connected, connected.makefile("rwb") as stream:
            while command := stream.readline().decode().strip():
                stream.write(self._answer(command))
                stream.flush()

    def _answer(self, command: str) -> bytes:
        told = {"ups.status": self.status, "battery.charge": "100", "battery.runtime": "1800"}
        values = [f'{name} "{value}"' for name, value in told.items()]
        if command.startswith("GET VAR u "):
            name = command.rpartition(" ")[2]
            return f'VAR u {name} "{told.get(name, "")}"\n'.encode()
        lines = [f"VAR u {line}" for line in (*VARIABLES, *values)]
        return "\n".join(("BEGIN LIST VAR u", *lines, "END LIST VAR u", "")).encode()

    def close(self) -> None:
        """Listen no more."""
        self._socket.close()


class Scene:
    """All sources in a rig's namespace, where the fleet's broker runs already.

    ``spot``: whether the machine is one that Azure may preempt, so that it is asked each second.
    """

    def __init__(self, rig: Rig, *, spot: bool = True) -> None:
        self._rig = rig
        self.spot = spot

    def __enter__(self) -> Self:
        self._rig.namespace.ip(f"addr add {ADDRESS}/32 dev lo")
        with self._rig.namespace.enter():
            self.upsd = Upsd()
            self.azure = Threaded(self._answer, ADDRESS)
            # The thread inherits the namespace of the one that starts it.
            self.azure.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.azure.__exit__()
        self.upsd.close()

    def _answer(self, asked: Asked) -> Told:
        if "instance/compute" in asked.path:
            priority = "Spot" if self.spot else "Regular"
            return Told(body=f'{{"name": "vm-1", "priority": "{priority}"}}')
        return Told(body=NO_EVENTS, headers={"Content-Type": "application/json; charset=utf-8"})


def nut(upsd: Upsd) -> str:
    """Return the entry of ``power:`` for the UPS."""
    return f"nut: [{{name: ups, ups: u, port: {upsd.port}}}]"


def sensors() -> str:
    """Return the entry of ``power:`` for two ESP32s."""
    esp = "{{name: s{0}, topics: [m/{0}], status_topic: w/{0}, max_age: 90s}}"
    return f"mqtt: [{esp.format(1)}, {esp.format(2)}]"
