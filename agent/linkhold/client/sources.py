"""Where states come from: the node's own broker, and the state file beside it.

Both answer with bytes and keep no opinion. Paths are opened anew each time: the run folder may
appear later or become another mount.
"""

from __future__ import annotations

import random
import secrets
import stat
from typing import TYPE_CHECKING

from linkhold.client import fork
from linkhold.model import BrokerError
from linkhold.wire import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from linkhold.mqtt import Connection, Notice

STATE_FILTER = f"{ROOT}/+/+/state"
KEEPALIVE_S = 10
CONNACK_S = 10.0
SILENT_S = 20.0
"""A connection that carries no state for so long is made anew; heartbeats come every 5 s."""
LONGEST_PAUSE_S = 5.0
FROZEN_PAUSE_S = 30.0
"""Longest pause towards a broker that accepts and never answers: each try fills its backlog."""
MAX_FILE_BYTES = (1 << 20) + 1

_dice = random.SystemRandom()  # never the global generator: training runs are seeded


def prepare() -> None:
    """Import what the listening thread needs; importing the client alone stays cheap."""
    fork.import_whole("linkhold.mqtt")


class FileSource:
    """The state file, read when it is another one than the last time."""

    def __init__(self) -> None:
        self._last: tuple[object, ...] = ()

    def read(self, path: Path) -> bytes | None:
        """Return the file's bytes if it changed since the last call, else None."""
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                return None
            look = (path, found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if look == self._last:
                return None
            with path.open("rb") as file:
                content = file.read(MAX_FILE_BYTES)
        except OSError:
            self._last = ()
            return None
        self._last = look
        return content


class BrokerSource:
    """One subscription to the node's broker, made again after each loss, by one thread."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._count = count
        self._connection: Connection | None = None
        self._failures = 0
        self._frozen = False
        self._due_ns = 0
        self._tried: tuple[int, int] | None = None
        self._accepted = False
        self._heard_ns = 0
        self.speaking = False
        """Whether this very connection has delivered a state."""

    @property
    def open(self) -> bool:
        """Whether there is a connection, accepted or not."""
        return self._connection is not None

    def connect(self, path: Path, now_ns: int) -> None:
        """Open a connection to the socket at ``path`` if there is one and it is time to."""
        try:
            found = path.stat()
        except OSError:
            self._tried = None
            return
        identity = (found.st_dev, found.st_ino)
        if identity != self._tried:  # a new broker: the pause belonged to the old one
            self._failures, self._frozen, self._tried = 0, False, identity
            self._due_ns = now_ns
        if now_ns < self._due_ns:
            return
        self._open(path, now_ns)

    def poll(self, timeout_s: float, now_ns: int) -> list[bytes]:
        """Wait at most ``timeout_s`` and return the states that came."""
        connection = self._connection
        if connection is None:
            return []
        payloads: list[bytes] = []
        for notice in connection.service(timeout_s):
            self._digest(connection, notice, payloads)
        if payloads:
            self._heard_ns, self.speaking, self._failures = now_ns, True, 0
        self._check_silence(connection, now_ns)
        return payloads

    def drop(self, now_ns: int) -> None:
        """Give the connection up and pause before the next one."""
        connection, self._connection = self._connection, None
        self.speaking = self._accepted = False
        if connection is not None:
            connection.abandon()
            self._pause(now_ns)

    def close(self) -> None:
        """Say goodbye to the broker. Never blocks."""
        if self._connection is not None:
            self._connection.close()

    def abandon(self) -> None:
        """Close a forked child's copy of the socket; the parent's connection lives on."""
        if self._connection is not None:
            self._connection.abandon()

    def _open(self, path: Path, now_ns: int) -> None:
        from linkhold.mqtt import Connection  # noqa: PLC0415 - see prepare()

        self._count("connects")
        with fork.no_fork():
            connection = Connection(
                f"linkhold-client-{secrets.token_hex(6)}", keepalive_s=KEEPALIVE_S, unix=True
            )
            self._connection = connection
            try:
                connection.open_unix(path)
            except BrokerError:
                self.drop(now_ns)
                return
        self._heard_ns = now_ns

    def _digest(self, connection: Connection, notice: Notice, payloads: list[bytes]) -> None:
        from linkhold import mqtt  # noqa: PLC0415 - see prepare()

        if isinstance(notice, mqtt.Received):
            payloads.append(notice.payload)
        elif isinstance(notice, mqtt.Connected):
            self._accepted, self._frozen = True, False
            connection.subscribe(STATE_FILTER)
        elif isinstance(notice, mqtt.Subscribed) and max(notice.codes) >= mqtt.CODE_FAILURE:
            self._count("subscription_refused")
            connection.close()

    def _check_silence(self, connection: Connection, now_ns: int) -> None:
        silent_s = (now_ns - self._heard_ns) / 1e9
        if not self._accepted and silent_s > CONNACK_S:
            self._frozen = True
            self.drop(now_ns)
        elif connection.ended or silent_s > SILENT_S:
            self.drop(now_ns)

    def _pause(self, now_ns: int) -> None:
        self._failures = min(self._failures + 1, 10)
        longest = FROZEN_PAUSE_S if self._frozen else LONGEST_PAUSE_S
        pause_s = _dice.uniform(0.2, min(longest, 0.2 * 2**self._failures))
        self._due_ns = now_ns + int(pause_s * 1e9)
