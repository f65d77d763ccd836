"""What a service tells systemd: sd_notify(3) is a datagram to the socket of ``NOTIFY_SOCKET``.

No library is needed for it. Where systemd did not start us nothing is sent.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

FEEDS_PER_TIMEOUT = 3
"""How often the watchdog is fed within its time: sd_watchdog_enabled(3) says twice or more."""


class Systemd:
    """The way to systemd. Nothing here waits; ``feed_s`` is 0 without a watchdog."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self.feed_s = watchdog_s(environment, os.getpid()) / FEEDS_PER_TIMEOUT

    def tell(self, text: str) -> None:
        """Send words such as ``READY=1``; what cannot be sent is dropped."""
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), self._address)
        except OSError:
            # systemd does not read, or is being replaced: the next word comes in seconds. The
            # service serves with and without it.
            return


class Turns:
    """Tells systemd that a loop turns: ready at the first turn, alive as often as is due."""

    def __init__(self, systemd: Systemd) -> None:
        self._systemd = systemd
        self._feed_at_s: float | None = None

    def turn(self) -> None:
        """Call this at each turn of the loop, and nowhere else."""
        now_s = time.monotonic()
        if self._feed_at_s is None:
            self._systemd.tell("READY=1")
        elif not self._systemd.feed_s or now_s < self._feed_at_s:
            return
        else:
            self._systemd.tell("WATCHDOG=1")
        self._feed_at_s = now_s + self._systemd.feed_s

    def end(self) -> None:
        """Say that the service ends."""
        self._systemd.tell("STOPPING=1")


def _address(name: str) -> str:
    """Return the address of the socket ``name``; an @ stands for the abstract namespace."""
    if name.startswith("@"):
        return "\0" + name[1:]
    return name if name.startswith("/") else ""


def watchdog_s(environment: Mapping[str, str], pid: int) -> float:
    """Return the watchdog's time in seconds, 0 where there is none for this process.

    As sd_watchdog_enabled(3): ``WATCHDOG_USEC``, unless ``WATCHDOG_PID`` names another process.
    """
    if environment.get("WATCHDOG_PID", str(pid)) != str(pid):
        return 0.0
    text = environment.get("WATCHDOG_USEC", "")
    return int(text) / 1e6 if text.isascii() and text.isdigit() else 0.0
