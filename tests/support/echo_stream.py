"""A TCP connection from node to gateway that asks and answers all the time: how long it waits."""

from __future__ import annotations

import os
import select
import socket
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING

from support.lab.kernel import inside

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

PORT = 9960
PERIOD_S = 0.01
PATIENCE_S = 10.0
HERE = "/proc/thread-self/ns/net"


class EchoStream:
    """One connection to ``address`` of ``gateway``, an echo each 10 ms, while the ``with`` lasts.

    ``worst_ms`` is then the longest wait for an answer, ``echoes`` how many came back. A
    connection that breaks or waits longer than 10 s has ``worst_ms`` infinite.
    """

    worst_ms: float
    echoes: int

    def __init__(self, gateway: str, address: str) -> None:
        self._gateway, self._address = gateway, address

    def __enter__(self) -> Self:
        result, tell_result = os.pipe()
        stop, tell_stop = os.pipe()
        with inside(f"/run/netns/{self._gateway}"):
            listener = socket.create_server((self._address, PORT), reuse_port=True)
        client = socket.create_connection((self._address, PORT), timeout=PATIENCE_S)
        server = listener.accept()[0]
        listener.close()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(tell_stop)
            _child(client, server, stop, tell_result)
        for one in (client, server):
            one.close()
        os.close(stop)
        os.close(tell_result)
        self._result, self._stop = result, tell_stop
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None:
        os.close(self._stop)
        with os.fdopen(self._result, encoding="ascii") as file:
            worst, count = file.read().split() or ("inf", "0")
        os.waitpid(self._pid, 0)
        self.worst_ms, self.echoes = round(float(worst), 1), int(count)


def _child(client: socket.socket, server: socket.socket, stop: int, result: int) -> None:
    """Be both ends, so that no second process has to be scheduled for an answer."""
    worst_s, count = 0.0, 0
    try:
        with suppress(OSError):
            os.nice(-5)
        while not select.select([stop], [], [], PERIOD_S)[0]:
            worst_s = max(worst_s, _echo(client, server))
            count += 1
    except OSError:
        worst_s = float("inf")
    finally:
        os.write(result, f"{worst_s * 1000} {count}".encode())
        os._exit(0)


def _echo(client: socket.socket, server: socket.socket) -> float:
    began = time.monotonic()
    for sender, receiver in ((client, server), (server, client)):
        sender.sendall(b"echo")
        if not select.select([receiver], [], [], PATIENCE_S)[0]:
            raise TimeoutError("no echo")
        receiver.recv(16)
    return time.monotonic() - began
