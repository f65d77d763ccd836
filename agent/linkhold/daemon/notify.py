"""What the agent tells systemd: ready, reloading, stopping, alive, and how the node is.

The watchdog is fed by a timer of the agent's loop and by nothing else: a sensor, a leg or a disk
that hangs is a field of the state, and only a loop that no longer turns has systemd end and start
the agent again.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from linkhold.sd_notify import Systemd
from linkhold.wire.legible import one_line

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Mapping

    from linkhold.model import NodeState


class Service:
    """The agent as a service of systemd. All methods belong to the loop's thread; none waits."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, environment: Mapping[str, str] = os.environ
    ) -> None:
        self._loop = loop
        self._systemd = Systemd(environment)
        self._timer: asyncio.TimerHandle | None = None
        self._status = ""

    def ready(self, state: NodeState) -> None:
        """Say that the first state is out, and begin to feed the watchdog."""
        self._systemd.tell("READY=1")
        self.show(state)
        self._feed()

    def reloading(self) -> None:
        """Say that the configuration is read again; :meth:`reloaded` must follow."""
        # With MONOTONIC_USEC= this is also what Type=notify-reload (systemd 253) wants.
        self._systemd.tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def reloaded(self) -> None:
        """Say that the configuration has been read, or refused."""
        self._systemd.tell("READY=1")

    def show(self, state: NodeState) -> None:
        """Show how the node is in ``systemctl status``, if that has changed."""
        text = status_line(state)
        if text != self._status:
            self._status = text
            self._systemd.tell(f"STATUS={text}")

    def stopping(self) -> None:
        """Say that the agent ends; the watchdog is fed no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._systemd.tell("STOPPING=1")

    def _feed(self) -> None:
        if self._systemd.feed_s:
            self._systemd.tell("WATCHDOG=1")
            self._timer = self._loop.call_later(self._systemd.feed_s, self._feed)


def status_line(state: NodeState) -> str:
    """Return how the node is on one line, for people."""
    agent, alerts = state.agent, len(state.alerts)
    parts = [
        f"network {state.network.value}, power {state.power.state.value}",
        f"{alerts} alert{'s' if alerts != 1 else ''}" if alerts else "no alerts",
        f"leg A {agent.leg_a}, leg B {agent.leg_b}, outbox {agent.outbox}",
    ]
    return one_line(" ".join("; ".join(parts).split()))
