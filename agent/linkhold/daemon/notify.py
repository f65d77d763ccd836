"""What the agent tells systemd: ready, reloading, stopping, alive, and how the node is.

sd_notify(3) is a datagram to the socket that ``NOTIFY_SOCKET`` names; no library is needed. Where
systemd did not start us nothing is sent. The watchdog is fed by a timer of the agent's loop and by
nothing else: a sensor, a leg or a disk that hangs is a field of the state, and only a loop that no
longer turns has systemd end and start the agent again.
"""

from __future__ import annotations

import os
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from linkhold.model import NodeState

FEEDS_PER_TIMEOUT = 3
"""How often the watchdog is fed within its time: sd_watchdog_enabled(3) says twice or more."""


class Service:
    """The agent as a service of systemd. All methods belong to the loop's thread; none waits."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._loop = loop
        self._address = _address(environment.get("NOTIFY_SOCKET", ""))
        self._feed_s = watchdog_s(environment, os.getpid()) / FEEDS_PER_TIMEOUT
        self._timer: asyncio.TimerHandle | None = None
        self._status = ""

    def ready(self, state: NodeState) -> None:
        """Say that the first state is out, and begin to feed the watchdog."""
        self._tell("READY=1")
        self.show(state)
        self._feed()

    def reloading(self) -> None:
        """Say that the configuration is read again; :meth:`reloaded` must follow."""
        # With MONOTONIC_USEC= this is also what Type=notify-reload (systemd 253) wants.
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """Say that the configuration has been read, or refused."""
        self._tell("READY=1")

    def show(self, state: NodeState) -> None:
        """Show how the node is in ``systemctl status``, if that has changed."""
        text = status_line(state)
        if text != self._status:
            self._status = text
            self._tell(f"STATUS={text}")

    def stopping(self) -> None:
        """Say that the agent ends; the watchdog is fed no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._tell("STOPPING=1")

    def _feed(self) -> None:
        if self._feed_s:
            self._tell("WATCHDOG=1")
            self._timer = self._loop.call_later(self._feed_s, self._feed)

    def _tell(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(text.encode(), self._address)
        except OSError:
            # systemd does not read, or is being replaced: the next word comes in seconds. The
            # agent serves training with and without it.
            return


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


def status_line(state: NodeState) -> str:
    """Return how the node is on one line, for people."""
    agent, alerts = state.agent, len(state.alerts)
    parts = [
        f"network {state.network.value}, power {state.power.state.value}",
        f"{alerts} alert{'s' if alerts != 1 else ''}" if alerts else "no alerts",
        f"leg A {agent.leg_a}, leg B {agent.leg_b}, outbox {agent.outbox}",
    ]
    return " ".join("; ".join(parts).split())
